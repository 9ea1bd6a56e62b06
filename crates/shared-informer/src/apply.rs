//! The process function of an informer: applies deltas to the store, then publishes the changes to the handlers.

use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Change, Delta, Deltas, Object, PartialErrors, Parts, Tombstone, Versions};
use kinformer_delta_fifo::Popped;
use kinformer_processor::SharedProcessor;
use kinformer_store::{Applied, Indexer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::informer_loop::Process;
use crate::latency::Latency;
use crate::same::is_same;

/// A function that is called with each object before it is stored. Returns `false` if it must be called again with the
/// stored objects.
pub(crate) type Arrival<T> = dyn Fn(&Arc<T>) -> bool + Send + Sync;

pub(crate) struct Apply<T: Object> {
    pub(crate) name: Arc<str>,
    pub(crate) indexer: Arc<Indexer<T>>,
    pub(crate) parts: Parts<T>,
    pub(crate) processor: SharedProcessor<T>,
    pub(crate) synced: CancellationToken,
    pub(crate) arrival: Option<Arc<Arrival<T>>>,
    pub(crate) latency: Arc<Latency>,
}

impl<T: Object> Process<T> for Apply<T> {
    async fn process(&mut self, mut popped: Popped<T>) {
        let started = Instant::now();
        let in_initial_list = popped.in_initial_list();
        let deltas = self.with_listed(popped.take());
        let all_arrived = self.call_arrival(&deltas);
        let before = self.parts.is_changeable().then(|| self.versions_before(&deltas)).flatten();
        let Applied { changes, errors, .. } = self.indexer.apply_at(deltas, popped.versions());
        if !all_arrived {
            changes.iter().filter_map(Change::new_state).for_each(|object| _ = self.arrived(object));
        }
        let changes = changes.into_iter().filter(is_relevant).map(|change| match in_initial_list {
            true => change.in_initial_list(),
            false => self.left_or(change, before.as_ref()),
        });
        self.processor.send(changes).await;
        // Logged after the publication: a subscriber is user code and may panic, but stored changes must be delivered.
        self.log(&errors);
        if let Some(error) = popped.key_error() {
            tracing::error!(informer = %self.name, %error, "object without a valid key left out");
        }
        // The drop marks the deltas as processed.
        drop(popped);
        self.resync().await;
        self.latency.observe(started.elapsed());
    }

    async fn parts_changed(&mut self) {
        let Applied { changes, errors, .. } = self.indexer.apply_parts();
        self.processor.send(changes).await;
        self.log(&errors);
    }

    fn synced(&mut self) {
        self.processor.publish_synced();
        self.synced.cancel();
    }
}

impl<T: Object> Apply<T> {
    /// Returns the versions of the store if the deltas have a list or what one lacks.
    fn versions_before(&self, deltas: &[Delta<T>]) -> Option<Versions> {
        let is_of_list = |delta: &Delta<T>| {
            matches!(delta, Delta::ReplacedAll(_) | Delta::Deleted(Tombstone::FinalStateUnknown(_)))
        };
        deltas.iter().any(is_of_list).then(|| self.indexer.snapshot().resource_versions().clone())
    }

    /// Returns a change, or that an object has left: the first list of a new part lacks an object that its selectors do not match.
    /// It was queued by the part before, and so it was stored after the change of the parts.
    fn left_or(&self, change: Change<T>, before: Option<&Versions>) -> Change<T> {
        let (Some(before), Some(old), Delta::Deleted(Tombstone::FinalStateUnknown(_))) =
            (before, &change.old, &change.delta)
        else {
            return change;
        };
        let is_unlisted = || self.parts.of(old).is_some_and(|part| before.of(part).is_unset());
        match contain(|| is_unlisted() && !self.parts.stays(old)) {
            Ok(true) => Change::left(old.clone()).at_revision(change.revision),
            _ => change,
        }
    }

    /// Calls the arrival function with each object before it is stored. Returns whether it is done with all of them.
    fn call_arrival(&self, deltas: &[Delta<T>]) -> bool {
        let mut done = true;
        for delta in deltas {
            match delta {
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                    done &= self.arrived(object);
                }
                Delta::ReplacedAll(list) => {
                    list.objects.iter().for_each(|object| done &= self.arrived(object));
                }
                _ => {}
            }
        }
        done
    }

    /// A queue may deliver the objects of a list as `Sync`, like resyncs of stored objects. Returns those as replaced ones.
    fn with_listed(&self, deltas: Deltas<T>) -> Deltas<T> {
        if !deltas.iter().any(|delta| matches!(delta, Delta::Sync(_))) {
            return deltas;
        }
        let listed = deltas.into_iter().map(|delta| match delta {
            Delta::Sync(object) if !self.is_stored(&object) => Delta::Replaced(object),
            delta => delta,
        });
        listed.collect()
    }

    /// Returns whether this very object is stored.
    fn is_stored(&self, object: &Arc<T>) -> bool {
        let stored = contain(|| self.indexer.get(object.key()));
        stored.is_ok_and(|stored| stored.is_some_and(|stored| Arc::ptr_eq(&stored, object)))
    }

    fn arrived(&self, object: &Arc<T>) -> bool {
        let Some(arrival) = &self.arrival else { return true };
        contain(|| arrival(object)).unwrap_or_else(|error| {
            tracing::error!(informer = %self.name, %error, "arrival function panicked");
            true
        })
    }

    /// Delivers all objects of the store to the handlers that are due for a resync.
    ///
    /// Called after every batch, independent of its contents: a queued resync only wakes the loop. A queue of
    /// single deltas leaves out objects that are queued or in flight, so a resync may queue nothing at all; but then
    /// another batch follows, and this is called after that one. So this must be called after the batch was dropped.
    async fn resync(&self) {
        let Some(due) = self.processor.take_due_handlers() else { return };
        let snapshot = self.indexer.snapshot();
        let revision = snapshot.revision();
        let unchanged = snapshot.iter().map(|object| Change::unchanged(object.clone()));
        self.processor.send_resync(due, unchanged.map(|change| change.at_revision(revision))).await;
    }

    fn log(&self, errors: &PartialErrors) {
        for problem in errors.errors() {
            let (informer, error) = (&*self.name, &problem.error);
            match problem.left_out {
                true => tracing::error!(informer, %error, "object not stored"),
                false => tracing::error!(informer, %error, "object stored with an error"),
            }
        }
    }
}

/// Returns whether handlers receive a change. They receive neither the deletion of an unknown object nor a state that
/// they already have, which a list or a late watch event may repeat.
fn is_relevant<T: Object>(change: &Change<T>) -> bool {
    match (&change.old, change.new_state()) {
        (None, None) => false,
        (Some(old), Some(new)) => !is_same_state(old, new, &change.delta),
        _ => true,
    }
}

/// Returns whether two states are the same. States with the same version are the same unless the objects' content
/// differs: a server may return another content at one version, and after a deletion another object.
fn is_same_state<T: Object>(old: &Arc<T>, new: &Arc<T>, delta: &Delta<T>) -> bool {
    // If the objects cannot compare their content, an event of type modified counts as a change.
    let same = || is_same(&**new, &**old, !matches!(delta, Delta::Updated(_)));
    // An object whose accessor panics counts as changed.
    Arc::ptr_eq(old, new) || contain(same).unwrap_or_default()
}
