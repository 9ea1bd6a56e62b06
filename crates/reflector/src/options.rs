//! What can be set of a reflector before it runs.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::{Backoff, RequestLimit, SourceError};

/// The settings of a [`Reflector`](crate::Reflector). The defaults are meant for a real cluster.
#[derive(Clone)]
#[non_exhaustive]
pub struct ReflectorOptions {
    pub(crate) resync_period: Option<Duration>,
    pub(crate) take_due_resyncs: Option<Arc<TakeDueResyncs>>,
    pub(crate) page_size: Option<NonZeroU32>,
    pub(crate) watch_list: WatchListMode,
    pub(crate) watch_list_deadline: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) min_watch_timeout: Duration,
    pub(crate) stall_margin: Duration,
    pub(crate) list_timeout: Duration,
    pub(crate) internal_error_window: Duration,
    pub(crate) error_hook: Option<Arc<ErrorHook>>,
    pub(crate) consistency_check: ConsistencyCheck,
    pub(crate) request_limit: RequestLimit,
}

pub(crate) type TakeDueResyncs = dyn Fn() -> bool + Send + Sync;
pub(crate) type ErrorHook = dyn Fn(&Failure<'_>) + Send + Sync;

/// Shorter watches would be a burden on the server for nothing.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// Whether the initial list comes as a watch (`sendInitialEvents`), which costs the server far less memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchListMode {
    /// If the source can, until its server is found not to; then lists, for good. The default.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always. Without support there is no list at all, only errors that say so.
    Always,
}

/// Whether every list is made twice and compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum ConsistencyCheck {
    #[default]
    Off,
    On,
}

/// Something that went wrong, as the error hook sees it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The name of the reflector.
    pub reflector: &'a str,
    /// What went wrong.
    pub error: &'a SourceError,
    /// What the reflector does about it.
    pub recovery: Recovery,
    /// After how long it does so.
    pub delay: Duration,
    /// How many lists and watches in a row have failed by now; 0 if none did.
    pub failures: u32,
}

impl<'a> Failure<'a> {
    /// One object was affected, for a consumer of the reflector that reports to the same hook.
    #[doc(hidden)]
    pub fn skipped(reflector: &'a str, error: &'a SourceError) -> Self {
        Self { reflector, error, recovery: Recovery::Skip, delay: Duration::ZERO, failures: 0 }
    }
}

/// What the reflector does about something that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recovery {
    /// It goes on: one object, one event or one check was affected, no list or watch has ended.
    Skip,
    /// It watches again from the last version; nothing is listed.
    Rewatch,
    /// It lists again.
    Relist,
    /// It makes a plain list in the place of the watch-list.
    FallBackToList,
    /// It stops.
    Stop,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            resync_period: None,
            take_due_resyncs: None,
            page_size: None,
            watch_list: WatchListMode::Auto,
            watch_list_deadline: Duration::from_secs(120),
            backoff: Backoff::default(),
            min_watch_timeout: MIN_WATCH_TIMEOUT,
            stall_margin: Duration::from_secs(30),
            list_timeout: Duration::from_secs(600),
            internal_error_window: Duration::from_secs(60),
            error_hook: None,
            consistency_check: ConsistencyCheck::Off,
            request_limit: RequestLimit::Standard,
        }
    }
}

impl ReflectorOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often the sink is told to resync. Never by default, nor with zero. The period begins anew when a
    /// resync is done; there is none before the first list nor during a list.
    #[must_use]
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.resync_period = (!period.is_zero()).then_some(period);
        self
    }

    /// Called whenever the resync period is over: takes the resyncs that have become due, and says whether there are
    /// any. There is no resync if it says no or panics. Without this, every period ends with a resync.
    ///
    /// Follows client-go 1.37 (`ShouldResync`).
    #[must_use]
    pub fn take_due_resyncs(mut self, take: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.take_due_resyncs = Some(Arc::new(take));
        self
    }

    /// Asks for every list in pages of this size. By default only lists at version `0` or none are paged, by
    /// 500: an API server reads pages from its storage, not from its memory. A list of more than 10,000 pages is an
    /// error ([`SourceError::EndlessList`]).
    ///
    /// Follows client-go 1.37 (`WatchListPageSize`).
    #[must_use]
    pub fn page_size(mut self, objects: NonZeroU32) -> Self {
        self.page_size = Some(objects);
        self
    }

    /// Whether the initial list comes as a watch.
    #[must_use]
    pub fn watch_list(mut self, mode: WatchListMode) -> Self {
        self.watch_list = mode;
        self
    }

    /// How long a watch-list may take to its closing bookmark, 2 minutes by default; a quarter of that without
    /// any event is too long as well. Then a plain list takes its place.
    #[must_use]
    pub fn watch_list_deadline(mut self, deadline: Duration) -> Self {
        self.watch_list_deadline = deadline;
        self
    }

    /// The bound on the requests that the reflector starts. By default at most 10 in any 10 seconds and at most 30 in
    /// any minute.
    #[must_use]
    pub fn request_limit(mut self, limit: RequestLimit) -> Self {
        self.request_limit = limit;
        self
    }

    /// The delays between tries.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The shortest time for which a watch is asked; the time of each watch is random between this and twice
    /// this. Less than 5 minutes, the default, counts as 5 minutes.
    ///
    /// Follows client-go 1.37 (`MinWatchTimeout`).
    #[must_use]
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.min_watch_timeout = timeout.max(MIN_WATCH_TIMEOUT);
        self
    }

    /// As [`Self::min_watch_timeout`], without its lower bound: for tests, and for a source that is not a
    /// shared server.
    #[must_use]
    pub fn min_watch_timeout_unbounded(mut self, timeout: Duration) -> Self {
        self.min_watch_timeout = timeout;
        self
    }

    /// A watch that is silent for longer than it was asked to last, plus this margin, is given up: the
    /// connection is dead. 30 seconds by default.
    #[must_use]
    pub fn stall_margin(mut self, margin: Duration) -> Self {
        self.stall_margin = margin;
        self
    }

    /// How long one answer to a list (one page) may take, 10 minutes by default. All pages of a list together may take
    /// an hour.
    #[must_use]
    pub fn list_timeout(mut self, timeout: Duration) -> Self {
        self.list_timeout = timeout;
        self
    }

    /// For how long internal errors (500) of a watch are answered by watching again before they are answered
    /// by a list. 1 minute by default; zero means a list at once.
    ///
    /// Follows client-go 1.37 (`MaxInternalErrorRetryDuration`), where the default is zero and there is no
    /// delay between the tries.
    #[must_use]
    pub fn internal_error_window(mut self, window: Duration) -> Self {
        self.internal_error_window = window;
        self
    }

    /// Called with everything that goes wrong, from within the reflector: it should return quickly. A panic of
    /// it is contained.
    ///
    /// Follows client-go 1.37 (`WatchErrorHandler`).
    #[must_use]
    pub fn error_hook(mut self, hook: impl Fn(&Failure<'_>) + Send + Sync + 'static) -> Self {
        self.error_hook = Some(Arc::new(hook));
        self
    }

    /// Lists a second time after every list, at exactly its version, and reports
    /// [`SourceError::Inconsistent`] when keys or versions differ. For tests and CI: it doubles the cost.
    ///
    /// Follows client-go 1.37 (`KUBE_WATCHLIST_INCONSISTENCY_DETECTOR`), which panics instead.
    #[must_use]
    pub fn check_consistency(mut self) -> Self {
        self.consistency_check = ConsistencyCheck::On;
        self
    }
}

impl fmt::Debug for ReflectorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorOptions")
            .field("resync_period", &self.resync_period)
            .field("page_size", &self.page_size)
            .field("watch_list", &self.watch_list)
            .field("watch_list_deadline", &self.watch_list_deadline)
            .field("backoff", &self.backoff)
            .field("min_watch_timeout", &self.min_watch_timeout)
            .field("stall_margin", &self.stall_margin)
            .field("list_timeout", &self.list_timeout)
            .field("internal_error_window", &self.internal_error_window)
            .field("consistency_check", &self.consistency_check)
            .field("request_limit", &self.request_limit)
            .finish_non_exhaustive()
    }
}
