//! The state of one server, which its requests share.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::cache::Cache;
use super::cluster::Cluster;
use super::faults::Faults;
use super::history::History;
use super::status::Status;

/// How long a request waits for the watch cache to reach a version. Follows kube-apiserver 1.37 (`blockTimeout`).
const BLOCK: Duration = Duration::from_secs(3);

/// How long a connection may take. Follows the TLS handshake of Go's `http.Transport`, and our client.
const CONNECT: Duration = Duration::from_secs(10);

/// How a watch whose version is too old, or too new, is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchErrors {
    /// By an event `ERROR` in a response with status 200, as in kube-apiserver.
    #[default]
    Events,
    /// By the status code of the response.
    Statuses,
}

/// The settings of a server.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The time between two bookmarks of a watch; 60 s by default.
    pub bookmark_interval: Duration,
    /// Whether `sendInitialEvents` is accepted; `true` by default.
    pub watch_lists: bool,
    /// How watches are refused.
    pub watch_errors: WatchErrors,
    /// The most items of a response, whatever limit the request has; `None` for the limit of the request.
    pub page_limit: Option<usize>,
    /// Whether config maps and metadata are sent in protobuf to clients that accept it; `false` by default.
    pub protobuf: bool,
    /// Whether shard selectors have an effect; `false` by default.
    pub shards: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bookmark_interval: Duration::from_secs(60),
            watch_lists: true,
            watch_errors: WatchErrors::default(),
            page_limit: None,
            protobuf: false,
            shards: false,
        }
    }
}

/// What requests read and write at one moment.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) cache: Cache,
    pub(crate) rng: Rng,
    pub(crate) faults: Faults,
    pub(crate) requests: u64,
    /// The newest version of a list, by resource and namespace.
    pub(crate) listed: BTreeMap<(String, Option<String>), u64>,
    /// The resources with a list that had an item without a name.
    pub(crate) incomplete: BTreeSet<String>,
    breaks: u64,
}

impl State {
    /// Records the version of a list.
    pub(crate) fn list_sent(&mut self, scope: (String, Option<String>), version: u64) {
        let newest = self.listed.entry(scope).or_default();
        *newest = version.max(*newest);
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cluster: Cluster,
    pub(crate) options: Options,
    /// Each body that is being sent has a clone.
    pub(crate) body: Arc<()>,
    state: Mutex<State>,
}

/// Identifies the connections that break together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    breaks: u64,
    restores: usize,
}

impl Shared {
    pub(crate) fn new(cluster: Cluster, seed: u64, options: Options) -> Self {
        let state = State {
            cache: cluster.read(Cache::new),
            rng: Rng::with_seed(seed),
            faults: Faults::default(),
            requests: 0,
            listed: BTreeMap::new(),
            incomplete: BTreeSet::new(),
            breaks: 0,
        };
        Self { cluster, options, body: Arc::default(), state: Mutex::new(state) }
    }

    /// Calls a function with the state, whose cache is refreshed, and the history.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&mut State, &History) -> R) -> R {
        let mut state = self.state.lock();
        self.cluster.read(|history| {
            state.cache.refresh(history, Instant::now());
            read(&mut state, history)
        })
    }

    /// Breaks all connections; with `restart`, the cache also begins again with the newest state.
    pub(crate) fn break_connections(&self, restart: bool) {
        self.with(|state, history| {
            state.breaks += 1;
            if restart {
                state.cache = Cache::new(history);
            }
        });
        self.cluster.notify();
    }

    pub(crate) fn connection(&self) -> Connection {
        self.with(|state, history| Connection { breaks: state.breaks, restores: history.restores() })
    }

    /// Waits until a connection breaks.
    pub(crate) async fn broken(&self, connection: Connection) {
        loop {
            let changed = self.cluster.next_change();
            if self.connection() != connection {
                return;
            }
            changed.await;
        }
    }

    /// Waits until an outage has ended, in which no connection is established.
    ///
    /// # Errors
    /// It has not ended in the time for a connection.
    pub(crate) async fn connected(&self) -> io::Result<()> {
        let deadline = Instant::now() + CONNECT;
        loop {
            let changed = self.cluster.next_change();
            if !self.with(|state, _| state.faults.is_outage()) {
                return Ok(());
            }
            timeout_at(deadline, changed).await.map_err(|_| io::ErrorKind::TimedOut)?;
        }
    }

    /// Waits until the cache has reached a version.
    pub(crate) async fn fresh(&self, version: u64) -> Result<(), Status> {
        let deadline = Instant::now() + BLOCK;
        loop {
            let changed = self.cluster.next_change();
            let (position, next) =
                self.with(|state, history| (state.cache.position(), state.cache.next_change(history)));
            if position >= version {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Status::too_large(version, position));
            }
            let until = next.map_or(deadline, |next| next.min(deadline));
            let _ = timeout_at(until, changed).await;
        }
    }
}
