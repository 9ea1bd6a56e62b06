//! Chooses the step after a watch.

use std::time::Duration;

use kinformer_core::{Error, Object, Sink};

use crate::history::is_alive_after;
use crate::machine::apply::Progress;
use crate::machine::{Machine, Step};
use crate::state::count;
use crate::{NextRequest, Recovery, SourceError, StopReason};

/// The tolerance for the end of a watch: the source measures its duration in whole seconds and from another moment.
const TIMEOUT_GRAIN: Duration = Duration::from_secs(1);

/// The end of a watch.
pub(super) enum WatchEnd {
    /// The source ended the stream without an error.
    Closed,
    Failed(SourceError),
    /// The sink had no room for an event, which must be delivered again.
    NoRoom(Error),
    /// The sink failed to resync; the watch itself did not fail.
    Resync(SourceError),
    /// The sink panicked; its contents are unknown.
    SinkPanicked(SourceError),
    /// The last list was incomplete, or objects were left out, and the next list is due.
    RepeatDue,
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Counts the end of a watch and returns the next step.
    pub(super) async fn step_after(
        &mut self,
        end: WatchEnd,
        lasted: Duration,
        progress: &Progress,
    ) -> Result<Step<T>, StopReason> {
        let delivered = progress.moved || (progress.events > 0 && self.version.get().is_unset());
        // A failed watch does not count as alive for its duration: a connection may take long to fail.
        let alive = delivered || (matches!(end, WatchEnd::Closed) && is_alive_after(lasted));
        if alive {
            self.reset_failures();
            self.attempts.watch_was_alive();
        }
        let reopen_after = if matches!(end, WatchEnd::Closed) {
            self.short_watches.closed(lasted, delivered)
        } else {
            self.short_watches.failed();
            None
        };
        let in_time = matches!(end, WatchEnd::Closed) && lasted + TIMEOUT_GRAIN >= progress.timeout;
        if !in_time && matches!(end, WatchEnd::Closed | WatchEnd::Failed(_)) {
            self.probing.want();
        }
        let (is_refused, has_failed) = match &end {
            WatchEnd::Closed => (false, reopen_after.is_none()),
            WatchEnd::Failed(error) => (error.is_watch_refused(), true),
            _ => (false, false),
        };
        let is_polled = has_failed && self.attempts.has_many_lists_without_watch();
        let step = match end {
            WatchEnd::Closed => match reopen_after {
                Some(delay) => self.reopen(delay),
                None => self.fail_short(lasted, progress.events, alive),
            },
            WatchEnd::NoRoom(source) => {
                self.wait_for_room().await?;
                self.fail(SourceError::Sink { operation: "watch", source }, Recovery::Rewatch)
            }
            WatchEnd::Resync(error) => self.fail(error, Recovery::Rewatch),
            WatchEnd::SinkPanicked(error) => self.fail(error, Recovery::Relist),
            WatchEnd::RepeatDue => Step::RepeatIncompleteList,
            WatchEnd::Failed(error) => {
                if matches!(error, SourceError::WatchStalled { .. }) {
                    count(&self.shared.counters.stalled_watches);
                }
                let recovery = self.recovery(&error);
                self.fail(error, recovery)
            }
        };
        if is_refused || is_polled && !self.shared.is_not_watchable() {
            self.shared.set_not_watchable(true);
        }
        Ok(step)
    }

    /// Returns the step after a watch that the source closed in its time.
    fn reopen(&self, delay: Duration) -> Step<T> {
        match delay {
            delay if self.source_versions.repeats() => Step::BackOff { delay, next: NextRequest::List },
            // The next watch lacks what is deleted before it starts.
            _ if !self.source_versions.is_continuous() => Step::Watch(None),
            delay => Step::BackOff { delay, next: NextRequest::Watch },
        }
    }

    /// Returns the step after a series of watches that the source closed at once.
    fn fail_short(&mut self, lasted: Duration, events: u64, alive: bool) -> Step<T> {
        count(&self.shared.counters.very_short_watches);
        let error = SourceError::VeryShortWatch { lasted, events };
        let recovery = if alive { Recovery::Rewatch } else { self.recovery(&error) };
        self.fail(error, recovery)
    }

    /// Chooses the recovery from an error: a list only if another watch cannot repair it.
    fn recovery(&mut self, error: &SourceError) -> Recovery {
        if error.is_expired() {
            self.version.expired();
            return Recovery::Relist;
        }
        if error.is_too_large_resource_version() || matches!(error, SourceError::VersionsWentBack { .. }) {
            self.version.set_unavailable();
            return Recovery::Relist;
        }
        if !self.source_versions.is_continuous() {
            return Recovery::Relist;
        }
        if error.is_connection_refused() || error.is_too_many_requests() {
            return Recovery::Rewatch;
        }
        if matches!(error, SourceError::UnidentifiedEvent { .. }) {
            return self.after_unidentified_event();
        }
        if error.is_store_read_error() || error.is_not_found() {
            return Recovery::Relist;
        }
        if error.retry_after().is_some() {
            return self.rewatch_or_relist();
        }
        if error.is_internal() {
            return self.after_internal_error();
        }
        // client-go lists after each answer, unless it has a `Retry-After`.
        if error.is_watch_refused() || self.attempts.is_stale() && error.is_final_answer() {
            self.attempts.relists();
            return Recovery::Relist;
        }
        self.rewatch_or_relist()
    }

    /// Chooses the recovery from an unidentified event. Another watch delivers an event that was damaged in transit. If
    /// the event after one version is unidentified twice, the server itself cannot send it, and only a list helps.
    pub(super) fn after_unidentified_event(&mut self) -> Recovery {
        if self.version.note_unidentified() { Recovery::Relist } else { Recovery::Rewatch }
    }

    /// Watches again within the window after the first internal error, then relists.
    ///
    /// Follows client-go 0.37 (`RetryWithDeadline`).
    fn after_internal_error(&mut self) -> Recovery {
        let window = self.options.internal_error_window;
        if self.attempts.note_internal_error(window) { Recovery::Rewatch } else { Recovery::Relist }
    }

    /// Watches again, because the version may still be valid, and relists after several tries without progress.
    fn rewatch_or_relist(&mut self) -> Recovery {
        if self.attempts.note_watch_without_progress() && self.source_versions.is_continuous() {
            return Recovery::Rewatch;
        }
        self.attempts.relists();
        Recovery::Relist
    }
}
