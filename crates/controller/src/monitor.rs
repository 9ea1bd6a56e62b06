//! Reads what a controller does.

use std::fmt;
use std::sync::Arc;

use kinformer::ObjectKey;

use crate::failures::FailedReconciliation;
use crate::health::ControllerState;
use crate::metrics::ControllerMetrics;
use crate::worker::Workers;

/// Reads the metrics, the state and the last errors of a [`Controller`](crate::Controller).
///
/// Its text is for a test that fails: the state, and the last errors, one a line.
pub struct Monitor<K = ObjectKey> {
    workers: Arc<Workers<K>>,
}

impl<K> Monitor<K> {
    pub(crate) fn of(workers: Arc<Workers<K>>) -> Self {
        Self { workers }
    }

    /// Returns the current metrics.
    pub fn metrics(&self) -> ControllerMetrics {
        self.workers.metrics()
    }

    /// Returns the current state.
    pub fn state(&self) -> ControllerState {
        self.workers.status.get()
    }

    /// Returns the reconciliations that failed last, oldest first: at most 32, of all keys together.
    /// [`ControllerMetrics::failed`] counts all.
    pub fn failures(&self) -> Vec<Arc<FailedReconciliation<K>>> {
        self.workers.failures.read()
    }
}

impl<K> Clone for Monitor<K> {
    fn clone(&self) -> Self {
        Self { workers: self.workers.clone() }
    }
}

impl<K> fmt::Debug for Monitor<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("metrics", &self.metrics()).finish()
    }
}

impl<K: fmt::Debug> fmt::Display for Monitor<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ControllerMetrics { succeeded, failed, active, .. } = self.metrics();
        let (name, state) = (&self.workers.name, self.state());
        write!(
            f,
            "controller {name}, {state}: {succeeded} reconciliations succeeded, {failed} failed, {active} running"
        )?;
        self.failures().iter().try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}
