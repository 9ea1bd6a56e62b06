//! The limit on requests, and opening a watch.

use std::time::Duration;

use kinformer_core::{Object, Sink};
use tokio::time::Instant;

use crate::machine::Machine;
use crate::state::count;
use crate::stream::{OpenWatch, watch_timeout};
use crate::{NextRequest, SourceError, StopReason, WatchOptions};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Waits until the limit on requests admits another one, and a list also for the `Retry-After` of the last one. Counts
    /// that request.
    pub(super) async fn admit(&mut self, next: NextRequest) -> Result<(), StopReason> {
        while let Some(delay) = self.requests.requested_delay(next) {
            self.back_off(delay, next).await?;
        }
        while let Some(delay) = self.requests.limit_delay() {
            let delayed = count(&self.shared.counters.requests_throttled);
            if delayed.is_power_of_two() {
                let reflector = &*self.shared.name;
                tracing::warn!(reflector, ?next, ?delay, delayed, "limit on requests reached");
            }
            self.back_off(delay, next).await?;
        }
        self.requests.start();
        Ok(())
    }

    /// Returns whether the newest version may be requested now. If so, counts the request.
    pub(super) fn admit_probe(&mut self, now: Instant) -> bool {
        let is_admitted = self.requests.start_probe(now);
        if is_admitted {
            count(&self.shared.counters.version_probes);
        }
        is_admitted
    }

    /// Returns the time at which the newest version is requested if the source stays silent.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        let due = self.probing.due_at(self.version.get())?;
        Some(self.requests.free_at().map_or(due, |free| free.max(due)))
    }

    pub(super) fn watch_timeout(&self) -> Duration {
        watch_timeout(self.options.min_watch_timeout)
    }

    pub(super) async fn open(
        &mut self,
        options: WatchOptions,
        deadline: Instant,
    ) -> Result<Result<OpenWatch<T>, SourceError>, StopReason> {
        let (started, margin) = (Instant::now(), self.options.stall_margin);
        let opened = self.or_cancel(OpenWatch::open(&*self.source, options, margin, deadline)).await?;
        if opened.as_ref().is_err_and(SourceError::is_unanswered) {
            self.requests.unanswered(started.elapsed());
        }
        Ok(opened)
    }
}
