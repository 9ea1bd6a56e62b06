//! Metrics of a recorder of events.

use std::sync::Arc;

use parking_lot::Mutex;

/// Metrics of an [`EventRecorder`](crate::events::EventRecorder), read at one moment. An event that only raises the count of a
/// series is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventMetrics {
    /// Events, and counts of series, that the API server has stored.
    pub written: u64,
    /// Those that wait, or whose request runs.
    pub pending: u64,
    /// Those that were dropped because too many waited.
    pub queue_full: u64,
    /// Those that the API server refused, for example because a permission is missing.
    pub refused: u64,
    /// Those that the API server did not store within the attempts.
    pub failed: u64,
    /// Those that the client of a leader election refused, because the process was not the leader.
    pub not_leader: u64,
    /// Those that were reported after the shutdown of the recorder, or not written before its limit.
    pub shut_down: u64,
}

impl EventMetrics {
    /// Returns the number of events that were lost, for whatever reason.
    pub fn lost(&self) -> u64 {
        self.queue_full + self.refused + self.failed + self.not_leader + self.shut_down
    }
}

/// Why an event was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    QueueFull,
    Refused,
    Failed,
    NotLeader,
    ShutDown,
}

#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<EventMetrics>);

impl Counters {
    pub(crate) fn read(&self) -> EventMetrics {
        *self.0.lock()
    }

    /// Counts a lost event; logs the first, second, fourth, eighth and so on.
    pub(crate) fn lose(&self, loss: Loss) {
        let lost = {
            let mut metrics = self.0.lock();
            *match loss {
                Loss::QueueFull => &mut metrics.queue_full,
                Loss::Refused => &mut metrics.refused,
                Loss::Failed => &mut metrics.failed,
                Loss::NotLeader => &mut metrics.not_leader,
                Loss::ShutDown => &mut metrics.shut_down,
            } += 1;
            metrics.lost()
        };
        if lost.is_power_of_two() {
            tracing::warn!(lost, reason = ?loss, "event lost");
        }
    }
}

/// An event that is to be written. If it is dropped before, it is counted as lost by the end of the recorder.
#[derive(Debug)]
pub(crate) struct Pending(Option<Arc<Counters>>);

impl Pending {
    pub(crate) fn new(counters: &Arc<Counters>) -> Self {
        counters.0.lock().pending += 1;
        Self(Some(counters.clone()))
    }

    fn end(&mut self) -> Option<Arc<Counters>> {
        let counters = self.0.take()?;
        counters.0.lock().pending -= 1;
        Some(counters)
    }

    /// The event is counted by a series.
    pub(crate) fn merged(mut self) {
        self.end();
    }

    pub(crate) fn written(mut self) {
        if let Some(counters) = self.end() {
            counters.0.lock().written += 1;
        }
    }

    pub(crate) fn lost(mut self, loss: Loss) {
        if let Some(counters) = self.end() {
            counters.lose(loss);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(counters) = self.end() {
            counters.lose(Loss::ShutDown);
        }
    }
}
