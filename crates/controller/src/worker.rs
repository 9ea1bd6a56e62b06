//! The workers, which reconcile keys.

use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kinformer::ObjectKey;
use kinformer_core::internal::{contain, panic_message};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Span, field};

use crate::action::{Action, ReconcileError};
use crate::failures::Failures;
use crate::health::Status;
use crate::history::History;
use crate::metrics::{ControllerMetrics, Counters, Outcome};
use crate::reason::{Cause, Reason, Reasons};
use crate::request::{ReconcileId, Request};
use crate::trigger::Queue;

/// A type of keys.
pub trait Key: Eq + Hash + Clone + fmt::Debug + Send + Sync + 'static {}

impl<T: Eq + Hash + Clone + fmt::Debug + Send + Sync + 'static> Key for T {}

pub(crate) type Reconcile<K> =
    dyn Fn(Request<K>) -> BoxFuture<'static, Result<Action, ReconcileError>> + Send + Sync;

type Item<K> = kinformer_workqueue::Item<K, Cause>;

/// What the workers of a controller share.
pub(crate) struct Workers<K> {
    pub(crate) name: Arc<str>,
    /// The resource of the reconciled kind.
    #[cfg_attr(not(feature = "serve"), allow(dead_code, reason = "the page reads it"))]
    pub(crate) resource: Option<Arc<str>>,
    pub(crate) status: Arc<Status>,
    pub(crate) queue: Queue<K>,
    pub(crate) reconcile: Box<Reconcile<K>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) counters: Counters,
    pub(crate) failures: Failures<K>,
    pub(crate) history: History<K>,
}

impl<K> Workers<K> {
    pub(crate) fn metrics(&self) -> ControllerMetrics {
        self.counters.read(self.queue.metrics(), self.queue.depths())
    }

    /// The queue accepts no key any more, and has none.
    pub(crate) fn end(&self) {
        self.queue.shut_down();
        self.queue.retain(|_| false);
    }
}

/// Ends a controller when it is dropped, also one that was never polled: its queue accepts no key any more.
pub(crate) struct Ending<K>(pub(crate) Arc<Workers<K>>);

impl<K> Drop for Ending<K> {
    fn drop(&mut self) {
        self.0.end();
        self.0.status.ended();
    }
}

/// The name of a controller, and its metrics.
#[cfg(feature = "prometheus")]
pub(crate) type Named = (Arc<str>, std::sync::Weak<dyn Observed>);

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

/// The outer error is the message of a panic.
type Ended = Result<Result<Result<Action, ReconcileError>, Elapsed>, String>;

impl<K: Key> Workers<K> {
    /// Reconciles keys until the token is cancelled or the queue is shut down. A reconciliation that has begun is finished.
    pub(crate) async fn work(self: Arc<Self>, stop: CancellationToken) {
        while let Some(Some(item)) = stop.run_until_cancelled(self.queue.next()).await {
            if stop.is_cancelled() {
                return; // the key stays unprocessed, like the others in the queue
            }
            // Panics of a reconciliation are contained in `process`, and here those of the key's own methods.
            if let Err(panic) = AssertUnwindSafe(self.process(item)).catch_unwind().await {
                let error = panic_message(panic);
                tracing::error!(controller = %self.name, %error, "key panicked; it is retried");
            }
        }
    }

    async fn process(&self, mut item: Item<K>) {
        let request = Request {
            key: item.key().clone(),
            id: ReconcileId::next(),
            failures: item.retries(),
            priority: item.priority(),
            reasons: Reasons::of_marks(item.marks()),
            cause: item.take_cause(),
            queued: item.queued(),
        };
        let span = self.span(&request);
        // Not of a key that panics.
        let recording = contain(|| self.history.begin(&request)).ok().flatten();
        let active = Active::new(&self.counters); // not of a key that panicked
        let reconciliation = AssertUnwindSafe(async {
            let future = (self.reconcile)(request);
            match self.timeout {
                Some(limit) => timeout(limit, future).await,
                None => Ok(future.await),
            }
        });
        let future = pin!(Some(reconciliation.catch_unwind()));
        let ended = InSpan { span: &span, future }.await.map_err(panic_message);
        let _entered = span.enter();
        let error = self.record(&item, &ended);
        let outcome = self.finish(item, ended, active, &span);
        if let Some(recording) = recording {
            recording.end(outcome, error);
        }
    }

    /// The span of a reconciliation, within that of the event that led to it.
    fn span(&self, request: &Request<K>) -> Span {
        let span = tracing::info_span!(
            parent: request.cause.as_ref().and_then(|cause| cause.span().id()),
            "reconcile",
            kinformer.controller.name = &*self.name,
            k8s.cluster.name = field::Empty,
            k8s.namespace.name = field::Empty,
            kinformer.reconcile.name = field::Empty,
            kinformer.reconcile.id = %request.id,
            kinformer.reconcile.failures = request.failures,
            kinformer.reconcile.reasons = %request.reasons,
            kinformer.reconcile.cause = request.cause.as_ref().map(field::display),
            kinformer.reconcile.queued = ?request.queued,
            kinformer.reconcile.result = field::Empty,
            otel.status_code = field::Empty,
        );
        if !span.is_disabled() {
            record_key(&span, &request.key);
        }
        span
    }

    /// Keeps the error of a reconciliation, and returns it.
    fn record(&self, item: &Item<K>, ended: &Ended) -> Option<String> {
        let text = || match ended {
            Ok(Ok(Ok(_))) => None,
            Ok(Ok(Err(error))) => Some(error.to_string()),
            Ok(Err(_)) => Some(format!("it took longer than {:?}", self.timeout.unwrap_or_default())),
            Err(panic) => Some(format!("it panicked: {panic}")),
        };
        // One whose error or key panics is only missing here.
        let (key, error) = contain(|| text().map(|error| (item.key().clone(), error))).ok()??;
        self.failures.push(key, error.clone(), item.retries().saturating_add(1));
        Some(error)
    }

    fn finish(&self, mut item: Item<K>, ended: Ended, mut active: Active<'_>, span: &Span) -> Outcome {
        let (name, key) = (&self.name, item.key());
        let (outcome, next, priority) = match ended {
            Ok(Ok(Ok(Action { requeue_after, priority }))) => match requeue_after {
                None => (Outcome::Succeeded, Next::Done, priority),
                Some(Duration::ZERO) => (Outcome::Requeued, Next::Retry, priority),
                Some(delay) => (Outcome::Requeued, Next::RetryAfter(delay), priority),
            },
            Ok(Ok(Err(error))) if error.is_permanent() => {
                tracing::error!(controller = %name, ?key, %error, "reconciliation failed; it is not retried");
                (Outcome::Permanent, Next::Drop, error.priority)
            }
            Ok(Ok(Err(error))) if error.is_conflict() => {
                tracing::debug!(controller = %name, ?key, %error, "reconciliation failed; its state was not the newest");
                (Outcome::Failed, Next::Retry, error.priority)
            }
            Ok(Ok(Err(error))) => {
                tracing::warn!(controller = %name, ?key, %error, "reconciliation failed");
                (Outcome::Failed, Next::Retry, error.priority)
            }
            Ok(Err(_)) => {
                tracing::warn!(controller = %name, ?key, timeout = ?self.timeout, "reconciliation timed out");
                (Outcome::TimedOut, Next::Retry, None)
            }
            Err(error) => {
                tracing::error!(controller = %name, ?key, %error, "reconciliation panicked");
                (Outcome::Panicked, Next::Retry, None)
            }
        };
        record_outcome(span, outcome);
        active.outcome = Some(outcome);
        drop(active);
        if let Some(priority) = priority {
            item.set_priority(priority);
        }
        match next {
            Next::Done => item.done(),
            Next::Drop => drop(item),
            Next::Retry => {
                let reason = if outcome == Outcome::Requeued { Reason::Requested } else { Reason::Failed };
                item.mark_retry(reason.mark());
                item.retry();
            }
            Next::RetryAfter(delay) => {
                item.mark_retry(Reason::Requested.mark());
                item.retry_after(delay);
            }
        }
        outcome
    }

    /// The keys that are being reconciled, in their `Debug` form.
    pub(crate) async fn keys_in_flight(&self) -> Vec<String> {
        let mut keys = Vec::new();
        let visit = |key: &K| {
            keys.push(debug_of(key));
            false // no wait
        };
        // A key in flight may also be one that the program took itself, or that its worker has not begun.
        if self.metrics().active > 0 {
            self.queue.in_flight(visit).await;
        }
        keys
    }
}

/// The text of a key: that of an object has no quotes.
#[cfg(feature = "serve")]
pub(crate) fn text_of<K: Key>(key: &K) -> String {
    (key as &dyn Any).downcast_ref::<ObjectKey>().map_or_else(|| debug_of(key), ObjectKey::to_string)
}

fn debug_of<K: Key>(key: &K) -> String {
    contain(|| format!("{key:?}")).unwrap_or_else(|error| error.to_string())
}

/// Records the parts of the key of an object, or the text of another key.
fn record_key<K: Key>(span: &Span, key: &K) {
    let Some(key) = (key as &dyn Any).downcast_ref::<ObjectKey>() else {
        span.record("kinformer.reconcile.name", debug_of(key));
        return;
    };
    span.record("kinformer.reconcile.name", key.name());
    for (field, part) in [("k8s.cluster.name", key.cluster()), ("k8s.namespace.name", key.namespace())] {
        if let Some(part) = part {
            span.record(field, part);
        }
    }
}

fn record_outcome(span: &Span, outcome: Outcome) {
    // Even a disabled span looks its fields up by their names.
    if span.is_disabled() {
        return;
    }
    span.record("kinformer.reconcile.result", outcome.name());
    if outcome.is_failure() {
        span.record("otel.status_code", "ERROR");
    }
}

/// Polls and drops a future in a span. `Instrument` does the same, but moves the future, which is large.
struct InSpan<'a, F> {
    span: &'a Span,
    future: Pin<&'a mut Option<F>>,
}

impl<F: Future> Future for InSpan<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let _entered = this.span.enter();
        match this.future.as_mut().as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Pending, // never: only a drop removes it
        }
    }
}

impl<F> Drop for InSpan<'_, F> {
    fn drop(&mut self) {
        let _entered = self.span.enter();
        self.future.set(None);
    }
}

/// What follows for the key of a reconciliation.
enum Next {
    Done,
    Drop,
    Retry,
    RetryAfter(Duration),
}

/// A reconciliation that runs. It is counted when it ends, also if its future is dropped.
struct Active<'a> {
    counters: &'a Counters,
    began: Instant,
    outcome: Option<Outcome>,
}

impl<'a> Active<'a> {
    fn new(counters: &'a Counters) -> Self {
        counters.began();
        Self { counters, began: Instant::now(), outcome: None }
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.counters.ended(self.outcome, self.began.elapsed());
    }
}
