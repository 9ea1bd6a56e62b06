//! How many lists and watches a reflector may start.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The bound on the lists and watches of one reflector, however they end.
///
/// A server that ends every watch at once and in good order, or answers every list with an error that is to be
/// answered by a list, cannot make a reflector ask faster than that. A request that would exceed the bound waits, in
/// [`ReflectorState::BackingOff`](crate::ReflectorState::BackingOff), and is counted in
/// [`ReflectorMetrics::requests_put_off`](crate::ReflectorMetrics::requests_put_off).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestLimit {
    /// At most 10 in any 10 seconds and at most 30 in any minute. All pages of a list count as one request, and so
    /// does a question for the newest version. The default.
    #[default]
    Standard,
    /// No bound but the delays after failures. For tests, and for a source in this process that ends a watch to
    /// announce a change.
    Off,
}

/// So many requests in any so long a time. In ascending order.
const WINDOWS: [(usize, Duration); 2] = [(10, Duration::from_secs(10)), (30, Duration::from_secs(60))];
const REMEMBERED: usize = 30;
/// The bound is to hold at the server as well, where requests arrive after times that differ.
const MARGIN: Duration = Duration::from_millis(100);

/// When the last requests were started.
pub(crate) struct RequestWindow {
    limit: RequestLimit,
    /// Oldest first; at most [`REMEMBERED`].
    starts: VecDeque<Instant>,
}

impl RequestWindow {
    pub(crate) fn new(limit: RequestLimit) -> Self {
        Self { limit, starts: VecDeque::new() }
    }

    /// From when on another request may start.
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

    /// A request starts.
    pub(crate) fn start(&mut self, now: Instant) {
        if self.starts.len() >= REMEMBERED {
            self.starts.pop_front();
        }
        self.starts.push_back(now);
    }
}
