//! How often lists and watches of a reflector have failed in a row.

use std::time::Duration;

use tokio::time::Instant;

use crate::options::MAX_TIME_WITHOUT_LIST;

/// The number of watches without progress or failed watch-lists in a row after which the reflector lists, and after which
/// failed watch-lists count as unsupported. Errors that prove that no request was processed (connection refused, 429) do
/// not count: they are retried forever.
const MAX_WITHOUT_PROGRESS: u32 = 5;
/// The number of lists without a watch that is alive after which the resource counts as not watchable, whatever the errors.
const MIN_LISTS_WITHOUT_WATCH: u32 = 3;
/// The time without an internal error after which a new series of internal errors starts.
const INTERNAL_ERRORS_FORGOTTEN: Duration = Duration::from_secs(60);

/// The numbers of failures and of other attempts in a row.
pub(crate) struct Attempts {
    /// The number of consecutive failures of any kind.
    failures: u32,
    /// The number of consecutive watches without progress.
    without_progress: u32,
    /// The number of consecutive watch-lists that failed with an error that does not say whether the server lacks
    /// watch-lists or fails in general; 0 after a list that failed as well. If there are many, and the list that follows
    /// succeeds, watch-lists count as unsupported.
    failed_watch_lists: u32,
    /// The number of lists since the last watch that was alive.
    lists_without_watch: u32,
    /// The time of the last list, or of the end of the last watch after it that was alive.
    current_at: Instant,
    /// The times of the first and the last of a series of internal errors.
    internal_errors: Option<(Instant, Instant)>,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            failures: 0,
            without_progress: 0,
            failed_watch_lists: 0,
            lists_without_watch: 0,
            current_at: Instant::now(),
            internal_errors: None,
        }
    }

    /// The number of consecutive failures.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts a failure. Returns their number.
    pub(crate) fn failed(&mut self) -> u32 {
        self.failures = self.failures.saturating_add(1);
        self.failures
    }

    /// Records a watch that delivered something or lasted. Returns the number of failures before it.
    pub(crate) fn recovered(&mut self) -> u32 {
        self.without_progress = 0;
        std::mem::take(&mut self.failures)
    }

    /// Counts a watch without progress. Returns whether another one may succeed; if not, a list follows.
    pub(crate) fn note_watch_without_progress(&mut self) -> bool {
        self.without_progress = self.without_progress.saturating_add(1);
        self.without_progress < MAX_WITHOUT_PROGRESS
    }

    /// Starts counting watches without progress again, since a list follows.
    pub(crate) fn relists(&mut self) {
        self.without_progress = 0;
    }

    /// Records a watch that is or was alive.
    pub(crate) fn watch_was_alive(&mut self) {
        self.current_at = Instant::now();
        self.lists_without_watch = 0;
    }

    /// Records that the sink has the state of now.
    pub(crate) fn note_current(&mut self) {
        self.current_at = Instant::now();
    }

    /// Returns whether the last list or watch that was alive is so long ago that client-go would have listed.
    pub(crate) fn is_stale(&self) -> bool {
        self.current_at.elapsed() >= MAX_TIME_WITHOUT_LIST
    }

    /// Counts a list that the sink has.
    pub(crate) fn listed(&mut self) {
        self.lists_without_watch = self.lists_without_watch.saturating_add(1);
    }

    /// Returns whether there were many lists without a watch that was alive.
    pub(crate) fn has_many_lists_without_watch(&self) -> bool {
        self.lists_without_watch >= MIN_LISTS_WITHOUT_WATCH
    }

    pub(crate) fn watch_list_succeeded(&mut self) {
        (self.without_progress, self.failed_watch_lists) = (0, 0);
    }

    pub(crate) fn watch_list_failed(&mut self) {
        self.failed_watch_lists = self.failed_watch_lists.saturating_add(1);
    }

    /// Forgets the watch-lists that failed: something else shows why.
    pub(crate) fn forget_watch_lists(&mut self) {
        self.failed_watch_lists = 0;
    }

    /// Returns whether so many watch-lists failed that they count as unsupported if a list succeeds.
    pub(crate) fn watch_lists_fail(&self) -> bool {
        self.failed_watch_lists >= MAX_WITHOUT_PROGRESS
    }

    /// Records an internal error of the source. Returns whether it is within `window` after the first one of a series.
    pub(crate) fn note_internal_error(&mut self, window: Duration) -> bool {
        let now = Instant::now();
        let recent = self.internal_errors.filter(|(_, last)| now - *last < INTERNAL_ERRORS_FORGOTTEN);
        let first = recent.map_or(now, |(first, _)| first);
        let is_early = !window.is_zero() && now - first <= window;
        self.internal_errors = is_early.then_some((first, now));
        is_early
    }
}
