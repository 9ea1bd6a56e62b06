//! What an informer does with deltas: first the store, then the handlers.

use std::sync::Arc;

use kinformer_core::{Delta, Object, ObjectKey, Report, Tombstone, VersionUpdate, ask};
use kinformer_delta_fifo::Popped;
use kinformer_processor::{Notification, SharedProcessor};
use kinformer_store::{Applied, Change, Indexer, Transaction};
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
    pub(crate) completeness: Completeness,
}

/// Whether the store has all that was popped.
#[derive(Debug, Default)]
pub(crate) struct Completeness {
    /// A batch is being processed. If the next one finds it so, that one was lost.
    processing: bool,
    /// A batch was lost, and no list has come since.
    lost: bool,
}

impl Completeness {
    /// A batch begins. How the version moves by it: while something is missing, only with a list.
    fn begin(&mut self, version: &VersionUpdate) -> VersionUpdate {
        self.lost |= std::mem::replace(&mut self.processing, true);
        self.lost &= !matches!(version, VersionUpdate::Set(_));
        if self.lost { VersionUpdate::NONE } else { version.clone() }
    }

    fn end(&mut self) {
        self.processing = false;
    }
}

/// What is known of a delta beyond what is written to the store.
enum Origin<T> {
    /// The object has another state, if its version says so.
    Changed,
    Deleted(Tombstone<T>),
}

impl<T: Object> Process<T> for Apply<T> {
    async fn process(&mut self, mut popped: Popped<T>) {
        let began = Instant::now();
        let in_initial_list = popped.in_initial_list();
        let version = self.completeness.begin(popped.version());
        if let Some(error) = popped.key_error() {
            tracing::error!(informer = %self.name, %error, "an object has no valid key any more; it is left out");
        }
        let mut batch = Vec::with_capacity(popped.len());
        let mut origins = Vec::with_capacity(popped.len());
        for delta in popped.take() {
            let (transaction, origin) = match delta {
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                    (Transaction::Update(object), Origin::Changed)
                }
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
        self.log(&report);
        let notifications = changes.into_iter().filter_map(|change| {
            let position = change.position?;
            let origin = origins.get_mut(position)?.take()?;
            notification(change, origin, in_initial_list)
        });
        self.processor.send(revision, notifications).await;
        origins.clear();
    }

    /// What is about all objects.
    async fn all(&self, delta: Delta<T>, in_initial_list: bool) {
        match delta {
            Delta::ReplacedAll(replacement) => match self.indexer.replace_all(*replacement) {
                Ok(Applied { changes, report, revision, .. }) => {
                    self.log(&report);
                    let notifications = changes.into_iter().filter_map(|change| {
                        let origin = match (&change.old, &change.new) {
                            (Some(old), None) => Origin::Deleted(last_known(old)),
                            _ => Origin::Changed,
                        };
                        notification(change, origin, in_initial_list)
                    });
                    self.processor.send(revision, notifications).await;
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
        let Some(due) = self.processor.take_due() else { return };
        let snapshot = self.indexer.snapshot();
        self.processor.send_resync(due, snapshot.revision(), snapshot.iter().cloned()).await;
    }

    fn log(&self, report: &Report) {
        for problem in report.problems() {
            tracing::error!(informer = %self.name, error = %problem.error, "an object could not be stored as it should");
        }
    }
}

fn last_known<T: Object>(old: &Arc<T>) -> Tombstone<T> {
    match ask(|| ObjectKey::try_from(old.key())) {
        Ok(Ok(key)) => Tombstone::FinalStateUnknown { key, last_known: Some(old.clone()) },
        // It does not give its key any more: so it has to stand for itself.
        Ok(Err(_)) | Err(_) => Tombstone::FinalState(old.clone()),
    }
}

fn notification<T: Object>(
    change: Change<T>,
    origin: Origin<T>,
    in_initial_list: bool,
) -> Option<Notification<T>> {
    Some(match (change.old, change.new, origin) {
        // Nobody was told of it.
        (None, None, _) => return None,
        // A list that brings it again, or a late watch event.
        (Some(old), Some(new), _) if is_same_state(&old, &new) => return None,
        (old @ Some(_), None, Origin::Deleted(tombstone)) => Notification::deleted(tombstone).last_told(old),
        (Some(old), None, _) => Notification::deleted(Tombstone::FinalState(old)),
        (None, Some(new), _) if in_initial_list => Notification::added(new).in_initial_list(),
        (None, Some(new), _) => Notification::added(new),
        (Some(old), Some(new), _) => Notification::updated(old, new),
    })
}

/// Whether the two are known to be one state: the version says so, or there is only one.
fn is_same_state<T: Object>(old: &Arc<T>, new: &Arc<T>) -> bool {
    if Arc::ptr_eq(old, new) {
        return true;
    }
    let version = new.resource_version();
    !version.is_unset() && version == old.resource_version()
}
