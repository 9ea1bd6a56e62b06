//! What an informer does with deltas: first the store, then the handlers.

use std::sync::Arc;

use kinformer_core::internal::{ask, contain};
use kinformer_core::{Change, Delta, Object, Report};
use kinformer_delta_fifo::Popped;
use kinformer_processor::SharedProcessor;
use kinformer_store::{Applied, Indexer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::awaited::Awaited;
use crate::controller::Process;
use crate::latency::Latency;
use crate::same::is_same_version;

/// A function that is called with each object before it is stored.
pub(crate) type Arrival<T> = dyn Fn(&Arc<T>) + Send + Sync;

pub(crate) struct Apply<T: Object> {
    pub(crate) name: Arc<str>,
    pub(crate) indexer: Arc<Indexer<T>>,
    pub(crate) processor: SharedProcessor<T>,
    pub(crate) synced: CancellationToken,
    pub(crate) awaited: Arc<Awaited>,
    pub(crate) arrival: Option<Arc<Arrival<T>>>,
    pub(crate) latency: Arc<Latency>,
}

impl<T: Object> Process<T> for Apply<T> {
    async fn process(&mut self, mut popped: Popped<T>) {
        let began = Instant::now();
        let in_initial_list = popped.in_initial_list();
        let deltas = popped.take();
        self.arrived(&deltas);
        let Applied { changes, report, .. } = self.indexer.apply_at(deltas, popped.versions());
        let changes = changes.into_iter().filter(is_news).map(|change| match in_initial_list {
            true => change.in_initial_list(),
            false => change,
        });
        self.processor.send(changes).await;
        self.awaited.stored(popped.versions(), &self.processor);
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
        self.awaited.publish_synced(&self.processor);
        self.synced.cancel();
    }
}

impl<T: Object> Apply<T> {
    /// Passes the objects that are about to be stored to the arrival function.
    fn arrived(&self, deltas: &[Delta<T>]) {
        let Some(arrival) = &self.arrival else { return };
        let arrived = |object: &Arc<T>| {
            if let Err(error) = contain(|| arrival(object)) {
                tracing::error!(informer = %self.name, %error, "the arrival function panicked");
            }
        };
        for delta in deltas {
            match delta {
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => arrived(object),
                Delta::ReplacedAll(list) => list.objects.iter().for_each(arrived),
                _ => {}
            }
        }
    }

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
        is_same_version(&**old, &**new)
            // Where the objects do not know, a source that says that one was modified does.
            && new.has_same_content(old).unwrap_or(!matches!(delta, Delta::Updated(_)))
    };
    // An object that panics has changed, as far as is known.
    Arc::ptr_eq(old, new) || ask(same).unwrap_or_default()
}
