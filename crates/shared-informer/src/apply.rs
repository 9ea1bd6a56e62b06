//! What an informer does with deltas: first the store, then the handlers.

use std::sync::Arc;

use kinformer_core::{Delta, Object, ObjectKey, Report, Tombstone, VersionUpdate, ask};
use kinformer_delta_fifo::Popped;
use kinformer_processor::SharedProcessor;
use kinformer_store::{Applied, Indexer, Transaction};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controller::Process;
use crate::latency::Latency;
use crate::losses::{Batch, Losses};

pub(crate) struct Apply<T: Object> {
    pub(crate) name: Arc<str>,
    pub(crate) indexer: Arc<Indexer<T>>,
    pub(crate) processor: SharedProcessor<T>,
    pub(crate) synced: CancellationToken,
    pub(crate) latency: Arc<Latency>,
    pub(crate) completeness: Completeness,
}

/// Whether the store has all that was popped.
#[derive(Debug, Default)]
pub(crate) struct Completeness {
    /// The batch that is being processed. If the next one finds it here, it was lost.
    processing: Option<Batch>,
    losses: Losses,
}

impl Completeness {
    /// A batch begins. How the version moves by it: while something is missing, only with a whole list.
    fn begin<T: Object>(&mut self, popped: &Popped<T>) -> VersionUpdate {
        let batch = Batch::of(popped);
        if let Some(lost) = self.processing.replace(batch) {
            self.losses.lost(lost);
        }
        if self.losses.is_whole_after(batch) { popped.version().clone() } else { VersionUpdate::NONE }
    }

    fn end(&mut self) {
        if let Some(batch) = self.processing.take() {
            self.losses.processed(batch);
        }
    }
}

/// What is known of a delta beyond what is written to the store.
enum Origin<T> {
    /// The object may have another state.
    Changed,
    /// The source says that it has.
    Modified,
    Deleted(Tombstone<Arc<T>>),
}

impl<T: Object> Process<T> for Apply<T> {
    async fn process(&mut self, mut popped: Popped<T>) {
        let began = Instant::now();
        let in_initial_list = popped.in_initial_list();
        let version = self.completeness.begin(&popped);
        let key_error = popped.key_error().cloned();
        let mut batch = Vec::with_capacity(popped.len());
        let mut origins = Vec::with_capacity(popped.len());
        for delta in popped.take() {
            let (transaction, origin) = match delta {
                Delta::Added(object) | Delta::Replaced(object) => {
                    (Transaction::Update(object), Origin::Changed)
                }
                Delta::Updated(object) => (Transaction::Update(object), Origin::Modified),
                // Brings nothing that the store does not have: see `resync`.
                Delta::Sync(_) | Delta::SyncAll => continue,
                Delta::Deleted(tombstone) => {
                    (Transaction::Delete(tombstone.clone()), Origin::Deleted(tombstone))
                }
                about_all => {
                    self.write(&mut batch, &mut origins, &VersionUpdate::NONE, in_initial_list).await;
                    self.all(about_all, in_initial_list).await;
                    continue;
                }
            };
            batch.push(transaction);
            origins.push(Some(origin));
        }
        self.write(&mut batch, &mut origins, &version, in_initial_list).await;
        self.completeness.end();
        if let Some(error) = key_error {
            tracing::error!(informer = %self.name, %error, "an object has no valid key any more; it is left out");
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
    /// Writes what has been gathered, and the version that is reached by it, under one publication, and tells the
    /// handlers.
    async fn write(
        &self,
        batch: &mut Vec<Transaction<T>>,
        origins: &mut Vec<Option<Origin<T>>>,
        version: &VersionUpdate,
        in_initial_list: bool,
    ) {
        if batch.is_empty() {
            self.indexer.update_version(version);
            return;
        }
        let Applied { changes, report, revision, .. } = self.indexer.apply_all_at(batch.drain(..), version);
        let notifications = changes.into_iter().filter_map(|change| {
            let position = change.position?;
            let origin = origins.get_mut(position)?.take()?;
            Some(notification(change, origin, in_initial_list)?.at_revision(revision))
        });
        self.processor.send(notifications).await;
        origins.clear();
        // Only now: a subscriber is user code, and what is stored has to be delivered.
        self.log(&report);
    }

    /// What is about all objects.
    async fn all(&self, delta: Delta<T>, in_initial_list: bool) {
        match delta {
            Delta::ReplacedAll(replacement) => match self.indexer.replace_all(*replacement) {
                Ok(Applied { changes, report, revision, .. }) => {
                    let notifications = changes.into_iter().filter_map(|change| {
                        let origin = match (&change.old, &change.new) {
                            (Some(old), None) => Origin::Deleted(last_known(old)),
                            _ => Origin::Changed,
                        };
                        Some(notification(change, origin, in_initial_list)?.at_revision(revision))
                    });
                    self.processor.send(notifications).await;
                    self.log(&report);
                }
                Err(error) => {
                    tracing::error!(informer = %self.name, %error, "a list was not stored");
                }
            },
            // The version comes with what is popped.
            Delta::Bookmark(_) => {}
            other => {
                tracing::error!(informer = %self.name, delta = %other.delta_type(), "an unknown delta was left out");
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
        let unchanged = snapshot.iter().map(|object| kinformer_core::Change::unchanged(object.clone()));
        self.processor.send_resync(due, unchanged.map(|change| change.at_revision(revision))).await;
    }

    fn log(&self, report: &Report) {
        for problem in report.problems() {
            tracing::error!(informer = %self.name, error = %problem.error, "an object could not be stored as it should");
        }
    }
}

fn last_known<T: Object>(old: &Arc<T>) -> Tombstone<Arc<T>> {
    match ask(|| ObjectKey::try_from(old.key())) {
        Ok(Ok(key)) => Tombstone::FinalStateUnknown { key, last_known: Some(old.clone()) },
        // It does not give its key any more: so it has to stand for itself.
        Ok(Err(_)) | Err(_) => Tombstone::FinalState(old.clone()),
    }
}

fn notification<T: Object>(
    change: kinformer_store::Change<T>,
    origin: Origin<T>,
    in_initial_list: bool,
) -> Option<kinformer_core::Change<T>> {
    Some(match (change.old, change.new, origin) {
        // Nobody was told of it.
        (None, None, _) => return None,
        // A list that brings it again, or a late watch event.
        (Some(old), Some(new), origin) if is_same_state(&old, &new, &origin) => return None,
        (old @ Some(_), None, Origin::Deleted(tombstone)) => {
            kinformer_core::Change::deleted(tombstone).with_old(old)
        }
        (Some(old), None, _) => kinformer_core::Change::deleted(Tombstone::FinalState(old)),
        (None, Some(new), _) if in_initial_list => kinformer_core::Change::added(new).in_initial_list(),
        (None, Some(new), _) => kinformer_core::Change::added(new),
        (Some(old), Some(new), _) => kinformer_core::Change::updated(old, new),
    })
}

/// Whether nothing has changed between the two. One version is one state, unless the objects know better: a server may
/// give a version another content, and after a deletion another object.
fn is_same_state<T: Object>(old: &Arc<T>, new: &Arc<T>, origin: &Origin<T>) -> bool {
    let same = || {
        let version = new.resource_version();
        !version.is_unset()
            && version == old.resource_version()
            && new.uid() == old.uid()
            && new.has_same_content(old).unwrap_or(!matches!(origin, Origin::Modified))
    };
    // An object that panics has changed, as far as is known.
    Arc::ptr_eq(old, new) || ask(same).unwrap_or_default()
}
