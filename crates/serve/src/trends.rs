//! When counters last increased, for problems that are recent.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an increase is recent.
const RECENT: Duration = Duration::from_secs(300);
/// The most counters, so that handlers that come and go do not fill the memory.
const MOST: usize = 10_000;

/// The last values of counters, by name.
#[derive(Debug, Default)]
pub(crate) struct Trends(Mutex<HashMap<String, (u64, Instant)>>);

impl Trends {
    /// Notes the value of a counter, and returns whether it has increased recently.
    pub(crate) fn has_increased(&self, counter: String, value: u64) -> bool {
        if value == 0 {
            return false;
        }
        let now = Instant::now();
        let mut counters = self.0.lock();
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
}
