//! The limit on the lists and watches that a reflector starts.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::lengthened;

/// The limit on the lists and watches that one reflector starts, however they end.
///
/// A server that ends every watch at once without an error, or fails every list with an error that leads to another
/// list, cannot make a reflector send more requests. A request that would exceed the limit is delayed, in
/// [`ReflectorState::BackingOff`](crate::ReflectorState::BackingOff), and the delay is counted in
/// [`ReflectorMetrics::requests_throttled`](crate::ReflectorMetrics::requests_throttled).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestLimit {
    /// At most 10 in any 10 seconds and at most 30 in any minute. All pages of a list count as one request, also those that are
    /// requested again after an error (up to 10 times). A list in one
    /// piece, which follows an expired page, counts too, and so does a request for the newest version. The default.
    #[default]
    Standard,
    /// No limit apart from the delays after failures. For tests, and for a source in this process that ends a watch to
    /// announce a change.
    Off,
}

/// The numbers of requests allowed in any time of these lengths, in ascending order.
const WINDOWS: [(usize, Duration); 2] = [(10, Duration::from_secs(10)), (30, Duration::from_secs(60))];
const REMEMBERED: usize = 30;
/// Added to each window, so that the limit also holds at the server, where requests arrive with varying latency.
const MARGIN: Duration = Duration::from_millis(100);

/// The times at which the last requests were started.
pub(crate) struct RequestWindow {
    limit: RequestLimit,
    /// Oldest first; at most [`REMEMBERED`].
    starts: VecDeque<Instant>,
}

impl RequestWindow {
    pub(crate) fn new(limit: RequestLimit) -> Self {
        Self { limit, starts: VecDeque::new() }
    }

    /// Returns the random delay of the next request; `None` if it may start now.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let wait = self.free_at()?.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero())?;
        Some(lengthened(wait, wait / 4))
    }

    /// Returns the time from which another request may start; `None` for now.
    pub(crate) fn free_at(&self) -> Option<Instant> {
        if self.limit == RequestLimit::Off {
            return None;
        }
        let free = WINDOWS.iter().filter_map(|(requests, span)| {
            let first = self.starts.get(self.starts.len().checked_sub(*requests)?)?;
            Some(*first + *span + MARGIN)
        });
        free.max()
    }

    /// Records the start of a request.
    pub(crate) fn start(&mut self, now: Instant) {
        if self.starts.len() >= REMEMBERED {
            self.starts.pop_front();
        }
        self.starts.push_back(now);
    }
}
