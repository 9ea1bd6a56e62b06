//! Waits: delays between requests, and room in the sink.

use std::time::Duration;

use kinformer_core::internal::{contain, contain_async};
use kinformer_core::{Object, Sink};
use tokio::time::{Instant, sleep_until};

use crate::history::RETRY;
use crate::machine::{FOREVER, Machine};
use crate::probe::{Probe, ProbeEvent};
use crate::stream::finished;
use crate::{NextRequest, ReflectorState, StopReason};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    pub(super) async fn back_off(&mut self, delay: Duration, next: NextRequest) -> Result<(), StopReason> {
        self.shared.set_state(ReflectorState::BackingOff { next, delay, failures: self.attempts.failures() });
        let started = Instant::now();
        let mut until = started + delay.min(FOREVER);
        loop {
            let wake = self.resync_at.map_or(until, |resync| resync.min(until));
            if self.or_cancel(self.is_retry_requested_until(wake)).await? {
                until = until.min(started + RETRY);
            }
            if Instant::now() >= until {
                break;
            }
            if let Some(error) = self.resync_if_due().await? {
                self.report_skipped(error);
            }
        }
        Ok(())
    }

    /// Waits until a time, or until a request of a resource that is not served is asked for. Returns whether it was.
    async fn is_retry_requested_until(&self, wake: Instant) -> bool {
        if self.not_served.is_none() {
            sleep_until(wake).await;
            return false;
        }
        tokio::select! {
            biased;
            () = sleep_until(wake) => false,
            () = self.shared.retry_requested.notified() => true,
        }
    }

    pub(super) async fn or_cancel<F: Future>(&self, work: F) -> Result<F::Output, StopReason> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(StopReason::Cancelled),
            output = work => Ok(output),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        // After a panic, the delta is applied: a sink that panics there too is reported.
        contain(|| self.sink.is_ready()).unwrap_or(true)
    }

    pub(super) async fn wait_for_room(&self) -> Result<(), StopReason> {
        self.wait_for_room_or(&mut None).await.map(drop)
    }

    /// Waits until the sink has room, or the probe progresses, which a full sink does not delay.
    pub(super) async fn wait_for_room_or(
        &self,
        probe: &mut Option<Probe>,
    ) -> Result<Option<ProbeEvent>, StopReason> {
        if self.has_room() {
            return Ok(None);
        }
        let state = self.shared.set_state(ReflectorState::WaitingForSink);
        let ready = contain_async(async { self.sink.ready().await });
        let event = self.or_cancel(async {
            tokio::select! {
                biased;
                event = finished(probe) => Some(event),
                _ = ready => None,
            }
        });
        let event = event.await?;
        self.shared.set_state(state);
        Ok(event)
    }
}
