//! Metrics of a controller, under the names of controller-runtime.

use std::time::Duration;

use kinformer_workqueue::QueueMetrics;
use parking_lot::Mutex;

/// Metrics of a controller, read at one moment.
///
/// The names are those of controller-runtime's metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerMetrics {
    /// `controller_runtime_reconcile_total{result="success"}`: reconciliations that wait for the next change.
    pub succeeded: u64,
    /// `controller_runtime_reconcile_total{result="requeue_after"}`: reconciliations that requested another one.
    pub requeued: u64,
    /// `controller_runtime_reconcile_errors_total`: reconciliations that failed; includes the following three.
    pub failed: u64,
    /// `controller_runtime_terminal_reconcile_errors_total`: those with a [permanent](crate::ReconcileError::permanent)
    /// error.
    pub permanent: u64,
    /// `controller_runtime_reconcile_panics_total`: those that panicked.
    pub panicked: u64,
    /// `controller_runtime_reconcile_timeouts_total`: those that took longer than the timeout.
    pub timed_out: u64,
    /// `controller_runtime_active_workers`: the reconciliations that run now.
    pub active: usize,
    /// `controller_runtime_max_concurrent_reconciles`: the number of workers.
    pub workers: usize,
    /// The sum of `controller_runtime_reconcile_time_seconds`.
    pub busy: Duration,
    /// The metrics of the queue.
    pub queue: QueueMetrics,
}

/// How a reconciliation has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Requeued,
    Failed,
    Permanent,
    Panicked,
    TimedOut,
}

/// Counts reconciliations.
#[derive(Default)]
pub(crate) struct Counters(Mutex<ControllerMetrics>);

impl Counters {
    pub(crate) fn began(&self) {
        self.0.lock().active += 1;
    }

    pub(crate) fn ended(&self, outcome: Option<Outcome>, busy: Duration) {
        let mut counters = self.0.lock();
        counters.active = counters.active.saturating_sub(1);
        counters.busy = counters.busy.saturating_add(busy);
        let Some(outcome) = outcome else { return };
        let count = match outcome {
            Outcome::Succeeded => &mut counters.succeeded,
            Outcome::Requeued => &mut counters.requeued,
            Outcome::Failed => &mut counters.failed,
            Outcome::Permanent => &mut counters.permanent,
            Outcome::Panicked => &mut counters.panicked,
            Outcome::TimedOut => &mut counters.timed_out,
        };
        *count += 1;
        if matches!(outcome, Outcome::Permanent | Outcome::Panicked | Outcome::TimedOut) {
            counters.failed += 1;
        }
    }

    pub(crate) fn read(&self, workers: usize, queue: QueueMetrics) -> ControllerMetrics {
        ControllerMetrics { workers, queue, ..self.0.lock().clone() }
    }
}
