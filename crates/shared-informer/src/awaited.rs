//! Lists that an informer awaits in addition to the first one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kinformer_core::{Object, PartId, VersionUpdate, VersionUpdates};
use kinformer_processor::SharedProcessor;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// A list that an informer awaits: see [`SharedIndexInformer::await_list`](crate::SharedIndexInformer::await_list).
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct AwaitedList {
    /// For each part, a token that is cancelled when the store has a complete list of it.
    parts: Arc<[CancellationToken]>,
}

impl AwaitedList {
    fn of(parts: usize) -> Self {
        Self { parts: (0..parts).map(|_| CancellationToken::new()).collect() }
    }

    /// Returns whether the store has the list of every part.
    pub fn is_stored(&self) -> bool {
        self.parts.iter().all(CancellationToken::is_cancelled)
    }

    /// Waits until the store has the list of this part, or with `None` of every part. Cancel-safe: it only observes.
    pub(crate) async fn stored(&self, part: Option<PartId>) {
        for (id, stored) in (0..).map(PartId::new).zip(&*self.parts) {
            if part.is_none_or(|part| part == id) {
                stored.cancelled().await;
            }
        }
    }

    /// Returns the tokens of the parts that have reached this epoch and are not cancelled yet.
    fn reached<'a>(
        &'a self,
        epoch: u32,
        reached: &'a [Option<u32>],
    ) -> impl Iterator<Item = &'a CancellationToken> {
        let parts = self.parts.iter().zip(reached);
        parts
            .filter(move |(stored, reached)| !stored.is_cancelled() && **reached >= Some(epoch))
            .map(|(stored, _)| stored)
    }
}

/// The lists that an informer awaits.
#[derive(Debug)]
pub(crate) struct Awaited {
    /// The number of awaited lists. Written under the lock.
    count: AtomicUsize,
    lists: Mutex<Lists>,
}

#[derive(Debug)]
struct Lists {
    /// The epoch of the last complete list in the store, for each part.
    epochs: Box<[Option<u32>]>,
    /// The lists that the store does not have yet, each with its epoch.
    awaited: Vec<(u32, AwaitedList)>,
}

impl Awaited {
    pub(crate) fn new(parts: u32) -> Self {
        let lists = Lists { epochs: (0..parts).map(|_| None).collect(), awaited: Vec::new() };
        Self { count: AtomicUsize::new(0), lists: Mutex::new(lists) }
    }

    pub(crate) fn expect<T: Object>(&self, epoch: u32, processor: &SharedProcessor<T>) -> AwaitedList {
        let mut lists = self.lists.lock();
        let list = AwaitedList::of(lists.epochs.len());
        // Nothing waits for the list yet, so this wakes nothing under the lock.
        list.reached(epoch, &lists.epochs).for_each(CancellationToken::cancel);
        if !list.is_stored() {
            lists.awaited.push((epoch, list.clone()));
            // The count is stored before the call of the processor, so that any later publication sees it.
            self.count.store(lists.awaited.len(), Ordering::Release);
            // This wakes nothing under the lock either.
            processor.expect_initial_list();
        }
        list
    }

    /// Ends the waits for the lists that a batch has completed. Must be called after each batch that was applied to the
    /// store, with the version updates of the batch.
    pub(crate) fn stored<T: Object>(&self, updates: &VersionUpdates, processor: &SharedProcessor<T>) {
        // The usual case, without the lock: the batch completes no list. After an incomplete one, the store may still have
        // earlier states of the objects that it lacks.
        if !updates.iter().any(|(_, update)| matches!(update, VersionUpdate::Set { is_complete: true, .. })) {
            return;
        }
        let mut lists = self.lists.lock();
        let Lists { epochs, awaited } = &mut *lists;
        for (part, reached) in (0..).map(PartId::new).zip(epochs.iter_mut()) {
            if let Some(VersionUpdate::Set { epoch, is_complete: true, .. }) = updates.get(part) {
                *reached = Some(*epoch);
            }
        }
        let before = awaited.len();
        let mut stored = Vec::new();
        awaited.retain(|(epoch, list)| {
            let missing = list.parts.iter().filter(|stored| !stored.is_cancelled()).count();
            let from = stored.len();
            stored.extend(list.reached(*epoch, epochs).cloned());
            stored.len() - from < missing
        });
        let is_over = awaited.len() < before;
        self.count.store(awaited.len(), Ordering::Release);
        // Released first, because the following wakes user code.
        drop(lists);
        if is_over {
            self.publish_synced(processor);
        }
        stored.iter().for_each(CancellationToken::cancel);
    }

    /// Publishes the end of the initial list, unless another list is awaited.
    pub(crate) fn publish_synced<T: Object>(&self, processor: &SharedProcessor<T>) {
        processor.publish_synced_if(|| self.count.load(Ordering::Acquire) == 0);
    }
}
