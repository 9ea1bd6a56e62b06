//! The rate of requests of each informer.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The most lists and watches within a time.
const LIMITS: [(usize, Duration); 2] = [(10, Duration::from_secs(10)), (30, Duration::from_secs(60))];

/// The requests of the last minute, by path: each part of an informer has its own.
#[derive(Debug, Default)]
pub(crate) struct RequestRate {
    recent: BTreeMap<String, VecDeque<Instant>>,
}

impl RequestRate {
    /// Counts a request.
    ///
    /// # Errors
    /// There were too many.
    pub(crate) fn request(&mut self, path: &str, query: &str, now: Instant) -> Result<(), String> {
        // The pages of a list count as one.
        if query.contains("continue=") {
            return Ok(());
        }
        let recent = self.recent.entry(path.to_owned()).or_default();
        recent.push_back(now);
        while recent.len() > LIMITS.iter().map(|(most, _)| *most).max().unwrap_or_default() + 1 {
            recent.pop_front();
        }
        for (most, time) in LIMITS {
            let within = recent.iter().filter(|earlier| now.duration_since(**earlier) < time).count();
            if within > most {
                return Err(format!("{within} requests of {path} within {time:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_a_limit_are_errors() {
        let (start, path) = (Instant::now(), "/api/v1/configmaps");
        let mut rate = RequestRate::default();
        for _ in 0..10 {
            assert_eq!(rate.request(path, "watch=true", start), Ok(()));
        }
        assert_eq!(rate.request(path, "limit=5&continue=x", start), Ok(()));
        assert_eq!(rate.request("/api/v1/secrets", "", start), Ok(()));
        assert!(rate.request(path, "", start + Duration::from_secs(9)).is_err());
        let mut rate = RequestRate::default();
        for second in 0..30 {
            assert_eq!(rate.request(path, "", start + Duration::from_millis(1_500 * second)), Ok(()));
        }
        assert!(rate.request(path, "", start + Duration::from_secs(59)).is_err());
    }
}
