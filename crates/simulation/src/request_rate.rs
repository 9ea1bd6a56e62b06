//! The requests of each informer: their rate, their pages (L-17) and the delays that a server asks for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The most lists and watches within a time.
const LIMITS: [(usize, Duration); 2] = [(10, Duration::from_secs(10)), (30, Duration::from_secs(60))];

/// The requests of the last minute, by path: each part of an informer has its own. A path may have an informer of whole
/// objects and one of metadata.
#[derive(Debug, Default)]
pub(crate) struct RequestRate {
    paths: BTreeMap<String, BTreeMap<Projection, Requests>>,
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
    /// The queries of the pages since the last request that was not for a page.
    pages: BTreeSet<String>,
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
    /// There were too many, a page is requested again, or the server has asked for a delay.
    pub(crate) fn request(
        &mut self,
        kind: Kind,
        sender: Sender<'_>,
        query: &str,
        now: Instant,
    ) -> Result<(), String> {
        let path = sender.path;
        let (requests, is_certain) = self.requests(sender, now);
        let not_before = requests.not_before.get(&kind).filter(|_| is_certain);
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
            let is_new = requests.pages.insert(query.to_owned());
            return if is_new {
                Ok(())
            } else {
                Err(format!("a page of {path} is requested again: {query}"))
            };
        }
        requests.pages.clear();
        let recent = &mut requests.recent;
        recent.push_back(now);
        while recent.len() > LIMITS.iter().map(|(most, _)| *most).max().unwrap_or_default() + 1 {
            recent.pop_front();
        }
        for (most, time) in LIMITS {
            let within = requests.within(time, now);
            if within > most {
                return Err(format!("{within} requests of {path} within {time:?}"));
            }
        }
        Ok(())
    }

    /// The server has answered a request with `Retry-After`, which delays the next one of the same kind.
    pub(crate) fn retry_after(&mut self, kind: Kind, sender: Sender<'_>, seconds: u64, now: Instant) {
        let (requests, _) = self.requests(sender, now);
        let (answered, not_before) = requests.not_before.entry(kind).or_insert((now, now));
        *answered = now;
        *not_before = (now + Duration::from_secs(seconds)).max(*not_before);
    }

    /// Returns the requests of an informer, and whether it is certain that it has sent this one. If a path has two
    /// informers, a question counts for the one with fewer requests in the shortest time with a limit.
    fn requests(&mut self, Sender { path, projection }: Sender<'_>, now: Instant) -> (&mut Requests, bool) {
        let informers = self.paths.entry(path.to_owned()).or_default();
        let is_certain = projection.is_some() || informers.len() < 2;
        let shortest = LIMITS[0].1;
        let fewest = informers.iter().min_by_key(|(_, requests)| requests.within(shortest, now));
        let projection = projection.or(fewest.map(|(projection, _)| *projection));
        (informers.entry(projection.unwrap_or(Projection::Whole)).or_default(), is_certain)
    }
}

impl Requests {
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
    async fn a_page_is_requested_once_for_each_list() {
        let now = Instant::now();
        let mut rate = RequestRate::default();
        for page in ["limit=1", "limit=1&continue=a", "limit=1&continue=b", "limit=1", "limit=1&continue=a"] {
            assert_eq!(rate.request(Kind::List, MAPS, page, now), Ok(()));
        }
        assert!(rate.request(Kind::List, MAPS, "limit=1&continue=a", now).unwrap_err().contains("again"));
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
