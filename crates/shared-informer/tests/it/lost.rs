//! Lost batches of a list that was split.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::Object;
use kinformer_delta_fifo::{DeltaFifo, Popped};
use kinformer_shared_informer::{InformerLoop, Process};
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Seen {
    batches: usize,
    keys: BTreeSet<String>,
    /// The number of keys at the sync.
    at_sync: Option<usize>,
}

/// Panics at the first batch of the first list, and of the second list.
struct Panicking(Arc<Mutex<Seen>>);

impl Process<Item> for Panicking {
    async fn process(&mut self, popped: Popped<Item>) {
        let mut seen = self.0.lock();
        // An empty batch contains only a version.
        seen.batches += usize::from(!popped.is_empty());
        if popped.is_empty() {
            return;
        }
        assert!(seen.batches != 1 && seen.batches != 4, "a panic that the test expects");
        seen.keys.extend(popped.iter().filter_map(|delta| Some(delta.object()?.key().to_string())));
    }

    fn synced(&mut self) {
        let mut seen = self.0.lock();
        seen.at_sync = Some(seen.keys.len());
    }
}

// contract: I-12a, I-12b
#[tokio::test(start_paused = true)]
async fn list_with_a_lost_batch_does_not_sync() {
    let source = FakeSource::new();
    for n in 0..300 {
        source.apply(Item::of(&format!("item-{n}"), 0, 1));
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let informer_loop =
        InformerLoop::new("items", source.clone(), Arc::new(DeltaFifo::new()), Panicking(seen.clone()));
    let cancel = CancellationToken::new();
    let running = tokio::spawn(informer_loop.run(cancel.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let at_sync = seen.lock().at_sync;
    assert_eq!(at_sync, Some(300));
    cancel.cancel();
    running.await.unwrap();
}
