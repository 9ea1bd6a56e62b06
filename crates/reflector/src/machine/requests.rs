//! The limit on requests, and opening a watch.

use std::time::Duration;

use kinformer_core::{Object, Sink};
use tokio::time::{Instant, timeout_at};

use crate::backoff::lengthened;
use crate::contained::contained;
use crate::machine::{FOREVER, Machine};
use crate::state::count;
use crate::stream::{GuardedStream, OpenWatch};
use crate::{NextRequest, SourceError, StopReason, WatchOptions};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Waits until the limit on requests admits another one, and counts that request.
    pub(super) async fn admit(&mut self, next: NextRequest) -> Result<(), StopReason> {
        while let Some(wait) =
            self.requests.free_at().and_then(|free| free.checked_duration_since(Instant::now()))
            && !wait.is_zero()
        {
            let delayed = count(&self.shared.counters.requests_throttled);
            let delay = lengthened(wait, wait / 4);
            if delayed.is_power_of_two() {
                let reflector = &*self.shared.name;
                tracing::warn!(reflector, ?next, ?delay, delayed, "limit on requests reached");
            }
            self.back_off(delay, next).await?;
        }
        self.requests.start(Instant::now());
        Ok(())
    }

    /// Returns whether the newest version may be requested now. If so, counts the request.
    pub(super) fn admit_probe(&mut self, now: Instant) -> bool {
        let free = self.requests.free_at().is_none_or(|free| free <= now);
        if free {
            count(&self.shared.counters.version_probes);
            self.requests.start(now);
        }
        free
    }

    /// Returns the time at which the newest version is requested if the source stays silent.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        let due = self.probing.due_at(&self.version)?;
        Some(self.requests.free_at().map_or(due, |free| free.max(due)))
    }

    /// Returns a random duration for a watch, so that a thousand watches that started together do not end together.
    ///
    /// Follows client-go 0.37 (`minWatchTimeout`, `maxWatchTimeout`).
    pub(super) fn watch_timeout(&self) -> Duration {
        self.options.min_watch_timeout.min(FOREVER).mul_f64(1.0 + fastrand::f64())
    }

    pub(super) async fn open(
        &self,
        options: WatchOptions,
        deadline: Instant,
    ) -> Result<Result<OpenWatch<T>, SourceError>, StopReason> {
        let started = Instant::now();
        let timeout = options.timeout;
        let silence_limit = options.timeout.saturating_add(self.options.stall_margin).min(FOREVER);
        let request = contained("watch", async { self.source.watch(options).await });
        // A server may withhold even the head of its answer until the first event.
        let deadline = deadline.min(started + silence_limit);
        let answer = self.or_cancel(timeout_at(deadline, request)).await?;
        let answer = answer.unwrap_or_else(|_| Err(SourceError::WatchStalled { silent: started.elapsed() }));
        Ok(answer.map(|stream| OpenWatch {
            stream: GuardedStream::new(stream),
            started,
            timeout,
            silence_limit,
        }))
    }
}
