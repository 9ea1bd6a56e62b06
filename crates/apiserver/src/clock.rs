//! Wall-clock time that follows tokio's clock, so that timestamps stop when a test pauses the clock.

use jiff::Timestamp;
use tokio::time::Instant;

/// The wall-clock time at start, plus the time elapsed on tokio's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    wall: Timestamp,
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { wall: Timestamp::now(), started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.wall.saturating_add(self.started.elapsed()).unwrap_or(self.wall)
    }

    /// Returns the microseconds since 1970, at least 1.
    pub(crate) fn microseconds(&self) -> u64 {
        u64::try_from(self.now().as_microsecond()).unwrap_or(1).max(1)
    }

    /// Returns the time as in `metadata.creationTimestamp`: RFC 3339 with whole seconds.
    pub(crate) fn rfc3339(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Returns the time after some seconds, as [`Self::rfc3339`].
    pub(crate) fn rfc3339_after(&self, seconds: i64) -> String {
        let now = self.now();
        let then = now.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(now);
        then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Returns the whole seconds since an RFC 3339 time; `None` if the text does not parse.
    pub(crate) fn seconds_since(&self, time: &str) -> Option<i64> {
        let then: Timestamp = time.parse().ok()?;
        Some(self.now().as_second().saturating_sub(then.as_second()))
    }
}
