//! The workers, which reconcile keys.

use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kinformer_core::internal::panic_message;
use kinformer_workqueue::{Item, WorkQueue};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::action::{Action, ReconcileError};
use crate::health::Status;
use crate::metrics::{ControllerMetrics, Counters, Outcome};
use crate::request::Request;

/// A type of keys.
pub trait Key: Eq + Hash + Clone + fmt::Debug + Send + Sync + 'static {}

impl<T: Eq + Hash + Clone + fmt::Debug + Send + Sync + 'static> Key for T {}

pub(crate) type Reconcile<K> =
    dyn Fn(Request<K>) -> BoxFuture<'static, Result<Action, ReconcileError>> + Send + Sync;

/// What the workers of a controller share.
pub(crate) struct Workers<K> {
    pub(crate) name: Arc<str>,
    pub(crate) status: Arc<Status>,
    pub(crate) queue: WorkQueue<K>,
    pub(crate) reconcile: Box<Reconcile<K>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) counters: Counters,
    /// The key of each worker that is reconciling.
    pub(crate) in_flight: Mutex<Vec<Option<Arc<K>>>>,
}

impl<K> Workers<K> {
    pub(crate) fn metrics(&self) -> ControllerMetrics {
        let workers = self.in_flight.lock().len();
        self.counters.read(workers, self.queue.metrics())
    }
}

/// Ends a controller when it is dropped, also one that was never polled: its queue accepts no key any more.
pub(crate) struct Ending<K>(pub(crate) Arc<Workers<K>>);

impl<K> Drop for Ending<K> {
    fn drop(&mut self) {
        self.0.queue.shut_down();
        self.0.status.ended();
    }
}

/// A controller with keys of any type.
#[cfg(feature = "prometheus")]
pub(crate) trait Observed: Send + Sync {
    /// Returns the metrics; `None` if the controller has ended.
    fn current(&self) -> Option<ControllerMetrics>;
}

#[cfg(feature = "prometheus")]
impl<K: Key> Observed for Workers<K> {
    fn current(&self) -> Option<ControllerMetrics> {
        (!self.queue.is_shut_down()).then(|| self.metrics())
    }
}

type Ended = Result<Result<Result<Action, ReconcileError>, tokio::time::error::Elapsed>, Box<dyn Any + Send>>;

impl<K: Key> Workers<K> {
    /// Reconciles keys until the token is cancelled or the queue is shut down. A reconciliation that has begun is finished.
    pub(crate) async fn work(self: Arc<Self>, worker: usize, stop: CancellationToken) {
        while let Some(Some(item)) = stop.run_until_cancelled(self.queue.next()).await {
            if stop.is_cancelled() {
                return; // the key stays unprocessed, like the others in the queue
            }
            // Panics of a reconciliation are contained in `process`, and here those of the key's own methods.
            if let Err(panic) = AssertUnwindSafe(self.process(worker, item)).catch_unwind().await {
                let error = panic_message(panic);
                tracing::error!(controller = %self.name, %error, "key panicked; it is retried");
            }
        }
    }

    async fn process(&self, worker: usize, item: Item<K>) {
        let active = Active::new(self, worker, item.key());
        let request =
            Request { key: item.key().clone(), failures: item.retries(), priority: item.priority() };
        let reconciliation = AssertUnwindSafe(async {
            let future = (self.reconcile)(request);
            match self.timeout {
                Some(limit) => timeout(limit, future).await,
                None => Ok(future.await),
            }
        });
        let ended = reconciliation.catch_unwind().await;
        self.finish(item, ended, active);
    }

    fn finish(&self, mut item: Item<K>, ended: Ended, mut active: Active<'_, K>) {
        if let Some(priority) = priority(&ended) {
            item.set_priority(priority);
        }
        let (name, key) = (&self.name, item.key());
        let outcome = match ended {
            Ok(Ok(Ok(Action { requeue_after: None, .. }))) => Outcome::Succeeded,
            Ok(Ok(Ok(Action { requeue_after: Some(_), .. }))) => Outcome::Requeued,
            Ok(Ok(Err(ref error))) if error.is_permanent() => {
                tracing::error!(controller = %name, ?key, %error, "reconciliation failed; it is not retried");
                Outcome::Permanent
            }
            Ok(Ok(Err(ref error))) if error.is_conflict() => {
                tracing::debug!(controller = %name, ?key, %error, "reconciliation failed; its state was not the newest");
                Outcome::Failed
            }
            Ok(Ok(Err(ref error))) => {
                tracing::warn!(controller = %name, ?key, %error, "reconciliation failed");
                Outcome::Failed
            }
            Ok(Err(_)) => {
                tracing::warn!(controller = %name, ?key, timeout = ?self.timeout, "reconciliation timed out");
                Outcome::TimedOut
            }
            Err(_) => Outcome::Panicked,
        };
        active.outcome = Some(outcome);
        drop(active);
        match ended {
            Ok(Ok(Ok(Action { requeue_after: None, .. }))) => item.done(),
            Ok(Ok(Ok(Action { requeue_after: Some(delay), .. }))) if !delay.is_zero() => {
                item.retry_after(delay)
            }
            Ok(Ok(Err(error))) if error.is_permanent() => drop(item),
            Ok(_) => item.retry(),
            Err(panic) => {
                let error = panic_message(panic);
                tracing::error!(controller = %name, ?key, %error, "reconciliation panicked");
                item.retry();
            }
        }
    }

    /// The keys that are being reconciled, in their `Debug` form.
    pub(crate) fn keys_in_flight(&self) -> Vec<String> {
        let keys: Vec<_> = self.in_flight.lock().iter().flatten().cloned().collect();
        let text = |key: &Arc<K>| catch_unwind(AssertUnwindSafe(|| format!("{key:?}")));
        keys.iter().map(|key| text(key).unwrap_or_else(panic_message)).collect()
    }
}

/// The priority that a reconciliation has set.
fn priority(ended: &Ended) -> Option<i64> {
    match ended {
        Ok(Ok(Ok(action))) => action.priority,
        Ok(Ok(Err(error))) => error.priority,
        _ => None,
    }
}

/// A reconciliation that runs. It is counted when it ends, also if its future is dropped.
struct Active<'a, K> {
    workers: &'a Workers<K>,
    worker: usize,
    began: Instant,
    outcome: Option<Outcome>,
}

impl<'a, K: Key> Active<'a, K> {
    fn new(workers: &'a Workers<K>, worker: usize, key: &K) -> Self {
        let key = Arc::new(key.clone()); // user code, which may panic
        // Before it is counted: a reconciliation that the metrics show is one that the end of a run can name.
        if let Some(place) = workers.in_flight.lock().get_mut(worker) {
            *place = Some(key);
        }
        workers.counters.began();
        Self { workers, worker, began: Instant::now(), outcome: None }
    }
}

impl<K> Drop for Active<'_, K> {
    fn drop(&mut self) {
        self.workers.counters.ended(self.outcome, self.began.elapsed());
        let key = self.workers.in_flight.lock().get_mut(self.worker).and_then(Option::take);
        drop(key); // user code, without the lock
    }
}
