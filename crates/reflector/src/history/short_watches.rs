//! Judges watches that the source closes: when they may be opened again.

use std::time::Duration;

use crate::SourceError;
use crate::backoff::lengthened;

/// A watch that ends sooner and delivered nothing new counts as very short.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// The longest delay before a watch is reopened that ended without an error. The delay is random, so that the clients
/// of a restarted server do not all return together.
const REOPEN_WITHIN: Duration = Duration::from_millis(500);
/// The number of very short watches in a row from which their end is a failure, whatever they delivered.
const MAX_IN_A_ROW: u32 = 5;

/// The number of consecutive watches that ended at once without an error.
#[derive(Debug, Default)]
pub(crate) struct ShortWatches(u32);

impl ShortWatches {
    /// Counts a watch that ended without an error. Returns the delay before the next one; `None` if the end counts as a
    /// failure.
    pub(crate) fn closed(&mut self, lasted: Duration, delivered: bool) -> Option<Duration> {
        let very_short = lasted < VERY_SHORT;
        self.0 = if very_short { self.0.saturating_add(1) } else { 0 };
        let reopens = (delivered || !very_short) && self.0 < MAX_IN_A_ROW;
        reopens.then(reopen_delay)
    }

    /// Ends the row, because a watch has failed.
    pub(crate) fn failed(&mut self) {
        self.0 = 0;
    }
}

fn reopen_delay() -> Duration {
    lengthened(Duration::ZERO, REOPEN_WITHIN)
}

/// Returns the delay before the next watch, if the error is that the answer to a watch did not begin in time. The source may
/// withhold it until the first event, so no watch should be missing in the meantime; the time-out was the delay.
pub(crate) fn reopens_after(error: &SourceError) -> Option<Duration> {
    match error {
        SourceError::Timeout { after } if is_alive_after(*after) => Some(reopen_delay()),
        _ => None,
    }
}

/// Returns whether a watch that ended without an error after this time shows that the source is alive.
pub(crate) fn is_alive_after(lasted: Duration) -> bool {
    lasted >= VERY_SHORT
}
