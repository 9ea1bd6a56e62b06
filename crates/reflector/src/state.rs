//! The observable state of a reflector.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kinformer_core::{ResourceVersion, Wait};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::SourceError;

/// The state of a reflector.
///
/// ```text
/// Idle ──▶ WatchListing ──▶ Watching ◀──▶ Connecting        a watch that ends is reopened
///   │        │      ▲          │              │
///   │        ▼      │          ▼              ▼
///   └────▶ Listing  └───── BackingOff ◀───────┘             every end and every failure passes through here
///             └───▶ Connecting                              a list is followed by a watch
/// ```
///
/// | from | on | to |
/// |---|---|---|
/// | `Idle` | start | `WatchListing` if the source supports it, else `Listing` |
/// | `WatchListing` | the bookmark that ends the list | `Watching`, on the same stream |
/// | `WatchListing` | refused, or no such bookmark | `Listing`, and never again `WatchListing` |
/// | `WatchListing` | an error that another request may not change | `Listing`; the fifth time in a row, never again `WatchListing` |
/// | `WatchListing`, `Listing` | the version is expired or too large | the same, at no version, at once |
/// | `WatchListing`, `Listing` | another failure | `BackingOff`, then the same again |
/// | `Listing` | 404 for 30 s | `BackingOff` for a minute at least, or until a retry is requested, then `Listing` |
/// | `Listing` | a list | `Connecting` |
/// | `Connecting` | the watch is open | `Watching` |
/// | `WatchListing`, `Listing` | the list is older than the requested version | the same, at no version, at once |
/// | `Watching` | the source ends the watch without an error | `BackingOff` for half a second at most, then `Connecting` at the last version |
/// | `Connecting`, `Watching` | connection refused, 429, 500, a transport error, stalled, very short | `BackingOff`, then `Connecting` at the last version |
/// | `Connecting`, `Watching` | 410, a corrupt object, 404, a refused watch, or the fifth watch in a row without progress | `BackingOff`, then a list |
/// | `Connecting`, `Watching` | an unidentified event | `BackingOff`, then `Connecting` at the version before it; the second time at one version, a list |
/// | `Watching` | the last list was incomplete, and the next one is due | `Listing` |
/// | `Watching` | an event, or the newest version of the source, is below the version from which the watch was requested | `BackingOff`, then a list at no version |
/// | any | the limit on requests is reached | `BackingOff`, then the request |
/// | any | the sink has no room | `WaitingForSink`, then back |
/// | any | cancelled, the sink is closed | `Stopped` |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReflectorState {
    /// Created, not yet run.
    Idle,
    /// A list has been requested.
    Listing {
        /// The requested version: `0` for any state, unset for the newest.
        resource_version: ResourceVersion,
        /// The number of pages received.
        pages: u32,
    },
    /// A watch delivers the initial list.
    WatchListing {
        /// The lowest acceptable version; unset for the newest.
        resource_version: ResourceVersion,
    },
    /// A watch has been requested.
    Connecting {
        /// The version after which the watch starts.
        resource_version: ResourceVersion,
    },
    /// A watch is open.
    Watching {
        /// The version after which the watch started.
        resource_version: ResourceVersion,
    },
    /// The delay before the next request: after a failure, after a watch that ended without an error, or because the
    /// limit on requests is reached.
    BackingOff {
        /// The next request.
        next: NextRequest,
        /// The total length of the delay.
        delay: Duration,
        /// The number of consecutive failed lists and watches; 0 if the last one succeeded.
        failures: u32,
    },
    /// The sink has no room. The source is not read meanwhile.
    WaitingForSink,
    /// The reflector has ended.
    Stopped(StopReason),
}

/// The request that follows a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NextRequest {
    /// A watch-list where it is possible, else a list.
    List,
    /// A watch from the last version.
    Watch,
}

/// The reason for which a reflector stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// Its token was cancelled.
    Cancelled,
    /// The sink is closed.
    SinkClosed,
    /// The reflector or its `run` future was dropped.
    Dropped,
}

/// Counters of a reflector since its creation.
#[doc(alias = "MetricsProvider")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorMetrics {
    /// Requested lists. A paged list counts once, and so does a list that is repeated in one piece.
    pub lists: u64,
    /// Received pages of lists.
    pub pages: u64,
    /// Requested watch-lists.
    pub watch_lists: u64,
    /// Requested watches, without watch-lists.
    pub watches: u64,
    /// Watches that continued from the last version without a list.
    pub watch_restarts: u64,
    /// Complete lists given to the sink.
    pub replaces: u64,
    /// Lists and watch-lists requested after the first successful one.
    pub relists: u64,
    /// Received watch events, including bookmarks.
    pub events: u64,
    /// Received bookmarks.
    pub bookmarks: u64,
    /// Objects that could not be decoded.
    pub decode_errors: u64,
    /// Objects of the last list whose keys are unknown. While this is not 0, the last list is
    /// [incomplete](ReflectorHandle::incomplete_list). A gauge: a complete list resets it to 0.
    pub unidentified_objects: u64,
    /// Events that do not belong in a watch: of an unknown type, or with an object of another kind.
    pub unexpected_events: u64,
    /// Watches that ended within a second and delivered nothing new, and the fifth and later of a row of watches that
    /// ended within a second.
    pub very_short_watches: u64,
    /// Watches abandoned because they were silent for too long.
    pub stalled_watches: u64,
    /// Requests for the newest version of the source.
    pub version_probes: u64,
    /// Requests for the newest version that failed.
    pub version_probe_errors: u64,
    /// Times that the source's versions were found to have gone back.
    pub versions_went_back: u64,
    /// Signs of versions that have gone back that are ignored: see [`ReflectorHandle::ignores_versions`]. A gauge.
    pub ignored_version_signs: u64,
    /// 1 while the resource is [not watchable](ReflectorHandle::not_watchable). A gauge.
    pub not_watchable: u64,
    /// Delays of lists and watches by the [`RequestLimit`](crate::RequestLimit).
    pub requests_throttled: u64,
    /// Resyncs.
    pub resyncs: u64,
    /// Errors reported by the sink.
    pub sink_errors: u64,
    /// Lists and watches that ended in an error.
    pub failures: u64,
    /// Consecutive failures up to now; 0 again when a watch has delivered a change or a bookmark, or has ended in time. A gauge.
    pub consecutive_failures: u64,
}

/// Declares the counters once, under the names of the fields of [`ReflectorMetrics`].
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
            /// Adds up the metrics of several reflectors.
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
    unidentified_objects,
    unexpected_events,
    very_short_watches,
    stalled_watches,
    version_probes,
    version_probe_errors,
    versions_went_back,
    ignored_version_signs,
    not_watchable,
    requests_throttled,
    resyncs,
    sink_errors,
    failures,
    consecutive_failures,
);

/// Adds one and returns the new value.
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) counters: Counters,
    /// The number of reported errors that ended neither a list nor a watch.
    pub(crate) skipped: AtomicU64,
    version: Mutex<ResourceVersion>,
    last_error: Mutex<Option<Arc<SourceError>>>,
    incomplete_list: Mutex<Option<Arc<SourceError>>>,
    not_served: Mutex<Option<Arc<SourceError>>>,
    not_watchable: Mutex<Option<Arc<SourceError>>>,
    progress: watch::Sender<Progress>,
    /// The error that requested a relist.
    relist: Mutex<Option<SourceError>>,
    relist_requested: Notify,
    /// Ends the delay before the next request of a resource that is not served.
    pub(crate) retry_requested: Notify,
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
            skipped: AtomicU64::new(0),
            version: Mutex::default(),
            last_error: Mutex::default(),
            incomplete_list: Mutex::default(),
            not_served: Mutex::default(),
            not_watchable: Mutex::default(),
            progress: watch::Sender::new(Progress { state: ReflectorState::Idle, synced: false }),
            relist: Mutex::default(),
            relist_requested: Notify::new(),
            retry_requested: Notify::new(),
        }
    }

    /// Waits for a request to relist. Cancel-safe: a request stays until it is taken.
    pub(crate) async fn relist_requested(&self) -> SourceError {
        loop {
            self.relist_requested.notified().await;
            if let Some(error) = self.take_relist_request() {
                return error;
            }
        }
    }

    /// Removes the request to relist, because a list is about to be given to the sink.
    pub(crate) fn take_relist_request(&self) -> Option<SourceError> {
        self.relist.lock().take()
    }

    pub(crate) fn set_version(&self, version: ResourceVersion) {
        *self.version.lock() = version;
    }

    pub(crate) fn set_error(&self, error: Arc<SourceError>) {
        // The old error may hold a user's value: it is dropped after the lock is released.
        let _old = self.last_error.lock().replace(error);
    }

    /// Sets or clears the error of an incomplete list. Returns whether there was one before.
    pub(crate) fn set_incomplete_list(&self, error: Option<Arc<SourceError>>) -> bool {
        let old = std::mem::replace(&mut *self.incomplete_list.lock(), error);
        old.is_some()
    }

    /// Sets or clears the error of a resource that is not served.
    pub(crate) fn set_not_served(&self, error: Option<Arc<SourceError>>) {
        let _old = std::mem::replace(&mut *self.not_served.lock(), error);
    }

    /// Sets the last error as the error of a resource that cannot be watched, or clears it.
    pub(crate) fn set_not_watchable(&self, not_watchable: bool) {
        let error = if not_watchable { self.last_error.lock().clone() } else { None };
        self.counters.not_watchable.store(not_watchable.into(), Ordering::Relaxed);
        let _old = std::mem::replace(&mut *self.not_watchable.lock(), error);
    }

    pub(crate) fn is_not_watchable(&self) -> bool {
        self.counters.not_watchable.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn set_state(&self, state: ReflectorState) -> ReflectorState {
        let mut previous = ReflectorState::Idle;
        self.progress.send_modify(|p| previous = std::mem::replace(&mut p.state, state));
        previous
    }

    pub(crate) fn set_synced(&self) {
        self.progress.send_if_modified(|p| !std::mem::replace(&mut p.synced, true));
    }

    /// Records the end. Only the first reason is kept.
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

/// Observes a reflector. Cheap to clone; it keeps neither the reflector running nor its objects alive.
#[doc(alias = "ShutDownEventHandler")]
#[derive(Clone)]
pub struct ReflectorHandle {
    pub(crate) shared: Arc<Shared>,
}

impl ReflectorHandle {
    /// Returns the name of the reflector.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Requests a relist, because the consumer has lost something that the sink was given. The reflector closes its
    /// watch, reports this error, and relists after a delay, as after any failure.
    pub fn relist(&self, error: SourceError) {
        // The replaced value is a user's error: it is dropped after the lock is released.
        let _before = self.shared.relist.lock().replace(error);
        self.shared.relist_requested.notify_one();
    }

    /// Returns the last version: everything up to it has been given to the sink. Unset before the first list and for a
    /// source without versions.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_reflector::Reflector;
    /// # use kinformer_testing::{FakeSource, Item, RecordingSink};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1));
    /// # let sink = std::sync::Arc::new(RecordingSink::new());
    /// # let reflector = Reflector::new("items", source.clone(), sink.clone());
    /// let handle = reflector.handle();
    /// assert!(handle.last_version().is_unset());
    /// tokio::spawn(reflector.run(Default::default()));
    /// handle.wait_for_sync().await?;
    /// assert_eq!(handle.last_version(), source.version().into());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Follows client-go 0.37 (`LastSyncResourceVersion`).
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn last_version(&self) -> ResourceVersion {
        self.shared.version.lock().clone()
    }

    /// Returns the current counters.
    pub fn metrics(&self) -> ReflectorMetrics {
        self.shared.counters.read()
    }

    /// Returns the current state.
    pub fn state(&self) -> ReflectorState {
        self.shared.progress.borrow().state.clone()
    }

    /// Returns the last error of any kind.
    pub fn last_error(&self) -> Option<Arc<SourceError>> {
        self.shared.last_error.lock().clone()
    }

    /// Returns [`SourceError::IncompleteList`] while the last list is incomplete, that is, contains unidentified objects:
    /// their keys are unknown. Returns `None` after a complete list.
    ///
    /// The reflector keeps watching and applies all events, including deletions. An object missing in the incomplete list
    /// stays in the sink until a deletion or a complete list removes it. The reflector relists, with the delays of its
    /// [`Backoff`](crate::Backoff), until a list is complete. An incomplete first list counts as the first list for
    /// [`Self::is_synced`].
    pub fn incomplete_list(&self) -> Option<Arc<SourceError>> {
        self.shared.incomplete_list.lock().clone()
    }

    /// Returns [`SourceError::NotServed`] while the source answers 404: it does not have the resource, because its
    /// CustomResourceDefinition was deleted or is not installed yet, or because the version is not served. Returns
    /// [`SourceError::OtherScope`] while it has the resource with another scope. Returns `None` after any other answer or
    /// error.
    ///
    /// The reflector continues. After 30 s it requests the resource at most once a minute, and when
    /// [`Self::retry_if_not_served`] is called. It lists and watches it as soon as
    /// it is served again.
    ///
    /// The sink keeps its objects for 10 minutes. If each answer in that time was a 404, the sink receives an empty list: the
    /// objects count as deleted. A server that deletes a definition deletes its objects first, which a watch delivers; this
    /// is for objects whose deletion no watch has delivered.
    pub fn not_served(&self) -> Option<Arc<SourceError>> {
        self.shared.not_served.lock().clone()
    }

    /// Makes the reflector request a resource that is [not served](Self::not_served) now, instead of after the rest of its
    /// delay: for callers that have learnt in another way that the server serves it again, such as by discovery. There is at
    /// most one such request a second, however often this is called. Has no effect while the resource is served.
    pub fn retry_if_not_served(&self) {
        if self.not_served().is_some() {
            self.shared.retry_requested.notify_one();
        }
    }

    /// Returns the error with which the source refuses to be watched, while it does: the sink is then only as fresh as the
    /// last list. Returns `None` after a watch has been opened.
    ///
    /// Such errors are a refusal that another watch does not change: 400, 401, 403, 405, 406, 415, 422 and 501, and a watch
    /// that is answered by a list. The reflector lists after each of them, with the delays of its
    /// [`Backoff`](crate::Backoff), and watches again after each list.
    pub fn not_watchable(&self) -> Option<Arc<SourceError>> {
        self.shared.not_watchable.lock().clone()
    }

    /// Returns how often the source's versions have gone back: [`ReflectorMetrics::versions_went_back`] alone.
    pub fn versions_went_back(&self) -> u64 {
        self.shared.counters.versions_went_back.load(Ordering::Relaxed)
    }

    /// Returns whether the versions of events or of bookmarks, or the answers to the question for the newest version, are
    /// ignored as signs that the source's versions have gone back: each has been wrong twice about this source. They count again after an
    /// hour without such a sign, or when a list is below the last version.
    pub fn ignores_versions(&self) -> bool {
        self.shared.counters.ignored_version_signs.load(Ordering::Relaxed) > 0
    }

    /// Returns whether the sink has been given its first list.
    #[doc(alias = "HasSynced")]
    pub fn is_synced(&self) -> bool {
        self.shared.progress.borrow().synced
    }

    /// Returns whether the reflector has ended.
    pub fn is_stopped(&self) -> bool {
        self.shared.progress.borrow().stopped().is_some()
    }

    /// Waits until the sink has been given its first list. Any number of tasks may wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_reflector::Reflector;
    /// # use kinformer_testing::{FakeSource, Item, RecordingSink};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1));
    /// # let sink = std::sync::Arc::new(RecordingSink::new());
    /// # let reflector = Reflector::new("items", source.clone(), sink.clone());
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    ///
    /// let handle = reflector.handle();
    /// tokio::spawn(reflector.run(Default::default()));
    /// handle.wait_for_sync().until(Instant::now() + Duration::from_secs(60)).await?;
    /// assert!(handle.is_synced());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SourceError::NotSynced`], with the last error, if the reflector stops first, or [a deadline](Wait::until) passes.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the state, and a later call returns at once if the list has arrived.
    pub fn wait_for_sync(
        &self,
    ) -> Wait<impl Future<Output = Result<(), SourceError>>, impl Fn() -> Result<(), SourceError>> {
        let wait = async {
            let done = self.progress(|p| p.synced || p.stopped().is_some()).await;
            if done.is_some_and(|p| p.synced) { Ok(()) } else { Err(self.not_synced()) }
        };
        Wait::new(wait, || Err(self.not_synced()))
    }

    /// Waits until the reflector has stopped and returns the reason. Any number of tasks may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost: the reason is kept, and a later call returns it at once.
    pub async fn stopped(&self) -> StopReason {
        let done = self.progress(|p| p.stopped().is_some()).await;
        done.and_then(|p| p.stopped()).unwrap_or(StopReason::Dropped)
    }

    /// Waits for a state that satisfies `wanted`, or for the end of the reflector, and returns the state found. States
    /// that last only a moment may be missed.
    ///
    /// # Cancel safety
    /// States that pass between two calls are missed, as those that pass between two checks of one call. No event of
    /// the reflector is affected.
    pub async fn state_where(
        &self,
        wanted: impl Fn(&ReflectorState) -> bool + Send + Sync,
    ) -> ReflectorState {
        let done = self.progress(|p| wanted(&p.state) || p.stopped().is_some()).await;
        done.map_or(ReflectorState::Stopped(StopReason::Dropped), |p| p.state)
    }

    /// Waits for progress that satisfies `wanted`. Never returns `None` while `self` holds the sender.
    async fn progress(&self, wanted: impl Fn(&Progress) -> bool + Send) -> Option<Progress> {
        let mut receiver = self.shared.progress.subscribe();
        loop {
            // `wanted` may be user code: it runs on a copy, not under the channel's lock.
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
