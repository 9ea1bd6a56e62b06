//! Resyncs: the sink delivers all its objects again.

use kinformer_core::internal::contain;
use kinformer_core::{Delta, Error, Object, Sink};
use tokio::time::Instant;

use crate::machine::{FOREVER, Machine};
use crate::state::count;
use crate::{SourceError, StopReason};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    pub(super) fn schedule_resync(&mut self) {
        self.resync_at = self.options.resync_period.map(|period| Instant::now() + period.min(FOREVER));
    }

    pub(super) fn resync_at(&self) -> Option<Instant> {
        self.resync_at
    }

    /// Resyncs if the period is over. Returns the error of the sink, if there is one.
    pub(super) async fn resync_if_due(&mut self) -> Result<Option<SourceError>, StopReason> {
        if self.resync_at.is_none_or(|due| Instant::now() < due) {
            return Ok(None);
        }
        let wanted = self.options.mark_due_resyncs.as_ref().map_or(Ok(true), |mark| contain(|| mark()));
        let error = match wanted {
            Ok(true) => {
                self.wait_for_room().await?;
                match contain(|| self.sink.apply(Delta::SyncAll.into())) {
                    Ok(Ok(errors)) => {
                        self.report_errors("resync", errors);
                        count(&self.shared.counters.resyncs);
                        None
                    }
                    Ok(Err(Error::Closed)) => return Err(StopReason::SinkClosed),
                    Ok(Err(source)) => Some(SourceError::Sink { operation: "resync", source }),
                    Err(source) => Some(SourceError::Panic { operation: "resync", source }),
                }
            }
            Ok(false) => None,
            Err(source) => {
                self.report_skipped(SourceError::Panic { operation: "mark_due_resyncs", source });
                None
            }
        };
        self.schedule_resync();
        Ok(error)
    }
}
