//! When counters last increased, for problems that are recent, and how fast handlers are.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an increase is recent.
const RECENT: Duration = Duration::from_secs(300);
/// The most counters, so that handlers that come and go do not fill the memory.
const MOST: usize = 10_000;

/// The time over which the pace of a handler is measured.
const WINDOW: Duration = Duration::from_secs(10);
/// The least time over which it is measured.
const LEAST: Duration = Duration::from_secs(2);
/// The least time between two samples, however many clients read the state.
const STEP: Duration = Duration::from_millis(500);

/// The last values of counters, and the last samples of handlers, by name.
#[derive(Debug, Default)]
pub(crate) struct Trends {
    counters: Mutex<HashMap<String, (u64, Instant)>>,
    handlers: Mutex<HashMap<String, VecDeque<Sample>>>,
}

/// What a handler had done at a time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    delivered: u64,
    depth: usize,
}

/// Events in a second, over the last seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    pub(crate) handled: f64,
    pub(crate) arrived: f64,
}

impl Trends {
    /// Notes what a handler has done, and returns its pace if there is a sample of at least two seconds ago.
    pub(crate) fn pace(&self, handler: String, delivered: u64, depth: usize) -> Option<Pace> {
        let now = Instant::now();
        let mut handlers = self.handlers.lock();
        if handlers.len() >= MOST {
            handlers
                .retain(|_, samples| samples.back().is_some_and(|last| now.duration_since(last.at) < WINDOW));
        }
        let samples = handlers.entry(handler).or_default();
        while samples.front().is_some_and(|first| now.duration_since(first.at) > WINDOW) {
            samples.pop_front();
        }
        // A handler that was added again under its name.
        if samples.back().is_some_and(|last| last.delivered > delivered) {
            samples.clear();
        }
        if samples.back().is_none_or(|last| now.duration_since(last.at) >= STEP) {
            samples.push_back(Sample { at: now, delivered, depth });
        }
        let first = samples.front()?;
        let elapsed = now.duration_since(first.at);
        if elapsed < LEAST {
            return None;
        }
        let handled = delivered.saturating_sub(first.delivered);
        let arrived = (handled.saturating_add(depth as u64)).saturating_sub(first.depth as u64);
        let in_a_second = |events: u64| events as f64 / elapsed.as_secs_f64();
        Some(Pace { handled: in_a_second(handled), arrived: in_a_second(arrived) })
    }

    /// Notes the value of a counter, and returns whether it has increased recently.
    pub(crate) fn has_increased(&self, counter: String, value: u64) -> bool {
        if value == 0 {
            return false;
        }
        let now = Instant::now();
        let mut counters = self.counters.lock();
        if counters.len() >= MOST {
            counters.retain(|_, (_, at)| now.duration_since(*at) < RECENT);
        }
        let (known, at) = counters.entry(counter).or_insert((value, now));
        if value > *known {
            *at = now;
        }
        *known = value;
        now.duration_since(*at) < RECENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_increase_is_recent_for_a_while() {
        let trends = Trends::default();
        let has_increased = |value| trends.has_increased("panics".to_owned(), value);
        assert!(!has_increased(0));
        assert!(has_increased(1));
        tokio::time::advance(RECENT).await;
        assert!(!has_increased(1));
        assert!(has_increased(2));
    }

    #[tokio::test(start_paused = true)]
    async fn pace_is_measured_over_the_last_seconds() {
        let trends = Trends::default();
        let pace = |delivered, depth| trends.pace("audit".to_owned(), delivered, depth);
        let pair = |handled, arrived| Some(Pace { handled, arrived });
        assert_eq!(pace(10, 5), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(pace(11, 9), None, "one second is too short");
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(pace(12, 43), pair(0.5, 10.0), "of 40 events that arrived, 2 were handled");
        tokio::time::advance(Duration::from_secs(7)).await;
        // The sample of 11 s ago is too old.
        assert_eq!(pace(52, 3), pair(4.1, 3.5));
        assert_eq!(pace(1, 3), None, "another handler");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pace(1, 3), None, "what was noted long ago says nothing about the last seconds");
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(pace(1, 1), pair(0.0, 0.0), "merged events");
    }
}
