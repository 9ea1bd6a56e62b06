//! Failures: counts, log lines, the error hook, and the delay before the next request.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kinformer_core::internal::contain;
use kinformer_core::{Object, Sink};

use crate::backoff::{WARN_FROM, after};
use crate::history::reopens_after;
use crate::machine::{Machine, Step};
use crate::options::ErrorHook;
use crate::pages::ReportRepetition;
use crate::spans;
use crate::state::{Shared, count};
use crate::{Failure, NextRequest, Recovery, SourceError};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Counts and reports a failure. Returns the step that waits before the next request.
    pub(super) fn fail(&mut self, error: SourceError, recovery: Recovery) -> Step<T> {
        let failures = self.attempts.failed();
        self.shared.counters.consecutive_failures.store(failures.into(), Ordering::Relaxed);
        let reopens_after = if recovery == Recovery::Rewatch { reopens_after(&error) } else { None };
        let error = self.failed_with(error);
        let delay = reopens_after.unwrap_or_else(|| after(&error, self.requests.next_delay()));
        let delay = delay.max(self.shortest_delay());
        self.report(error, recovery, delay);
        let next = if recovery == Recovery::Rewatch { NextRequest::Watch } else { NextRequest::List };
        Step::BackOff { delay, next }
    }

    /// Resets the counts of failures, because a watch has delivered something or lasted.
    pub(super) fn reset_failures(&mut self) {
        let failures = self.attempts.recovered();
        if failures >= WARN_FROM {
            tracing::info!(failures, "recovered");
        }
        self.shared.counters.consecutive_failures.store(0, Ordering::Relaxed);
    }

    /// Counts, logs and delivers the error that ended a list or watch.
    pub(super) fn report(&self, error: impl Into<Arc<SourceError>>, recovery: Recovery, delay: Duration) {
        let error = error.into();
        spans::failed(&self.span, &error);
        count(&self.shared.counters.failures);
        if matches!(*error, SourceError::VersionsWentBack { .. }) {
            count(&self.shared.counters.versions_went_back);
        }
        let (reflector, failures) = (&*self.shared.name, self.attempts.failures());
        let harmless = error.is_expired() || error.is_retryable() || recovery == Recovery::FallBackToList;
        if failures >= WARN_FROM || !harmless {
            tracing::warn!(reflector, %error, ?recovery, ?delay, failures, "list or watch failed");
        } else {
            tracing::debug!(reflector, %error, ?recovery, ?delay, failures, "list or watch failed");
        }
        self.deliver_error(error, recovery, delay);
    }

    /// Logs and delivers an error that ends neither a list nor a watch, such as that of one object. There may be very
    /// many: the error hook gets all; the log gets a warning for each power of two and each 1,000th, and the others at
    /// debug level.
    pub(super) fn report_skipped(&self, error: SourceError) {
        let so_far = self.shared.skipped.fetch_add(1, Ordering::Relaxed) + 1;
        let reflector = &*self.shared.name;
        if so_far.is_power_of_two() || so_far.is_multiple_of(1000) {
            tracing::warn!(reflector, %error, so_far, "error reported; the reflector continues");
        } else {
            tracing::debug!(reflector, %error, so_far, "error reported; the reflector continues");
        }
        self.deliver_error(error, Recovery::Skip, Duration::ZERO);
    }

    /// Publishes how many signs of versions that have gone back are ignored.
    pub(super) fn report_ignored_signs(&self) {
        let ignored = self.source_versions.ignored();
        if self.shared.counters.ignored_version_signs.swap(ignored, Ordering::Relaxed) < ignored {
            let reflector = &*self.shared.name;
            tracing::warn!(
                reflector,
                "the source's versions seemed to go back, but did not; ignoring that sign"
            );
        }
    }

    pub(super) fn unexpected(&self, what: String) {
        count(&self.shared.counters.unexpected_events);
        self.report_skipped(SourceError::Unexpected { what });
    }

    /// Stores the last error and passes it to the error hook.
    fn deliver_error(&self, error: impl Into<Arc<SourceError>>, recovery: Recovery, delay: Duration) {
        let (hook, failures) = (self.options.error_hook.as_deref(), self.attempts.failures());
        deliver(&self.shared, hook, &error.into(), (recovery, delay, failures));
    }

    /// Returns what reports the errors of pages that are requested again. The list continues.
    pub(super) fn report_of_pages(&self) -> ReportRepetition {
        let (shared, hook) = (self.shared.clone(), self.options.error_hook.clone());
        let failures = self.attempts.failures();
        Arc::new(move |error, delay| {
            let reflector = &*shared.name;
            tracing::debug!(reflector, %error, ?delay, "page of a list failed; it is requested again");
            deliver(&shared, hook.as_deref(), &Arc::new(error), (Recovery::Skip, delay, failures));
        })
    }
}

fn deliver(
    shared: &Shared,
    hook: Option<&ErrorHook>,
    error: &Arc<SourceError>,
    (recovery, delay, failures): (Recovery, Duration, u32),
) {
    shared.set_error(error.clone());
    if let Some(hook) = hook {
        let reflector = &*shared.name;
        let failure = Failure { reflector, error, recovery, delay, failures };
        if let Err(panic) = contain(|| hook(&failure)) {
            tracing::error!(reflector, %panic, "error hook panicked");
        }
    }
}
