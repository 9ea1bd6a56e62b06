//! Due resyncs, checked by the reflectors for the processor.

use std::sync::Arc;

use kinformer_core::Object;
use kinformer_delta_fifo::Queue;
use kinformer_processor::SharedProcessor;
use kinformer_store::Indexer;
use tokio_util::sync::CancellationToken;

/// Returns a function that marks the handlers due for a resync and returns whether the queue needs a resync delta.
///
/// It is needed only if nothing is queued: the loop checks for due handlers after every batch, so any queued
/// delta has the same effect. Resyncs and their deltas therefore do not accumulate in front of a slow store.
pub(crate) fn mark_due<T: Object>(
    processor: SharedProcessor<T>,
    indexer: Arc<Indexer<T>>,
    queue: Arc<dyn Queue<T>>,
    synced: CancellationToken,
) -> impl Fn() -> bool + Send + Sync + 'static {
    move || {
        if !processor.mark_due_handlers() {
            return false;
        }
        // A part that cannot be listed does not delay the resyncs of the others.
        let has_list = || indexer.resource_versions().iter().any(|(_, version)| !version.is_unset());
        if (synced.is_cancelled() || has_list()) && !indexer.is_empty() {
            return queue.depth() == 0;
        }
        // The store is empty or has no complete list: the due handlers receive no resync this time.
        let _ = processor.take_due_handlers();
        false
    }
}
