//! Lists that an informer awaits beside its first one.

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
    /// For each part, whether the store has its list.
    parts: Arc<[CancellationToken]>,
}

impl AwaitedList {
    fn of(parts: usize) -> Self {
        Self { parts: (0..parts).map(|_| CancellationToken::new()).collect() }
    }

    /// Whether the store has the list of every part.
    pub fn is_stored(&self) -> bool {
        self.parts.iter().all(CancellationToken::is_cancelled)
    }

    /// Waits until the store has the list of this part, or of every part. Cancel-safe.
    pub(crate) async fn stored(&self, part: Option<PartId>) {
        for (id, stored) in (0..).map(PartId::new).zip(&*self.parts) {
            if part.is_none_or(|part| part == id) {
                stored.cancelled().await;
            }
        }
    }

    /// The parts whose lists are missing, of those that have reached this epoch.
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
    /// How many there are. Written under the lock.
    count: AtomicUsize,
    lists: Mutex<Lists>,
}

#[derive(Debug)]
struct Lists {
    /// The epoch of the last list in the store, for each part.
    epochs: Box<[Option<u32>]>,
    /// Those that the store does not have yet, each with its epoch.
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
        // Nothing waits for it yet, so that this wakes nothing.
        list.reached(epoch, &lists.epochs).for_each(CancellationToken::cancel);
        if !list.is_stored() {
            lists.awaited.push((epoch, list.clone()));
            // First the number, then the processor: a publication after that finds it.
            self.count.store(lists.awaited.len(), Ordering::Release);
            // It wakes nothing either.
            processor.expect_initial_list();
        }
        list
    }

    /// Ends the waits for the lists that a batch has completed: to be called after each batch that was applied to the store,
    /// with its version updates.
    pub(crate) fn stored<T: Object>(&self, updates: &VersionUpdates, processor: &SharedProcessor<T>) {
        // The usual case, without the lock: no list ends here.
        if !updates.iter().any(|(_, update)| matches!(update, VersionUpdate::Set { .. })) {
            return;
        }
        let mut lists = self.lists.lock();
        let Lists { epochs, awaited } = &mut *lists;
        for (part, reached) in (0..).map(PartId::new).zip(epochs.iter_mut()) {
            if let Some(VersionUpdate::Set { epoch, .. }) = updates.get(part) {
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
        // Without the lock: user code is woken.
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
