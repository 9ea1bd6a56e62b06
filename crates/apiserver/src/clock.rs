//! Wall time that follows tokio's clock, so that a test that pauses the clock pauses timestamps too.

use jiff::Timestamp;
use tokio::time::Instant;

/// Wall time read once, plus what tokio's clock says has passed since.
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

    /// Since 1970, at least 1.
    pub(crate) fn microseconds(&self) -> u64 {
        u64::try_from(self.now().as_microsecond()).unwrap_or(1).max(1)
    }

    /// As `metadata.creationTimestamp` has it: RFC 3339 in whole seconds.
    pub(crate) fn rfc3339(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// How long ago an RFC 3339 time was, in whole seconds; `None` for what is no time.
    pub(crate) fn seconds_since(&self, time: &str) -> Option<i64> {
        let then: Timestamp = time.parse().ok()?;
        Some(self.now().as_second().saturating_sub(then.as_second()))
    }
}
