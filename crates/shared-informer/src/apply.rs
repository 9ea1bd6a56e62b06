//! What an informer does with deltas: first the store, then the handlers.

use std::sync::Arc;

use kinformer_core::internal::ask;
use kinformer_core::{Change, Delta, Object, Report};
use kinformer_delta_fifo::Popped;
use kinformer_processor::SharedProcessor;
use kinformer_store::{Applied, Indexer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controller::Process;
use crate::latency::Latency;

pub(crate) struct Apply<T: Object> {
    pub(crate) name: Arc<str>,
    pub(crate) indexer: Arc<Indexer<T>>,
    pub(crate) processor: SharedProcessor<T>,
    pub(crate) synced: CancellationToken,
    pub(crate) latency: Arc<Latency>,
}

impl<T: Object> Process<T> for Apply<T> {
    async fn process(&mut self, mut popped: Popped<T>) {
        let began = Instant::now();
        let in_initial_list = popped.in_initial_list();
        let Applied { changes, report, .. } = self.indexer.apply_at(popped.take(), popped.versions());
        let changes = changes.into_iter().filter(is_news).map(|change| match in_initial_list {
            true => change.in_initial_list(),
            false => change,
        });
        self.processor.send(changes).await;
        // Only now: a subscriber is user code, and what is stored has to be delivered.
        self.log(&report);
        if let Some(error) = popped.key_error() {
            tracing::error!(informer = %self.name, %error, "object has no valid key any more; left out");
        }
        // Only now have they been processed.
        drop(popped);
        self.resync().await;
        self.latency.observe(began.elapsed());
    }

    fn synced(&mut self) {
        self.processor.publish_synced();
        self.synced.cancel();
    }
}

impl<T: Object> Apply<T> {
    /// Delivers the whole store to the handlers that are due for a resync, if any is.
    ///
    /// Done after every batch, whatever it brought: a resync that the queue carries only wakes the controller. A queue of
    /// single deltas leaves out objects that are queued or in flight, so it may carry nothing at all; but then there is
    /// a batch after which this is done. So this comes after the end of the flight.
    async fn resync(&self) {
        let Some(due) = self.processor.take_due_handlers() else { return };
        let snapshot = self.indexer.snapshot();
        let revision = snapshot.revision();
        let unchanged = snapshot.iter().map(|object| Change::unchanged(object.clone()));
        self.processor.send_resync(due, unchanged.map(|change| change.at_revision(revision))).await;
    }

    fn log(&self, report: &Report) {
        for problem in report.problems() {
            let (informer, error) = (&*self.name, &problem.error);
            match problem.left_out {
                true => tracing::error!(informer, %error, "object not stored"),
                false => tracing::error!(informer, %error, "object stored with an error"),
            }
        }
    }
}

/// Whether handlers are to receive it: not of an object that was never there, and not of a state that they have, which a
/// list or a late watch event brings again.
fn is_news<T: Object>(change: &Change<T>) -> bool {
    match (&change.old, change.new_state()) {
        (None, None) => false,
        (Some(old), Some(new)) => !is_same_state(old, new, &change.delta),
        _ => true,
    }
}

/// Whether nothing has changed between the two. One version is one state, unless the objects know better: a server may
/// give a version another content, and after a deletion another object.
fn is_same_state<T: Object>(old: &Arc<T>, new: &Arc<T>, delta: &Delta<T>) -> bool {
    let same = || {
        let version = new.resource_version();
        !version.is_unset()
            && version == old.resource_version()
            && new.uid() == old.uid()
            // Where the objects do not know, a source that says that one was modified does.
            && new.has_same_content(old).unwrap_or(!matches!(delta, Delta::Updated(_)))
    };
    // An object that panics has changed, as far as is known.
    Arc::ptr_eq(old, new) || ask(same).unwrap_or_default()
}
