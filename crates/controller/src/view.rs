//! What kinformer-serve shows of a controller.

use kinformer_serve::{
    CauseView, ControllerView, CountsView, FailureView, QueueView, ReconciliationView, RunningView,
};

use crate::health::ControllerState;
use crate::history::Reconciliation;
use crate::worker::{Key, Workers, text_of};

/// A controller with keys of any type.
pub(crate) trait Shown: Send + Sync {
    /// Keeps reconciliations from now on, to show them.
    fn keep(&self);

    fn view(&self) -> ControllerView;

    /// The reconciliations of a key, newest first.
    fn reconciliations(&self, key: &str) -> Vec<ReconciliationView>;
}

impl<K: Key> Shown for Workers<K> {
    fn keep(&self) {
        self.history.keep();
    }

    fn view(&self) -> ControllerView {
        let (metrics, state) = (self.metrics(), self.status.get());
        let error = match &state {
            ControllerState::Stopped { error } => error.as_deref().map(str::to_owned),
            _ => None,
        };
        let running = self.history.running();
        let running = running.iter().map(|one| RunningView { key: text_of(&one.key), since: one.time });
        let failures = self.failures.read();
        let failures = failures.iter().rev().map(|failure| FailureView {
            key: text_of(&failure.key),
            error: failure.error.clone(),
            attempt: failure.attempt,
            time: failure.time,
        });
        let is_running = metrics.queue.in_flight > 0;
        ControllerView {
            name: self.name.to_string(),
            resource: self.resource.as_deref().map(str::to_owned),
            state: state.without_error(),
            error,
            queue: QueueView {
                ready: metrics.queue.depth,
                delayed: metrics.queue.delayed,
                in_flight: metrics.queue.in_flight,
                longest_running: is_running.then_some(metrics.queue.longest_running),
            },
            workers: metrics.workers,
            running: running.collect(),
            counts: CountsView {
                succeeded: metrics.succeeded,
                requeued: metrics.requeued,
                failed: metrics.failed,
                permanent: metrics.permanent,
                panicked: metrics.panicked,
                timed_out: metrics.timed_out,
            },
            failures: failures.collect(),
        }
    }

    fn reconciliations(&self, key: &str) -> Vec<ReconciliationView> {
        let all = self.history.all();
        all.iter().filter(|one| text_of(&one.key) == key).map(|one| of(one)).collect()
    }
}

fn of<K: Key>(one: &Reconciliation<K>) -> ReconciliationView {
    let ended = one.ended.get();
    ReconciliationView {
        id: one.id.to_string(),
        reasons: one.reasons.iter().map(|reason| reason.to_string()).collect(),
        cause: one.cause.as_ref().map(|cause| CauseView {
            event: cause.event().to_string(),
            resource: cause.resource().to_owned(),
            key: cause.key().map(ToString::to_string),
        }),
        queued: one.queued,
        took: ended.map(|ended| ended.took),
        result: ended.map_or("running", |ended| ended.outcome.name()).to_owned(),
        error: ended.and_then(|ended| ended.error.clone()),
        time: one.time,
    }
}
