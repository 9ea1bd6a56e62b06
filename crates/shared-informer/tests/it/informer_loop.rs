//! An informer loop without an informer.

use std::sync::Arc;

use kinformer_core::Delta;
use kinformer_delta_fifo::{Popped, Queue, RealFifo};
use kinformer_reflector::StopReason;
use kinformer_shared_informer::{InformerLoop, Process};
use kinformer_testing::{FakeSource, Item, tasks};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

type Deltas = Vec<Delta<Item>>;

fn queue() -> Arc<dyn Queue<Item>> {
    Arc::new(RealFifo::new())
}

/// Sends each batch to a channel, and signals the sync.
struct Forward(mpsc::Sender<Deltas>, Option<oneshot::Sender<()>>);

impl Process<Item> for Forward {
    async fn process(&mut self, mut popped: Popped<Item>) {
        let _ = self.0.send(popped.take().to_vec()).await;
    }

    fn synced(&mut self) {
        self.1.take().unwrap().send(()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn controller_needs_no_store() {
    let source = FakeSource::new();
    source.apply(Item::of("kitchen/kettle", 0, 1));
    let ((deltas, mut got), (synced, is_synced)) = (mpsc::channel(16), oneshot::channel());
    let queue = queue();
    let informer_loop =
        InformerLoop::new("items", source.clone(), queue.clone(), Forward(deltas, Some(synced)));
    let [part] = &informer_loop.parts()[..] else { panic!("one source") };
    let reflector = part.reflector().clone();
    let cancel = CancellationToken::new();
    let running = tokio::spawn(informer_loop.run(cancel.clone()));

    let first = got.recv().await.unwrap();
    assert!(matches!(&*first, [Delta::ReplacedAll(list)] if list.objects.len() == 1), "{first:?}");
    is_synced.await.unwrap();
    source.apply(Item::of("kitchen/kettle", 0, 2));
    let second = got.recv().await.unwrap();
    assert!(matches!(&*second, [Delta::Updated(item)] if item.value == 2), "{second:?}");
    assert_eq!(reflector.metrics().lists + reflector.metrics().watch_lists, 1);

    cancel.cancel();
    assert_eq!(running.await.unwrap(), StopReason::Cancelled);
    assert!(queue.try_pop_batch(1).is_err(), "the queue is closed");
    assert_eq!(source.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn empty_source_syncs() {
    let ((deltas, _got), (synced, is_synced)) = (mpsc::channel(16), oneshot::channel());
    let source = FakeSource::new();
    let informer_loop = InformerLoop::new("nothing", source, queue(), Forward(deltas, Some(synced)));
    let cancel = CancellationToken::new();
    let running = tokio::spawn(informer_loop.run(cancel.clone()));
    is_synced.await.unwrap();
    cancel.cancel();
    running.await.unwrap();
}

/// Where a process function panics.
#[derive(Clone, Copy)]
enum Panics {
    BeforeItsFuture,
    InItsFuture,
}

async fn panicking(panics: Panics) {
    let source = FakeSource::new();
    source.apply(Item::of("kettle", 0, 1));
    let (seen, mut got) = mpsc::channel(16);
    let mut first = true;
    let process = move |popped: Popped<Item>| {
        let now = std::mem::take(&mut first);
        assert!(!(now && matches!(panics, Panics::BeforeItsFuture)), "before there is a future");
        let seen = seen.clone();
        async move {
            assert!(!now, "within the future");
            let _ = seen.send(popped.len()).await;
        }
    };
    let cancel = CancellationToken::new();
    let queue = queue();
    let informer_loop = InformerLoop::new("items", source.clone(), queue.clone(), process);
    let running = tokio::spawn(informer_loop.run(cancel.clone()));
    queue.synced().await.unwrap();
    source.apply(Item::of("kettle", 0, 2));
    assert_eq!(got.recv().await, Some(1), "the next batch is processed");
    cancel.cancel();
    assert_eq!(running.await.unwrap(), StopReason::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn panic_in_process_future_loses_one_batch() {
    panicking(Panics::InItsFuture).await;
}

#[tokio::test(start_paused = true)]
async fn panic_before_process_future_loses_one_batch() {
    panicking(Panics::BeforeItsFuture).await;
}

#[tokio::test(start_paused = true)]
async fn closed_queue_ends_idle_controller() {
    let ((deltas, _got), (synced, is_synced)) = (mpsc::channel(16), oneshot::channel());
    let (source, queue) = (FakeSource::new(), queue());
    let informer_loop =
        InformerLoop::new("items", source.clone(), queue.clone(), Forward(deltas, Some(synced)));
    let running = tokio::spawn(informer_loop.run(CancellationToken::new()));
    is_synced.await.unwrap();
    queue.close();
    let ended = tokio::time::timeout(crate::common::HOUR, running).await.expect("the loop did not end");
    assert_eq!(ended.unwrap(), StopReason::SinkClosed);
    assert_eq!(source.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_controller_closes_queue_and_watch() {
    let before = tasks::alive();
    let ((deltas, _got), (synced, is_synced)) = (mpsc::channel(16), oneshot::channel());
    let (source, queue) = (FakeSource::new(), queue());
    let informer_loop =
        InformerLoop::new("items", source.clone(), queue.clone(), Forward(deltas, Some(synced)));
    {
        let running = informer_loop.run(CancellationToken::new());
        let running = std::pin::pin!(running);
        tokio::select! {
            _ = running => panic!("the loop ended by itself"),
            done = is_synced => done.unwrap(),
        }
    }
    assert!(queue.try_pop_batch(1).is_err(), "the queue is closed");
    tasks::fall_to(before).await;
    assert_eq!(source.open_watches(), 0);
}

/// If the loop is cancelled or dropped in the process function, its future is dropped at the await point. The
/// rest of its batch is not processed, and queued deltas are lost.
// contract: I-27a
#[tokio::test(start_paused = true)]
async fn dropped_process_future_ends_its_batch() {
    for cancels in [false, true] {
        let (source, queue) = (FakeSource::new(), queue());
        let (deltas, mut got) = mpsc::channel(16);
        let process = move |mut popped: Popped<Item>| {
            let deltas = deltas.clone();
            async move {
                for delta in popped.take().to_vec() {
                    deltas.send(vec![delta]).await.unwrap();
                    tokio::time::sleep(crate::common::HOUR).await;
                }
            }
        };
        let informer_loop = InformerLoop::new("items", source.clone(), queue.clone(), process);
        let cancel = CancellationToken::new();
        let mut running = Box::pin(informer_loop.run(cancel.clone()));
        tokio::select! {
            _ = &mut running => panic!("the loop ended by itself"),
            first = got.recv() => assert!(matches!(&first.unwrap()[..], [Delta::ReplacedAll(_)])),
        }
        // A batch whose first delta is being processed, and one in the queue.
        source.apply(Item::of("a", 0, 1));
        source.apply(Item::of("b", 0, 1));
        tokio::select! {
            _ = &mut running => panic!("the loop ended by itself"),
            first = got.recv() => assert!(matches!(&first.unwrap()[..], [Delta::Added(item)] if &*item.name == "a")),
        }
        source.apply(Item::of("c", 0, 1));
        if cancels {
            cancel.cancel();
            assert_eq!(running.await, StopReason::Cancelled);
        } else {
            drop(running);
        }
        assert!(got.recv().await.is_none(), "the process function and its future were dropped");
        assert!(queue.is_closed());
        assert_eq!(source.open_watches(), 0);
    }
}
