//! What can be seen of a running reflector.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kinformer_core::ResourceVersion;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::SourceError;

/// Where a reflector stands.
///
/// ```text
/// Idle ──▶ WatchListing ──▶ Watching ◀──▶ Connecting        a watch that ends is opened again
///   │        │      ▲          │              │
///   │        ▼      │          ▼              ▼
///   └────▶ Listing  └───── BackingOff ◀───────┘             every end and every failure passes through here
///             └───▶ Connecting                              a list is followed by a watch
/// ```
///
/// | from | on | to |
/// |---|---|---|
/// | `Idle` | start | `WatchListing` if the source can, else `Listing` |
/// | `WatchListing` | the bookmark that ends the list | `Watching`, on the same stream |
/// | `WatchListing` | refused, or no such bookmark | `Listing`, and never again `WatchListing` |
/// | `WatchListing`, `Listing` | the version is expired or too large | the same, at no version, at once |
/// | `WatchListing`, `Listing` | another failure | `BackingOff`, then the same again |
/// | `Listing` | a list | `Connecting` |
/// | `Connecting` | the watch is open | `Watching` |
/// | `WatchListing`, `Listing` | the list is older than the version asked for | the same, at no version, at once |
/// | `Watching` | the source ends the watch in good order | `BackingOff` for half a second at most, then `Connecting` at the last version |
/// | `Connecting`, `Watching` | connection refused, 429, 500, broken, stalled, very short | `BackingOff`, then `Connecting` at the last version |
/// | `Connecting`, `Watching` | 410, a corrupt object, 404, or the fifth fruitless watch in a row | `BackingOff`, then a list |
/// | `Connecting`, `Watching` | an event that cannot be read | `BackingOff`, then `Connecting` at the version before it; the second time at one version, a list |
/// | `Watching` | the last list was incomplete, and it is time for another one | `Listing` |
/// | `Watching` | an event, or the newest version of the source, is below the version asked from | `BackingOff`, then a list at no version |
/// | any | the limit on requests is reached | `BackingOff`, then the request |
/// | any | the sink has no room | `WaitingForSink`, then back |
/// | any | cancelled, the sink is closed | `Stopped` |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReflectorState {
    /// Made, not yet run.
    Idle,
    /// A list is on its way.
    Listing {
        /// At which version; `0` for any, unset for the newest.
        resource_version: ResourceVersion,
        /// How many pages have come.
        pages: u32,
    },
    /// A watch brings the initial list.
    WatchListing {
        /// No older than this version; unset for the newest.
        resource_version: ResourceVersion,
    },
    /// A watch has been asked for.
    Connecting {
        /// From which version.
        resource_version: ResourceVersion,
    },
    /// A watch is open.
    Watching {
        /// From which version.
        resource_version: ResourceVersion,
    },
    /// The time before the next request: after a failure, after a watch that ended in good order, or because the
    /// limit on requests is reached.
    BackingOff {
        /// What is tried next.
        next: NextRequest,
        /// How long this takes in all.
        delay: Duration,
        /// How many lists and watches in a row have failed; 0 if none has.
        failures: u32,
    },
    /// The sink has no room; the source is not read meanwhile.
    WaitingForSink,
    /// It will do nothing any more.
    Stopped(StopReason),
}

/// What comes after a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NextRequest {
    /// A list, or a watch-list where that is possible.
    List,
    /// A watch from the last version.
    Watch,
}

/// Why a reflector has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// Its token was cancelled.
    Cancelled,
    /// The sink takes nothing any more.
    SinkClosed,
    /// It was dropped, before it ran or while it ran.
    Dropped,
}

/// What a reflector has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorMetrics {
    /// Lists asked for (a paged list is one; the fallback of an expired page is part of it).
    pub lists: u64,
    /// Answers to lists: pages.
    pub pages: u64,
    /// Watch-lists asked for.
    pub watch_lists: u64,
    /// Watches asked for, watch-lists not among them.
    pub watches: u64,
    /// Of these, the ones that went on from the last version without a list.
    pub watch_restarts: u64,
    /// How often the sink was given a whole list.
    pub replaces: u64,
    /// Lists and watch-lists asked for after the first one that succeeded.
    pub relists: u64,
    /// Events of watches, bookmarks among them.
    pub events: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Objects that could not be decoded.
    pub decode_errors: u64,
    /// Objects of the last list whose keys could not be read; with any of them the reflector is
    /// [degraded](ReflectorHandle::degraded). Not counted up: 0 again after a complete list.
    pub unreadable_items: u64,
    /// Events that had no place in the watch.
    pub unexpected_events: u64,
    /// Watches that ended at once and brought nothing, or ended at once five times in a row or more.
    pub very_short_watches: u64,
    /// Watches that were given up because they were silent for too long.
    pub stalled_watches: u64,
    /// How often the source was asked for its newest version.
    pub version_probes: u64,
    /// Of these, the ones that ended in an error.
    pub version_probe_errors: u64,
    /// How often the versions of the source were found to have gone back.
    pub versions_went_back: u64,
    /// Lists and watches that had to wait because of the limit on requests.
    pub requests_put_off: u64,
    /// Resyncs.
    pub resyncs: u64,
    /// Problems the sink reported.
    pub sink_problems: u64,
    /// Lists and watches that ended in an error.
    pub failures: u64,
    /// How many of these in a row, up to now.
    pub consecutive_failures: u64,
}

/// Declares the counters once: their names are those of [`ReflectorMetrics`].
macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        #[derive(Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64),* }

        impl Counters {
            fn read(&self) -> ReflectorMetrics {
                ReflectorMetrics { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }

        impl std::iter::Sum for ReflectorMetrics {
            /// Of several reflectors together.
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::default(), |sum, next| Self { $($name: sum.$name.saturating_add(next.$name)),* })
            }
        }
    };
}

counters!(
    lists,
    pages,
    watch_lists,
    watches,
    watch_restarts,
    replaces,
    relists,
    events,
    bookmarks,
    decode_errors,
    unreadable_items,
    unexpected_events,
    very_short_watches,
    stalled_watches,
    version_probes,
    version_probe_errors,
    versions_went_back,
    requests_put_off,
    resyncs,
    sink_problems,
    failures,
    consecutive_failures,
);

/// Adds one and says how many there are now.
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) counters: Counters,
    version: Mutex<ResourceVersion>,
    last_error: Mutex<Option<Arc<SourceError>>>,
    degraded: Mutex<Option<Arc<SourceError>>>,
    progress: watch::Sender<Progress>,
    /// Why another list is wanted.
    relist: Mutex<Option<SourceError>>,
    relist_wanted: Notify,
}

#[derive(Clone)]
struct Progress {
    state: ReflectorState,
    synced: bool,
}

impl Progress {
    fn stopped(&self) -> Option<StopReason> {
        match self.state {
            ReflectorState::Stopped(reason) => Some(reason),
            _ => None,
        }
    }
}

impl Shared {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            counters: Counters::default(),
            version: Mutex::default(),
            last_error: Mutex::default(),
            degraded: Mutex::default(),
            progress: watch::Sender::new(Progress { state: ReflectorState::Idle, synced: false }),
            relist: Mutex::default(),
            relist_wanted: Notify::new(),
        }
    }

    /// Waits until another list is wanted. Cancel-safe.
    pub(crate) async fn relist_wanted(&self) -> SourceError {
        loop {
            self.relist_wanted.notified().await;
            if let Some(error) = self.forget_relist() {
                return error;
            }
        }
    }

    /// A list is about to be given to the sink: it is the one that is wanted.
    pub(crate) fn forget_relist(&self) -> Option<SourceError> {
        self.relist.lock().take()
    }

    pub(crate) fn set_version(&self, version: ResourceVersion) {
        *self.version.lock() = version;
    }

    pub(crate) fn set_error(&self, error: Arc<SourceError>) {
        // The old one holds what a user gave: it is dropped when the lock is free again.
        let _old = self.last_error.lock().replace(error);
    }

    /// Says whether it was degraded.
    pub(crate) fn set_degraded(&self, error: Option<Arc<SourceError>>) -> bool {
        let old = std::mem::replace(&mut *self.degraded.lock(), error);
        old.is_some()
    }

    pub(crate) fn set_state(&self, state: ReflectorState) -> ReflectorState {
        let mut previous = ReflectorState::Idle;
        self.progress.send_modify(|p| previous = std::mem::replace(&mut p.state, state));
        previous
    }

    pub(crate) fn set_synced(&self) {
        self.progress.send_if_modified(|p| !std::mem::replace(&mut p.synced, true));
    }

    /// The first reason stays.
    pub(crate) fn stop(&self, reason: StopReason) {
        self.progress.send_if_modified(|p| {
            let running = p.stopped().is_none();
            if running {
                p.state = ReflectorState::Stopped(reason);
            }
            running
        });
    }
}

/// Looks at a reflector from anywhere. Cheap to clone; it neither keeps the reflector running nor its
/// objects alive.
#[derive(Clone)]
pub struct ReflectorHandle {
    pub(crate) shared: Arc<Shared>,
}

impl ReflectorHandle {
    /// The name of the reflector.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Wants another list, because the consumer has lost something that the sink was given. The reflector gives up its
    /// watch and lists again after a delay, as after any failure; it reports this error.
    pub fn relist(&self, error: SourceError) {
        // What was there is a user's error, and dropped without the lock.
        let _before = self.shared.relist.lock().replace(error);
        self.shared.relist_wanted.notify_one();
    }

    /// The version that the reflector has seen: everything up to it has been given to the sink. Unset before
    /// the first list and for a source without versions.
    ///
    /// Follows client-go 1.37 (`LastSyncResourceVersion`).
    pub fn last_version(&self) -> ResourceVersion {
        self.shared.version.lock().clone()
    }

    /// What it has done up to now.
    pub fn metrics(&self) -> ReflectorMetrics {
        self.shared.counters.read()
    }

    /// Where it stands.
    pub fn state(&self) -> ReflectorState {
        self.shared.progress.borrow().state.clone()
    }

    /// The last error it met, of whatever kind.
    pub fn last_error(&self) -> Option<Arc<SourceError>> {
        self.shared.last_error.lock().clone()
    }

    /// [`SourceError::IncompleteList`] while the last list held objects whose keys could not be read; `None` otherwise.
    ///
    /// A degraded reflector goes on: it watches, and applies what the watch brings, deletions too. What was missing in
    /// the incomplete list stays until a deletion comes or a list is complete. It lists again, with the delays of its
    /// [`Backoff`](crate::Backoff), until a list is complete. The first list counts for [`Self::is_synced`] though it be
    /// incomplete.
    pub fn degraded(&self) -> Option<Arc<SourceError>> {
        self.shared.degraded.lock().clone()
    }

    /// Whether the sink has been given a first whole list.
    pub fn is_synced(&self) -> bool {
        self.shared.progress.borrow().synced
    }

    /// Whether it will do nothing any more.
    pub fn is_stopped(&self) -> bool {
        self.shared.progress.borrow().stopped().is_some()
    }

    /// Waits until the sink has been given a first whole list. Cancel-safe; any number may wait.
    ///
    /// # Errors
    /// [`SourceError::NotSynced`] when the reflector stops before that, with the last error it met.
    pub async fn wait_for_sync(&self) -> Result<(), SourceError> {
        let done = self.progress(|p| p.synced || p.stopped().is_some()).await;
        if done.is_some_and(|p| p.synced) { Ok(()) } else { Err(self.not_synced()) }
    }

    /// As [`Self::wait_for_sync`], no longer than until `deadline`.
    ///
    /// # Errors
    /// [`SourceError::NotSynced`] when the reflector stops before that or the deadline passes.
    pub async fn wait_for_sync_until(&self, deadline: Instant) -> Result<(), SourceError> {
        let wait = tokio::time::timeout_at(deadline, self.wait_for_sync());
        wait.await.unwrap_or_else(|_| Err(self.not_synced()))
    }

    /// Waits until the reflector has stopped and says why. Cancel-safe; any number may wait.
    pub async fn stopped(&self) -> StopReason {
        let done = self.progress(|p| p.stopped().is_some()).await;
        done.and_then(|p| p.stopped()).unwrap_or(StopReason::Dropped)
    }

    /// As [`Self::stopped`], no longer than until `deadline`; `None` if it still runs then.
    pub async fn stopped_until(&self, deadline: Instant) -> Option<StopReason> {
        tokio::time::timeout_at(deadline, self.stopped()).await.ok()
    }

    /// Waits for a state that satisfies `wanted`, or for the end. Cancel-safe. States that last only a moment
    /// may be missed.
    pub async fn state_where(
        &self,
        wanted: impl Fn(&ReflectorState) -> bool + Send + Sync,
    ) -> ReflectorState {
        let done = self.progress(|p| wanted(&p.state) || p.stopped().is_some()).await;
        done.map_or(ReflectorState::Stopped(StopReason::Dropped), |p| p.state)
    }

    /// `None` cannot happen while `self` holds the sender, but costs nothing to allow.
    async fn progress(&self, wanted: impl Fn(&Progress) -> bool + Send) -> Option<Progress> {
        let mut receiver = self.shared.progress.subscribe();
        loop {
            // `wanted` may be a user's: it runs on a copy, not under the channel's lock.
            let progress = receiver.borrow_and_update().clone();
            if wanted(&progress) {
                return Some(progress);
            }
            receiver.changed().await.ok()?;
        }
    }

    fn not_synced(&self) -> SourceError {
        SourceError::NotSynced { name: self.name().to_owned(), last_error: self.last_error() }
    }
}

impl fmt::Debug for ReflectorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorHandle")
            .field("name", &self.shared.name)
            .field("state", &self.state())
            .field("last_version", &self.last_version())
            .finish_non_exhaustive()
    }
}
