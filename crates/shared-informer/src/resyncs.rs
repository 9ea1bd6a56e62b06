//! The way back from the reflectors to the processor: due resyncs.

use std::sync::Arc;

use kinformer_core::Object;
use kinformer_delta_fifo::Queue;
use kinformer_processor::SharedProcessor;
use kinformer_store::Indexer;
use tokio_util::sync::CancellationToken;

/// Notes which handlers have become due for a resync, and says whether the queue is to carry one for them.
///
/// It has to only if there is nothing queued: the controller looks for due handlers after every batch, and what is
/// queued now is popped later. So neither resyncs nor their single deltas pile up in front of a slow store.
pub(crate) fn take_due<T: Object>(
    processor: SharedProcessor<T>,
    indexer: Arc<Indexer<T>>,
    queue: Arc<dyn Queue<T>>,
    synced: CancellationToken,
) -> impl Fn() -> bool + Send + Sync + 'static {
    move || {
        if !processor.mark_due_handlers() {
            return false;
        }
        // A part that cannot be listed holds up no resync of the others.
        let has_list = || indexer.resource_versions().iter().any(|(_, version)| !version.is_unset());
        if (synced.is_cancelled() || has_list()) && !indexer.is_empty() {
            return queue.depth() == 0;
        }
        // There is nothing to resync, or not all of a first list: this time they receive none.
        let _ = processor.take_due_handlers();
        false
    }
}
