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
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = kinformer_apiserver::TestCluster::start().await?;
/// # let factory = kinformer::SharedInformerFactory::new(cluster.client());
/// use k8s_openapi::api::core::v1::Namespace;
/// use kinformer_controller::{CancellationToken, Controller, ReconcileError};
///
/// let controller = Controller::of(&factory).reconciles::<Namespace>();
/// let controller = controller.build(async |_| Err(ReconcileError::permanent("there is no quota")));
/// let (monitor, shutdown) = (controller.monitor(), CancellationToken::new());
/// let running = tokio::spawn(controller.run(shutdown.clone()));
/// let failure = cluster.eventually(|| monitor.failures().pop().ok_or("nothing has failed")).await?;
/// assert_eq!(failure.error, "there is no quota");
/// shutdown.cancel();
/// running.await??;
/// assert_eq!(monitor.metrics().failed, monitor.metrics().permanent);
/// # Ok(())
/// # }
/// ```
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
