//! Times and durations as text.

use std::time::Duration;

use jiff::Timestamp;

/// A time in UTC, with milliseconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// A duration in seconds, with one decimal.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
