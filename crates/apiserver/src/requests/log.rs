//! A ring of the newest requests.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::logged::{LoggedRequest, LoggedRequests};

/// The newest requests, up to a number of them. Requests are in the order in which they arrived.
pub(crate) struct RequestLog {
    capacity: usize,
    started: Instant,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    requests: VecDeque<Arc<LoggedRequest>>,
    /// The number of the first request in the ring.
    first: u64,
}

/// The number of a logged request.
#[derive(Clone, Copy)]
pub(crate) struct RequestNumber(u64);

impl RequestLog {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, started: Instant::now(), ring: Mutex::default() }
    }

    /// Logs a request that has arrived; `None` if no requests are logged.
    pub(crate) fn begin(&self, request: impl FnOnce() -> LoggedRequest) -> Option<RequestNumber> {
        if self.capacity == 0 {
            return None;
        }
        let request = Arc::new(LoggedRequest { since_start: self.started.elapsed(), ..request() });
        let mut ring = self.ring.lock();
        ring.requests.push_back(request);
        let number = RequestNumber(ring.first + ring.requests.len() as u64 - 1);
        let mut dropped = None;
        if ring.requests.len() > self.capacity {
            dropped = ring.requests.pop_front();
            ring.first += 1;
        }
        drop(ring);
        drop(dropped);
        Some(number)
    }

    /// Logs the status code of a request, `None` if its connection was closed without a response, and the message of a
    /// refused one.
    pub(crate) fn end(&self, number: RequestNumber, code: Option<u16>, message: &str) {
        let now = self.started.elapsed();
        let mut ring = self.ring.lock();
        let index = number.0.checked_sub(ring.first).and_then(|index| usize::try_from(index).ok());
        if let Some(request) = index.and_then(|index| ring.requests.get_mut(index)) {
            let request = Arc::make_mut(request);
            request.code = code;
            request.set_message(message);
            request.duration = Some(now.saturating_sub(request.since_start));
        }
    }

    pub(crate) fn read(&self) -> LoggedRequests {
        LoggedRequests::new(self.ring.lock().requests.iter().cloned().collect())
    }

    pub(crate) fn clear(&self) {
        let mut ring = self.ring.lock();
        ring.first += ring.requests.len() as u64;
        let dropped = std::mem::take(&mut ring.requests);
        drop(ring);
        drop(dropped);
    }
}
