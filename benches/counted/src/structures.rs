//! The store, the queues, and the processor, with small objects.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use benches::{Pod, filled, moved, pick, pod};
use kinformer_core::Change;
use kinformer_delta_fifo::{Bound, DeltaFifo, RealFifo};
use kinformer_processor::{Event, SharedProcessor};
use kinformer_store::Indexer;
use kinformer_workqueue::WorkQueue;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::run::Run;

const OBJECTS: usize = 10_000;
const INDEXES: usize = 2;

/// Writes objects to a store, each as it is returned by `object`.
fn writes(
    count: usize,
    object: fn(&[Arc<str>], usize, u64) -> Arc<Pod>,
    write: fn(&Indexer<Pod>, Arc<Pod>),
) -> Run {
    let keys = benches::keys(OBJECTS);
    let store = filled(&keys, INDEXES);
    let mut version = 0;
    Box::new(move || {
        for number in 0..count {
            version += 1;
            write(&store, object(&keys, pick(number, OBJECTS), version));
        }
    })
}

/// An update of an object.
pub(crate) fn write(count: usize) -> Run {
    writes(count, pod, |store, pod| drop(store.update(pod)))
}

/// An update of an object while a reader has a snapshot of the state before.
pub(crate) fn write_beside_snapshot(count: usize) -> Run {
    writes(count, pod, |store, pod| {
        let _snapshot = store.snapshot();
        drop(store.update(pod));
    })
}

/// An update of an object that changes its value in one of two indexes.
pub(crate) fn write_index_change(count: usize) -> Run {
    writes(count, moved, |store, pod| drop(store.update(pod)))
}

/// A push of an object and its pop.
pub(crate) fn real_fifo(count: usize) -> Run {
    let keys = benches::keys(count);
    let queue = RealFifo::<Pod>::builder().bound(Bound::Unbounded).build();
    Box::new(move || {
        (0..count).for_each(|number| drop(queue.update(pod(&keys, number, 1))));
        while let Ok(Some(popped)) = queue.try_pop() {
            drop(black_box(popped));
        }
    })
}

/// A push of an object and its pop.
pub(crate) fn delta_fifo(count: usize) -> Run {
    let keys = benches::keys(count);
    let queue = DeltaFifo::<Pod>::builder().bound(Bound::Unbounded).build();
    Box::new(move || {
        (0..count).for_each(|number| drop(queue.update(pod(&keys, number, 1))));
        while let Ok(Some(popped)) = queue.try_pop() {
            drop(black_box(popped));
        }
    })
}

/// An item from its addition to the end of its run.
pub(crate) fn work_queue(count: usize) -> Run {
    let keys = benches::keys(count);
    let queue = WorkQueue::new();
    Box::new(move || {
        keys.iter().for_each(|key| _ = queue.add(key.clone()));
        while let Some(item) = queue.try_next() {
            drop(black_box(item));
        }
    })
}

/// An event that is published alone, until all handlers have received it.
pub(crate) fn event(handlers: usize, events: usize) -> Run {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let processor = SharedProcessor::new("counted");
    let (left, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    for _ in 0..handlers {
        let (left, all) = (left.clone(), all.clone());
        let handler = processor.handler().inline().for_each(move |event: &Event<Arc<Pod>>| {
            black_box(event);
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                all.notify_one();
            }
        });
        handler.unwrap();
    }
    let run = processor.clone();
    runtime.spawn(async move { run.run(CancellationToken::new()).await });
    let keys = benches::keys(events);
    let objects: Vec<_> = (0..events).map(|number| pod(&keys, number, 1)).collect();
    Box::new(move || {
        runtime.block_on(async {
            for object in &objects {
                left.store(handlers, Ordering::Relaxed);
                processor.publish([Change::updated(object.clone(), object.clone())]);
                all.notified().await;
            }
        });
    })
}
