//! Other initial lists, after the first.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kinformer_core::internal::contain;
use kinformer_core::{Object, PartId, VersionUpdates};
use kinformer_processor::SharedProcessor;
use kinformer_store::{Indexer, Snapshot};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Another initial list of an informer: see
/// [`SharedIndexInformer::await_list`](crate::SharedIndexInformer::await_list).
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct AwaitedList {
    /// For each part, whether the store has what it lists.
    parts: Arc<[CancellationToken]>,
}

impl AwaitedList {
    fn of(parts: usize) -> Self {
        Self { parts: (0..parts).map(|_| CancellationToken::new()).collect() }
    }

    /// Whether the store has it, of every part.
    pub fn is_stored(&self) -> bool {
        self.parts.iter().all(CancellationToken::is_cancelled)
    }

    /// Waits until the store has it: of this part, or of every part. Cancel-safe.
    pub(crate) async fn stored(&self, part: Option<PartId>) {
        for (id, stored) in (0..).map(PartId::new).zip(&*self.parts) {
            if part.is_none_or(|part| part == id) {
                stored.cancelled().await;
            }
        }
    }
}

type IsStored<T> = dyn Fn(PartId, &Snapshot<T>, &VersionUpdates) -> bool + Send + Sync;

type Expected<T> = (Arc<IsStored<T>>, AwaitedList);

/// The lists that an informer awaits, if it does.
pub(crate) struct Awaited<T> {
    /// How many there are. Written under the lock.
    count: AtomicUsize,
    lists: Mutex<Vec<Expected<T>>>,
}

impl<T: Object> Awaited<T> {
    pub(crate) fn expect(
        &self,
        parts: usize,
        is_stored: Arc<IsStored<T>>,
        processor: &SharedProcessor<T>,
    ) -> AwaitedList {
        let awaited = AwaitedList::of(parts);
        let mut lists = self.lists.lock();
        lists.push((is_stored, awaited.clone()));
        // First the number, then the processor: a publication after that finds it.
        self.count.store(lists.len(), Ordering::Release);
        // It wakes nothing.
        processor.expect_initial_list();
        drop(lists);
        awaited
    }

    /// The first list is stored: handlers have synced after what was published, unless they are to await another list.
    pub(crate) fn first_list_is_stored(&self, indexer: &Indexer<T>, processor: &SharedProcessor<T>) {
        self.check(&VersionUpdates::NONE, indexer, processor);
        self.publish_synced(processor);
    }

    /// Ends the waits for what the store has by now. To be called after each batch, with how it has moved the versions.
    pub(crate) fn check(&self, moved: &VersionUpdates, indexer: &Indexer<T>, processor: &SharedProcessor<T>) {
        // The usual answer, without the lock.
        if !self.awaits() {
            return;
        }
        let lists = self.lists.lock().clone();
        let snapshot = indexer.snapshot();
        let (mut stored, mut done) = (Vec::new(), Vec::new());
        for (is_stored, list) in &lists {
            let before = stored.len();
            let parts = (0..).map(PartId::new).zip(&*list.parts);
            let awaited = parts.filter(|(_, stored)| !stored.is_cancelled());
            let awaited: Vec<_> = awaited.collect();
            // One that panics says nothing.
            let has = |part| contain(|| is_stored(part, &snapshot, moved)).unwrap_or_default();
            stored.extend(awaited.iter().filter(|(part, _)| has(*part)).map(|(_, stored)| *stored));
            if stored.len() - before == awaited.len() {
                done.push(is_stored);
            }
        }
        if !done.is_empty() {
            let mut lists = self.lists.lock();
            lists.retain(|(is_stored, _)| !done.iter().any(|done| Arc::ptr_eq(is_stored, done)));
            self.count.store(lists.len(), Ordering::Release);
        }
        // Without the lock: what is woken is the user's.
        if !done.is_empty() {
            self.publish_synced(processor);
        }
        stored.into_iter().for_each(CancellationToken::cancel);
    }

    fn awaits(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Unless another list is awaited.
    fn publish_synced(&self, processor: &SharedProcessor<T>) {
        processor.publish_synced_if(|| !self.awaits());
    }
}

impl<T> Default for Awaited<T> {
    fn default() -> Self {
        Self { count: AtomicUsize::new(0), lists: Mutex::default() }
    }
}

impl<T> fmt::Debug for Awaited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited").field("lists", &self.count).finish_non_exhaustive()
    }
}
