//! The settings of a reflector.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::pager::PAGE_TIMEOUT;
use crate::{Backoff, RequestLimit, SourceError};

/// The settings of a [`Reflector`](crate::Reflector). The defaults suit a real cluster.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_reflector::{Backoff, ReflectorOptions, WatchListMode};
///
/// let options = ReflectorOptions::new()
///     .watch_list(WatchListMode::Off)
///     .backoff(Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60)))
///     .error_hook(|failure| eprintln!("{}: {} (attempt {})", failure.reflector, failure.error, failure.failures));
/// # _ = options;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ReflectorOptions {
    pub(crate) resync_period: Option<Duration>,
    pub(crate) mark_due_resyncs: Option<Arc<MarkDueResyncs>>,
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

pub(crate) type MarkDueResyncs = dyn Fn() -> bool + Send + Sync;
pub(crate) type ErrorHook = dyn Fn(&Failure<'_>) + Send + Sync;

/// Shorter watches would load the server without a benefit.
pub(crate) const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// The time without a list and without a watch after which a watch that the source answers with an error leads to a list:
/// with the two delays that may follow, this is at most the minute that client-go waits for its next list.
pub(crate) const MAX_TIME_WITHOUT_LIST: Duration = Duration::from_secs(8);

/// The time for which a watch may be silent after its end is due.
pub(crate) const STALL_MARGIN: Duration = Duration::from_secs(30);

/// Whether the reflector requests the initial list as a watch (`sendInitialEvents`), which costs the server far less
/// memory.
#[doc(alias = "InitialListStrategy")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchListMode {
    /// Uses a watch-list if the source supports it. Once the server refuses one, or five in a row failed where lists
    /// succeed, uses only lists. The default.
    #[default]
    Auto,
    /// Never uses a watch-list.
    Off,
    /// Always uses a watch-list. If the server does not support it, every attempt fails and the reflector never lists.
    #[doc(alias = "StreamingList")]
    Always,
}

/// Whether every list is requested twice and compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum ConsistencyCheck {
    #[default]
    Off,
    On,
}

/// A failure, as passed to the error hook.
#[doc(alias = "DefaultWatchErrorHandler")]
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The name of the reflector.
    pub reflector: &'a str,
    /// The error.
    pub error: &'a SourceError,
    /// The reaction of the reflector.
    pub recovery: Recovery,
    /// The delay before that reaction.
    pub delay: Duration,
    /// The number of consecutive failed lists and watches; 0 if the last one succeeded.
    pub failures: u32,
}

impl<'a> Failure<'a> {
    /// Creates a failure of one object, for a consumer of the reflector that reports to the same hook.
    #[doc(hidden)]
    pub fn skipped(reflector: &'a str, error: &'a SourceError) -> Self {
        Self { reflector, error, recovery: Recovery::Skip, delay: Duration::ZERO, failures: 0 }
    }
}

/// The reaction of the reflector to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recovery {
    /// Continues: the failure concerned one object, one event or one check; no list or watch has ended.
    Skip,
    /// Watches again from the last version, without a list.
    Rewatch,
    /// Relists.
    Relist,
    /// Requests a plain list in place of the watch-list.
    FallBackToList,
    /// Stops.
    Stop,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            resync_period: None,
            mark_due_resyncs: None,
            page_size: None,
            watch_list: WatchListMode::Auto,
            watch_list_deadline: Duration::from_secs(120),
            backoff: Backoff::default(),
            min_watch_timeout: MIN_WATCH_TIMEOUT,
            stall_margin: STALL_MARGIN,
            list_timeout: PAGE_TIMEOUT,
            internal_error_window: MAX_TIME_WITHOUT_LIST,
            error_hook: None,
            consistency_check: ConsistencyCheck::Off,
            request_limit: RequestLimit::Standard,
        }
    }
}

impl ReflectorOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the period after which the sink receives a resync ([`Delta::SyncAll`](kinformer_core::Delta::SyncAll)). By
    /// default, and with a period of zero, there are no resyncs. The period restarts when a resync is done. No resync
    /// happens before the first list or during a list.
    #[doc(alias = "FullResyncPeriod")]
    #[must_use]
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.resync_period = (!period.is_zero()).then_some(period);
        self
    }

    /// Sets a function that is called at the end of each resync period: it takes the resyncs that are due and returns
    /// whether there are any. If it returns `false` or panics, the resync is skipped. Without this function, every
    /// period ends with a resync.
    ///
    /// Follows client-go 0.37 (`ShouldResync`).
    #[doc(alias("ShouldResync", "ShouldResyncFunc"))]
    #[must_use]
    pub fn mark_due_resyncs(mut self, mark: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.mark_due_resyncs = Some(Arc::new(mark));
        self
    }

    /// Requests every list in pages of this size. By default only lists at version `0` or at no version are paged, with
    /// 500 objects a page: an API server reads pages from its storage, not from its memory. A list of more than 10,000
    /// pages is an error ([`SourceError::EndlessList`]).
    ///
    /// Follows client-go 0.37 (`WatchListPageSize`).
    #[doc(alias = "WatchListPageSize")]
    #[must_use]
    pub fn page_size(mut self, objects: NonZeroU32) -> Self {
        self.page_size = Some(objects);
        self
    }

    /// Sets whether the reflector requests the initial list as a watch.
    #[doc(alias = "streaming_lists")]
    #[must_use]
    pub fn watch_list(mut self, mode: WatchListMode) -> Self {
        self.watch_list = mode;
        self
    }

    /// Sets the time within which a watch-list must deliver its closing bookmark: 2 minutes by default. A quarter of
    /// that time without an event is too long as well. A plain list then replaces the watch-list.
    #[must_use]
    pub fn watch_list_deadline(mut self, deadline: Duration) -> Self {
        self.watch_list_deadline = deadline;
        self
    }

    /// Sets the limit on the requests that the reflector starts. By default at most 10 in any 10 seconds and at most 30
    /// in any minute.
    #[must_use]
    pub fn request_limit(mut self, limit: RequestLimit) -> Self {
        self.request_limit = limit;
        self
    }

    /// Sets the delays between attempts.
    #[doc(alias("StreamBackoff", "trigger_backoff"))]
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the shortest requested duration of a watch. The duration of each watch is random between this and twice
    /// this. The default is 5 minutes; shorter values count as 5 minutes.
    ///
    /// Follows client-go 0.37 (`MinWatchTimeout`).
    #[must_use]
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.min_watch_timeout = timeout.max(MIN_WATCH_TIMEOUT);
        self
    }

    /// Sets the same as [`Self::min_watch_timeout`], without its lower bound: for tests, and for a source that is not a
    /// shared server.
    #[must_use]
    pub fn min_watch_timeout_unbounded(mut self, timeout: Duration) -> Self {
        self.min_watch_timeout = timeout;
        self
    }

    /// Sets the margin of the stall timeout: 30 seconds by default. A watch that is open for longer than its
    /// requested duration plus this margin is ended, and has failed if it was silent for as long as the margin: its
    /// connection is dead. The time in which the sink has no room does not count.
    #[must_use]
    pub fn stall_margin(mut self, margin: Duration) -> Self {
        self.stall_margin = margin;
        self
    }

    /// Sets the timeout of one answer to a list (one page): 10 minutes by default. All pages of a list together may
    /// take an hour.
    #[must_use]
    pub fn list_timeout(mut self, timeout: Duration) -> Self {
        self.list_timeout = timeout;
        self
    }

    /// Sets for how long the reflector watches again after internal errors (500) of a watch before it relists: 8 seconds
    /// by default. With zero it relists at once.
    ///
    /// Follows client-go 0.37 (`MaxInternalErrorRetryDuration`), where the default is zero and there is no delay
    /// between the attempts.
    #[doc(alias("MaxInternalErrorRetryDuration", "NewRetryWithDeadline", "RetryWithDeadline"))]
    #[must_use]
    pub fn internal_error_window(mut self, window: Duration) -> Self {
        self.internal_error_window = window;
        self
    }

    /// Sets a function that is called with every failure. It runs within the reflector and should return quickly. Its
    /// panics are contained.
    ///
    /// Follows client-go 0.37 (`WatchErrorHandler`).
    #[doc(alias("WatchErrorHandler", "WatchErrorHandlerWithContext"))]
    #[must_use]
    pub fn error_hook(mut self, hook: impl Fn(&Failure<'_>) + Send + Sync + 'static) -> Self {
        self.error_hook = Some(Arc::new(hook));
        self
    }

    /// Lists a second time after every list, at exactly its version, and reports [`SourceError::Inconsistent`] if keys
    /// or versions differ. For tests and CI: it doubles the cost.
    ///
    /// Follows client-go 0.37 (`KUBE_WATCHLIST_INCONSISTENCY_DETECTOR`), which panics instead.
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
