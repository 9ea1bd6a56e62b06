//! The requests of each informer: their rate, their pages (L-17) and the delays that a server asks for.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The most lists and watches within a time.
const LIMITS: [(usize, Duration); 2] = [(10, Duration::from_secs(10)), (30, Duration::from_secs(60))];

/// The most requests for a page (R-23h).
const MAX_FOR_A_PAGE: u32 = 11;

/// The requests of the last minute, by path: each part of an informer has its own. A path may have an informer of whole
/// objects and one of metadata.
#[derive(Debug, Default)]
pub(crate) struct RequestRate {
    paths: BTreeMap<String, Informers>,
}

/// The requests of the informers of a path.
#[derive(Debug, Default)]
struct Informers {
    requests: BTreeMap<Projection, Requests>,
    /// The questions of either of two informers.
    questions: Requests,
}

/// What an informer fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Projection {
    Whole,
    Metadata,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) path: &'a str,
    /// `None` for a question for the newest version, which each informer sends for metadata.
    pub(crate) projection: Option<Projection>,
}

/// The requests of one path.
#[derive(Debug, Default)]
struct Requests {
    recent: VecDeque<Instant>,
    /// The pages since the last request that was not for a page, by their queries: how often and when they were requested.
    pages: BTreeMap<String, (u32, Instant)>,
    /// The server has asked for no request of a kind before the second time, in an answer at the first.
    not_before: BTreeMap<Kind, (Instant, Instant)>,
}

/// How long an answer may take. Meanwhile a reflector may give up a watch for a list that is due, and does not know the answer.
const ANSWER: Duration = Duration::from_millis(50);

/// The kind of a request. A `Retry-After` delays requests of its own kind (R-20f).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A list or one of its pages.
    List,
    /// A watch or a watch-list.
    Watch,
    /// A question for the newest version.
    Question,
}

impl RequestRate {
    /// Counts a request.
    ///
    /// # Errors
    /// There were too many, a page is requested again too often or too soon, or the server has asked for a delay.
    pub(crate) fn request(
        &mut self,
        kind: Kind,
        sender: Sender<'_>,
        query: &str,
        now: Instant,
    ) -> Result<(), String> {
        let path = sender.path;
        let informers = self.paths.entry(path.to_owned()).or_default();
        let Some(requests) = informers.of(sender.projection) else {
            informers.questions.note(now);
            return informers.check_sum(path, now);
        };
        let not_before = requests.not_before.get(&kind);
        if let Some(early) = not_before.and_then(|(_, time)| time.checked_duration_since(now))
            && !early.is_zero()
        {
            return Err(format!("a request of {path} is {early:?} earlier than Retry-After"));
        }
        let answered = requests.not_before.get(&Kind::Watch).map(|(answered, _)| *answered);
        if kind == Kind::List && answered.is_some_and(|answered| now.duration_since(answered) < ANSWER) {
            requests.not_before.remove(&Kind::Watch);
        }
        // The pages of a list count as one.
        if query.contains("continue=") {
            let Some((times, last)) = requests.pages.get_mut(query) else {
                requests.pages.insert(query.to_owned(), (1, now));
                return Ok(());
            };
            let delay = now.duration_since(*last);
            (*times, *last) = (*times + 1, now);
            return if *times <= MAX_FOR_A_PAGE && delay >= Duration::from_secs(1) {
                Ok(())
            } else {
                Err(format!("a page of {path} is requested {times} times, last after {delay:?}: {query}"))
            };
        }
        requests.pages.clear();
        requests.note(now);
        for (most, time) in LIMITS {
            let within = requests.within(time, now);
            if within > most {
                return Err(format!("{within} requests of {path} within {time:?}"));
            }
        }
        Ok(())
    }

    /// Forgets all requests, but not which informers send them.
    pub(crate) fn forget_requests(&mut self) {
        for informers in self.paths.values_mut() {
            informers.questions = Requests::default();
            informers.requests.values_mut().for_each(|requests| *requests = Requests::default());
        }
    }

    /// The server has answered a request with `Retry-After`, which delays the next one of the same kind.
    pub(crate) fn retry_after(&mut self, kind: Kind, sender: Sender<'_>, seconds: u64, now: Instant) {
        let informers = self.paths.entry(sender.path.to_owned()).or_default();
        let Some(requests) = informers.of(sender.projection) else { return };
        let (answered, not_before) = requests.not_before.entry(kind).or_insert((now, now));
        *answered = now;
        *not_before = (now + Duration::from_secs(seconds)).max(*not_before);
    }
}

impl Informers {
    /// Returns the requests of an informer; `None` if it may be either of two.
    fn of(&mut self, projection: Option<Projection>) -> Option<&mut Requests> {
        let only = || self.requests.keys().next().copied().unwrap_or(Projection::Whole);
        let projection = match projection {
            Some(projection) => projection,
            None if self.requests.len() < 2 => only(),
            None => return None,
        };
        Some(self.requests.entry(projection).or_default())
    }

    /// Checks the requests of all informers, with the questions that either may have sent.
    fn check_sum(&self, path: &str, now: Instant) -> Result<(), String> {
        for (most, time) in LIMITS {
            let all = self.requests.values().chain([&self.questions]);
            let within: usize = all.map(|requests| requests.within(time, now)).sum();
            if within > most * self.requests.len() {
                return Err(format!("{within} requests of the informers of {path} within {time:?}"));
            }
        }
        Ok(())
    }
}

impl Requests {
    fn note(&mut self, now: Instant) {
        self.recent.push_back(now);
        while self.recent.len() > 2 * LIMITS.iter().map(|(most, _)| *most).max().unwrap_or_default() {
            self.recent.pop_front();
        }
    }

    /// The number of requests within a time.
    fn within(&self, time: Duration, now: Instant) -> usize {
        self.recent.iter().filter(|earlier| now.duration_since(**earlier) < time).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: Sender<'_> = Sender { path: "/api/v1/configmaps", projection: Some(Projection::Whole) };
    const SECRETS: Sender<'_> = Sender { path: "/api/v1/secrets", projection: Some(Projection::Whole) };

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_a_limit_are_errors() {
        let start = Instant::now();
        let mut rate = RequestRate::default();
        for _ in 0..10 {
            assert_eq!(rate.request(Kind::Watch, MAPS, "watch=true", start), Ok(()));
        }
        assert_eq!(rate.request(Kind::List, MAPS, "limit=5&continue=x", start), Ok(()));
        assert_eq!(rate.request(Kind::List, SECRETS, "", start), Ok(()));
        assert!(rate.request(Kind::List, MAPS, "", start + Duration::from_secs(9)).is_err());
        let mut rate = RequestRate::default();
        for second in 0..30 {
            assert_eq!(
                rate.request(Kind::List, MAPS, "", start + Duration::from_millis(1_500 * second)),
                Ok(())
            );
        }
        assert!(rate.request(Kind::List, MAPS, "", start + Duration::from_secs(59)).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_requested_once_for_each_list_or_again_after_a_delay() {
        let now = Instant::now();
        let mut rate = RequestRate::default();
        for page in ["limit=1", "limit=1&continue=a", "limit=1&continue=b", "limit=1", "limit=1&continue=a"] {
            assert_eq!(rate.request(Kind::List, MAPS, page, now), Ok(()));
        }
        let mut again = |seconds: u64| {
            rate.request(Kind::List, MAPS, "limit=1&continue=a", now + Duration::from_secs(seconds))
        };
        for second in 1..11 {
            assert_eq!(again(second), Ok(()));
        }
        assert!(again(11).unwrap_err().contains("requested 12 times"));
        assert_eq!(rate.request(Kind::List, MAPS, "limit=1", now), Ok(()));
        for is_early in [false, true] {
            assert_eq!(rate.request(Kind::List, MAPS, "limit=1&continue=a", now).is_err(), is_early);
        }
    }

    /// The second informer does not know of the delay that the first one has.
    #[tokio::test(start_paused = true)]
    async fn questions_of_two_informers_are_not_confused_afterwards() {
        let now = Instant::now();
        let metadata = Sender { projection: Some(Projection::Metadata), ..MAPS };
        let either = Sender { projection: None, ..MAPS };
        let mut rate = RequestRate::default();
        for sender in [MAPS, metadata] {
            assert_eq!(rate.request(Kind::Watch, sender, "watch=1", now), Ok(()));
        }
        rate.forget_requests();
        rate.retry_after(Kind::Question, either, 10, now);
        assert_eq!(rate.request(Kind::Watch, MAPS, "watch=1", now), Ok(()));
        assert_eq!(rate.request(Kind::Question, either, "limit=1", now), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_before_retry_after_is_an_error() {
        let now = Instant::now();
        let mut rate = RequestRate::default();
        rate.retry_after(Kind::List, MAPS, 10, now);
        assert_eq!(rate.request(Kind::List, SECRETS, "", now), Ok(()));
        assert_eq!(rate.request(Kind::Watch, MAPS, "watch=1", now), Ok(()));
        assert_eq!(rate.request(Kind::Question, MAPS, "limit=1", now), Ok(()));
        assert!(
            rate.request(Kind::List, MAPS, "", now + Duration::from_secs(9))
                .unwrap_err()
                .contains("1s earlier")
        );
        assert_eq!(rate.request(Kind::List, MAPS, "", now + Duration::from_secs(10)), Ok(()));
    }

    /// The reflector may have given up the watch for the list before it knew the answer.
    #[tokio::test(start_paused = true)]
    async fn a_list_just_after_retry_after_of_a_watch_may_be_followed_by_a_watch() {
        let now = Instant::now();
        for (delay, is_error) in [(9, false), (90, true)] {
            let mut rate = RequestRate::default();
            rate.retry_after(Kind::Watch, MAPS, 10, now);
            let list = now + Duration::from_millis(delay);
            assert_eq!(rate.request(Kind::List, MAPS, "", list), Ok(()));
            assert_eq!(rate.request(Kind::Watch, MAPS, "watch=1", list).is_err(), is_error);
        }
    }

    /// Questions are those of either of two informers of one path.
    #[tokio::test(start_paused = true)]
    async fn two_informers_of_a_path_have_a_rate_each() {
        let (now, mut rate) = (Instant::now(), RequestRate::default());
        let metadata = Sender { projection: Some(Projection::Metadata), ..MAPS };
        let either = Sender { projection: None, ..MAPS };
        for _ in 0..8 {
            assert_eq!(rate.request(Kind::List, MAPS, "", now), Ok(()));
            assert_eq!(rate.request(Kind::List, metadata, "", now), Ok(()));
        }
        rate.retry_after(Kind::Question, either, 10, now);
        for _ in 0..4 {
            assert_eq!(rate.request(Kind::Question, either, "limit=1", now), Ok(()));
        }
        assert!(rate.request(Kind::Question, either, "limit=1", now).is_err());
    }
}
