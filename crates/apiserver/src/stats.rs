//! What the server has done so far.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::faults::Verb;

/// Figures of a running server, at the moment they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests by verb and resource (the plural; empty for what is about no resource).
    pub requests: BTreeMap<(Verb, String), u64>,
    /// Watches that are open now.
    pub open_watches: u64,
    /// Connections that are open now.
    pub open_connections: u64,
    /// Events sent to watchers, bookmarks not counted.
    pub events_sent: u64,
    /// Watches that were ended because they fell behind the history.
    pub watches_left_behind: u64,
    /// The newest version.
    pub version: u64,
}

impl Stats {
    /// Requests with this verb for this resource.
    pub fn requests_for(&self, verb: Verb, resource: &str) -> u64 {
        self.requests.get(&(verb, resource.to_owned())).copied().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: Mutex<BTreeMap<(Verb, String), u64>>,
    pub(crate) open_watches: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    pub(crate) events_sent: AtomicU64,
    pub(crate) watches_left_behind: AtomicU64,
}

impl Counters {
    /// Counts a request. Only resources that exist are counted by name, so that the table stays small.
    pub(crate) fn request(&self, verb: Verb, resource: &str) {
        *self.requests.lock().entry((verb, resource.to_owned())).or_default() += 1;
    }

    pub(crate) fn read(&self, version: u64) -> Stats {
        Stats {
            requests: self.requests.lock().clone(),
            open_watches: self.open_watches.load(Ordering::Acquire),
            open_connections: self.open_connections.load(Ordering::Acquire),
            events_sent: self.events_sent.load(Ordering::Acquire),
            watches_left_behind: self.watches_left_behind.load(Ordering::Acquire),
            version,
        }
    }
}

/// Counts something that is open for as long as it lives.
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
