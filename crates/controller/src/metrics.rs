//! Metrics of a controller, under the names of controller-runtime.

use std::time::Duration;

use kinformer_workqueue::{Histogram, QueueMetrics};
use parking_lot::Mutex;

/// Metrics of a controller, read at one moment.
///
/// The names are those of controller-runtime's metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    #[doc(alias = "RecoverPanic")]
    pub panicked: u64,
    /// `controller_runtime_reconcile_timeouts_total`: those that took longer than the timeout.
    pub timed_out: u64,
    /// `controller_runtime_active_workers`: the reconciliations that run now.
    pub active: usize,
    /// `controller_runtime_max_concurrent_reconciles`: the number of workers.
    pub workers: usize,
    /// `controller_runtime_reconcile_time_seconds`: how long reconciliations took, with upstream's buckets from 5 ms to 60 s.
    pub reconcile_time: Histogram<40>,
    /// The metrics of the queue.
    pub queue: QueueMetrics,
    /// `workqueue_depth`: the number of queued keys of each priority that has any, lowest first.
    pub queue_depths: Vec<(i64, usize)>,
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self {
            succeeded: 0,
            requeued: 0,
            failed: 0,
            permanent: 0,
            panicked: 0,
            timed_out: 0,
            active: 0,
            workers: 0,
            reconcile_time: Histogram::new(&RECONCILE_TIMES),
            queue: QueueMetrics::default(),
            queue_depths: Vec::new(),
        }
    }
}

/// The bounds of controller-runtime 0.25.
static RECONCILE_TIMES: [Duration; 40] = {
    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }
    [
        ms(5),
        ms(10),
        ms(25),
        ms(50),
        ms(100),
        ms(150),
        ms(200),
        ms(250),
        ms(300),
        ms(350),
        ms(400),
        ms(450),
        ms(500),
        ms(600),
        ms(700),
        ms(800),
        ms(900),
        ms(1_000),
        ms(1_250),
        ms(1_500),
        ms(1_750),
        ms(2_000),
        ms(2_500),
        ms(3_000),
        ms(3_500),
        ms(4_000),
        ms(4_500),
        ms(5_000),
        ms(6_000),
        ms(7_000),
        ms(8_000),
        ms(9_000),
        ms(10_000),
        ms(15_000),
        ms(20_000),
        ms(25_000),
        ms(30_000),
        ms(40_000),
        ms(50_000),
        ms(60_000),
    ]
};

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

impl Outcome {
    pub(crate) const fn is_failure(self) -> bool {
        !matches!(self, Self::Succeeded | Self::Requeued)
    }

    /// Its name in a span.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "success",
            Self::Requeued => "requeue",
            Self::Failed => "error",
            Self::Permanent => "permanent_error",
            Self::Panicked => "panic",
            Self::TimedOut => "timeout",
        }
    }
}

/// Counts reconciliations.
pub(crate) struct Counters(Mutex<ControllerMetrics>);

impl Counters {
    pub(crate) fn new(workers: usize) -> Self {
        Self(Mutex::new(ControllerMetrics { workers, ..ControllerMetrics::default() }))
    }

    pub(crate) fn began(&self) {
        self.0.lock().active += 1;
    }

    pub(crate) fn ended(&self, outcome: Option<Outcome>, took: Duration) {
        let mut counters = self.0.lock();
        counters.active = counters.active.saturating_sub(1);
        counters.reconcile_time.record(took);
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

    pub(crate) fn read(&self, queue: QueueMetrics, queue_depths: Vec<(i64, usize)>) -> ControllerMetrics {
        ControllerMetrics { queue, queue_depths, ..self.0.lock().clone() }
    }
}
