//! Another initial list, after the first.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kinformer_core::Object;
use kinformer_core::internal::contain;
use kinformer_processor::SharedProcessor;
use kinformer_store::{Indexer, Snapshot};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Another initial list of an informer: see
/// [`SharedIndexInformer::await_list`](crate::SharedIndexInformer::await_list).
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct AwaitedList {
    pub(crate) stored: CancellationToken,
}

impl AwaitedList {
    /// Whether the store has it.
    pub fn is_stored(&self) -> bool {
        self.stored.is_cancelled()
    }
}

type IsStored<T> = dyn Fn(&Snapshot<T>) -> bool + Send + Sync;

/// The list that an informer awaits, if it does.
pub(crate) struct Awaited<T> {
    /// Whether there is one. Written under the lock.
    any: AtomicBool,
    list: Mutex<Option<(Arc<IsStored<T>>, AwaitedList)>>,
}

impl<T: Object> Awaited<T> {
    pub(crate) fn expect(&self, is_stored: Arc<IsStored<T>>, processor: &SharedProcessor<T>) -> AwaitedList {
        let awaited = AwaitedList { stored: CancellationToken::new() };
        let mut list = self.list.lock();
        let before = list.replace((is_stored, awaited.clone()));
        self.any.store(true, Ordering::Release);
        processor.expect_initial_list();
        drop(list);
        drop(before);
        awaited
    }

    /// The first list is stored: handlers have synced after what was published, unless they are to await another list.
    pub(crate) fn first_list_is_stored(&self, indexer: &Indexer<T>, processor: &SharedProcessor<T>) {
        self.check(indexer, processor);
        let list = self.list.lock();
        if list.is_none() {
            processor.publish_synced();
        }
    }

    /// Ends the waits if the store has the list by now. To be called after each batch.
    pub(crate) fn check(&self, indexer: &Indexer<T>, processor: &SharedProcessor<T>) {
        // The usual answer, without the lock.
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let Some((is_stored, awaited)) = self.list.lock().clone() else { return };
        // One that panics says nothing.
        if !contain(|| is_stored(&indexer.snapshot())).unwrap_or_default() {
            return;
        }
        let mut list = self.list.lock();
        let done = list.take_if(|(now, _)| Arc::ptr_eq(now, &is_stored));
        if done.is_some() {
            self.any.store(false, Ordering::Release);
            processor.publish_synced();
        }
        drop(list);
        drop(done);
        awaited.stored.cancel();
    }
}

impl<T> Default for Awaited<T> {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), list: Mutex::new(None) }
    }
}

impl<T> fmt::Debug for Awaited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited").field("any", &self.any).finish_non_exhaustive()
    }
}
