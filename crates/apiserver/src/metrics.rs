//! Metrics of the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::faults::Verb;

/// Metrics of a running server at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerMetrics {
    /// Requests by verb and resource (the plural; empty for requests without a resource).
    pub requests: BTreeMap<(Verb, String), u64>,
    /// Open watches.
    pub open_watches: u64,
    /// Open connections.
    pub open_connections: u64,
    /// Bytes written to connections: the heads and bodies of responses, without those of TLS.
    pub bytes_sent: u64,
    /// Events sent to watches, without bookmarks.
    pub events_sent: u64,
    /// Watches that were closed because the history had overtaken them.
    pub watches_overtaken: u64,
    /// The newest resource version.
    pub version: u64,
}

impl ServerMetrics {
    /// Returns the number of requests with this verb for this resource.
    pub fn requests_for(&self, verb: Verb, resource: &str) -> u64 {
        self.requests.get(&(verb, resource.to_owned())).copied().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: Mutex<BTreeMap<(Verb, String), u64>>,
    pub(crate) open_watches: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) events_sent: AtomicU64,
    pub(crate) watches_overtaken: AtomicU64,
}

impl Counters {
    /// Counts a request. Only existing resources are counted by name, which bounds the map.
    pub(crate) fn request(&self, verb: Verb, resource: &str) {
        *self.requests.lock().entry((verb, resource.to_owned())).or_default() += 1;
    }

    pub(crate) fn read(&self, version: u64) -> ServerMetrics {
        ServerMetrics {
            requests: self.requests.lock().clone(),
            open_watches: self.open_watches.load(Ordering::Acquire),
            open_connections: self.open_connections.load(Ordering::Acquire),
            bytes_sent: self.bytes_sent.load(Ordering::Acquire),
            events_sent: self.events_sent.load(Ordering::Acquire),
            watches_overtaken: self.watches_overtaken.load(Ordering::Acquire),
            version,
        }
    }
}

/// Increments a gauge for as long as the value lives.
pub(crate) struct Open {
    counters: Arc<Counters>,
    which: fn(&Counters) -> &AtomicU64,
}

impl Open {
    pub(crate) fn count(counters: &Arc<Counters>, which: fn(&Counters) -> &AtomicU64) -> Self {
        which(counters).fetch_add(1, Ordering::AcqRel);
        Self { counters: counters.clone(), which }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        (self.which)(&self.counters).fetch_sub(1, Ordering::AcqRel);
    }
}
