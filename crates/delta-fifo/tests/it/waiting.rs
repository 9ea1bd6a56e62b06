//! Waiting, closing, and the bound, for both delta queues.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::{Consumer, Pod, WriteOne, list, pod, texts};
use kinformer_core::{Error as SinkError, KeyRef, Object, Transform};
use kinformer_delta_fifo::{Bound, DeltaFifo, Error, Fifo, Heap, Popped, Queue, RealFifo};
use parking_lot::Mutex;

fn all_queues(bound: Bound) -> [Arc<dyn Queue<Pod>>; 3] {
    let known = Arc::new(Consumer::default());
    [
        Arc::new(DeltaFifo::builder().bound(bound).build()),
        Arc::new(RealFifo::builder().bound(bound).build()),
        Arc::new(RealFifo::builder().known_objects(known).bound(bound).build()),
    ]
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn add(queue: &dyn Queue<Pod>, name: &str) {
    queue.add(pod(name, 1)).unwrap().into_result().unwrap();
}

fn names(popped: &Popped<Pod>) -> Vec<String> {
    popped.iter().map(|delta| delta.key().unwrap().to_string()).collect()
}

// contract: Q-05a, Q-05b, Q-05c, Q-05d
#[tokio::test]
async fn close_wakes_all_pops_after_queued_deltas() {
    for queue in all_queues(Bound::default()) {
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.pop_batch(1).await.map(|popped| names(&popped)) })
            })
            .collect();
        tokio::task::yield_now().await;
        add(&*queue, "a");
        tokio::task::yield_now().await;
        assert!(queue.close());
        assert!(!queue.close(), "closing again changes nothing");
        let mut results = Vec::new();
        for task in waiting {
            results.push(task.await.unwrap());
        }
        results.sort_by_key(|result| result.is_err());
        assert_eq!(results, [Ok(vec!["a".to_owned()]), Err(Error::Closed), Err(Error::Closed)]);
        assert!(queue.is_closed());
    }
}

// contract: Q-05c, Q-05d
#[tokio::test]
async fn closed_queue_rejects_writes_and_keeps_deltas() {
    for queue in all_queues(Bound::default()) {
        add(&*queue, "a");
        add(&*queue, "b");
        queue.close();
        assert!(matches!(queue.add(pod("c", 1)), Err(SinkError::Closed)));
        assert!(matches!(queue.delete(pod("a", 1).into()), Err(SinkError::Closed)));
        assert!(matches!(queue.replace(list(&[("c", 1)])), Err(SinkError::Closed)));
        assert_eq!(names(&queue.pop_batch(1).await.unwrap()), ["a"]);
        assert_eq!(names(&queue.try_pop_batch(1).unwrap().unwrap()), ["b"]);
        assert_eq!(queue.try_pop_batch(1).unwrap_err(), Error::Closed);
        assert_eq!(queue.pop_batch(1).await.unwrap_err(), Error::Closed);
    }
}

// contract: Q-05a, Q-05c
#[test]
fn blocking_methods_wait_and_end() {
    let queue = RealFifo::new();
    std::thread::scope(|scope| {
        let popping =
            scope.spawn(|| (texts(&queue.pop_blocking().unwrap()), queue.pop_blocking().unwrap_err()));
        add(&queue, "a");
        queue.close();
        assert_eq!(popping.join().unwrap(), (vec!["Added a=1".to_owned()], Error::Closed));
    });
    #[expect(clippy::disallowed_methods, reason = "a deadline that has passed: no call waits for it")]
    let passed = std::time::Instant::now();
    let empty = DeltaFifo::<Pod>::new();
    assert_eq!(empty.pop_batch_blocking_until(1, passed).unwrap_err(), Error::DeadlineExceeded);
    add(&empty, "a");
    assert_eq!(empty.pop_batch_blocking_until(1, passed).unwrap().deltas().len(), 1);
    assert_eq!(empty.pop_blocking_until(passed).unwrap_err(), Error::DeadlineExceeded);
    empty.ready_blocking_until(passed).unwrap();
    empty.synced_blocking().unwrap();
    let untouched = RealFifo::<Pod>::builder().bound(Bound::Deltas(1)).build();
    assert_eq!(untouched.synced_blocking_until(passed), Err(Error::DeadlineExceeded));
    add(&untouched, "a");
    assert_eq!(untouched.ready_blocking_until(passed), Err(Error::DeadlineExceeded));
    assert_eq!(untouched.pop_batch_blocking(10).unwrap().deltas().len(), 1);
    untouched.close();
    assert_eq!(untouched.pop_blocking_until(passed).unwrap_err(), Error::Closed);
    let closed = RealFifo::<Pod>::new();
    closed.close();
    assert_eq!(closed.synced_blocking(), Err(Error::Closed));
}

// contract: Q-16b
#[test]
fn metrics_show_the_backlog() {
    let queue = DeltaFifo::builder().bound(Bound::Deltas(3)).build();
    for name in ["a", "a", "b"] {
        add(&queue, name);
    }
    assert!(matches!(queue.add(pod("c", 1)), Err(SinkError::Full { .. })));
    let popped = queue.try_pop().unwrap();
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.entries, metrics.in_flight), (1, 1, 1));
    assert_eq!((metrics.peak_depth, metrics.popped, metrics.refused), (3, 2, 1));
    drop(popped);
    assert_eq!(queue.metrics().in_flight, 0);
}

/// A pop that was woken and is then dropped takes nothing: another pop gets the delta.
// contract: Q-25a
#[tokio::test]
async fn cancelled_pop_takes_nothing() {
    for queue in all_queues(Bound::default()) {
        let mut cancelled = queue.pop_batch(1);
        assert!(poll(&mut cancelled).is_pending());
        let mut other = queue.pop_batch(1);
        assert!(poll(&mut other).is_pending());
        add(&*queue, "a");
        // Woken, and dropped before the next poll.
        drop(cancelled);
        assert_eq!(names(&other.await.unwrap()), ["a"]);
    }
}

/// A pop of a queue of whole objects that is dropped takes nothing.
// contract: Q-25a
#[tokio::test]
async fn cancelled_pop_leaves_its_object() {
    let (fifo, heap) = (Fifo::<Pod>::new(), Heap::new(|pod: &Pod| pod.value));
    let (mut of_fifo, mut of_heap) = (Box::pin(fifo.pop()), Box::pin(heap.pop()));
    assert!(poll(&mut of_fifo).is_pending() && poll(&mut of_heap).is_pending());
    fifo.add(pod("a", 1)).unwrap();
    heap.add(pod("a", 1)).unwrap();
    drop((of_fifo, of_heap));
    assert_eq!((fifo.len(), heap.len()), (1, 1));
    assert_eq!((fifo.pop().await.unwrap().value, heap.pop().await.unwrap().value), (1, 1));
}

/// Deltas that are dropped after their pop count as processed: they are not queued again.
// contract: Q-25b
#[tokio::test]
async fn dropped_deltas_are_not_popped_again() {
    for queue in all_queues(Bound::default()) {
        queue.replace(list(&[("a", 1)])).unwrap().into_result().unwrap();
        let popped = queue.pop_batch(1).await.unwrap();
        assert!(!queue.has_synced());
        drop(popped);
        assert!(queue.has_synced());
        assert_eq!((queue.metrics().in_flight, queue.depth()), (0, 0));
        assert!(poll(&mut queue.pop_batch(1)).is_pending());
    }
}

/// A dropped wait for room reserves none: it takes nothing from other waits. A dropped wait for the sync only leaves.
// contract: Q-25c
#[tokio::test]
async fn dropped_waits_reserve_nothing() {
    for queue in all_queues(Bound::Deltas(1)) {
        queue.replace(list(&[("a", 1)])).unwrap().into_result().unwrap();
        let (mut dropped, mut other) = (queue.ready(), queue.ready());
        let (mut dropped_sync, mut synced) = (queue.synced(), queue.synced());
        assert!(poll(&mut dropped).is_pending() && poll(&mut other).is_pending());
        assert!(poll(&mut dropped_sync).is_pending() && poll(&mut synced).is_pending());
        drop(queue.try_pop_batch(1).unwrap());
        // All are woken.
        drop((dropped, dropped_sync));
        other.await;
        synced.await.unwrap();
        add(&*queue, "b");
        assert!(!queue.is_ready());
    }
    let fifo = Fifo::<Pod>::new();
    fifo.replace(list(&[("a", 1)])).unwrap().into_result().unwrap();
    assert!(poll(&mut Box::pin(fifo.synced())).is_pending());
    fifo.try_pop().unwrap();
    fifo.synced().await.unwrap();
}

// contract: Q-06d
#[tokio::test]
async fn sync_wakes_all_waiters() {
    for queue in all_queues(Bound::default()) {
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.synced().await })
            })
            .collect();
        tokio::task::yield_now().await;
        queue.replace(list(&[("a", 1), ("b", 1)])).unwrap().into_result().unwrap();
        while !queue.has_synced() {
            drop(queue.pop_batch(1).await.unwrap());
        }
        for task in waiting {
            task.await.unwrap().unwrap();
        }
    }
}

/// After a close, a wait for a sync that can still happen continues, and any other wait ends.
// contract: Q-06d
#[tokio::test]
async fn close_ends_sync_waits_that_cannot_succeed() {
    for queue in all_queues(Bound::default()) {
        queue.close();
        assert_eq!(queue.synced().await, Err(Error::Closed));
    }
    for queue in all_queues(Bound::default()) {
        queue.replace(list(&[("a", 1)])).unwrap().into_result().unwrap();
        queue.close();
        let mut synced = queue.synced();
        assert!(poll(&mut synced).is_pending());
        drop(queue.try_pop_batch(1).unwrap());
        assert_eq!(synced.await, Ok(()));
    }
}

// contract: Q-16b
#[tokio::test]
async fn producers_wait_at_the_bound() {
    for queue in all_queues(Bound::Deltas(2)) {
        assert!(queue.is_ready());
        add(&*queue, "a");
        add(&*queue, "b");
        assert!(!queue.is_ready());
        let full = queue.add(pod("c", 1)).unwrap_err();
        assert!(matches!(&full, SinkError::Full { key: Some(key), limit: 2 } if key.name() == "c"), "{full}");
        assert_eq!(full.to_string(), "c rejected: full (limit 2)");
        let list_error = queue.replace(list(&[("d", 1)])).unwrap_err();
        assert!(matches!(&list_error, SinkError::Full { key: None, .. }), "{list_error}");
        assert_eq!(list_error.to_string(), "operation rejected: full (limit 2)");
        assert_eq!(queue.depth(), 2, "nothing has changed");
        let mut ready = queue.ready();
        assert!(poll(&mut ready).is_pending());
        drop(queue.try_pop_batch(1).unwrap());
        ready.await;
        add(&*queue, "c");
        assert_eq!(names(&queue.try_pop_batch(10).unwrap().unwrap()), ["b", "c"]);
        // A list is accepted as a whole while there is any room.
        queue.replace(list(&[("d", 1), ("e", 1), ("f", 1)])).unwrap().into_result().unwrap();
        assert!(queue.depth() == 1 || queue.depth() == 3);
    }
}

// contract: Q-16b
#[tokio::test]
async fn close_wakes_waiting_producers() {
    for queue in all_queues(Bound::Deltas(1)) {
        add(&*queue, "a");
        let mut ready = queue.ready();
        assert!(poll(&mut ready).is_pending());
        queue.close();
        ready.await;
        assert!(matches!(queue.add(pod("b", 1)), Err(SinkError::Closed)));
    }
    let queue = DeltaFifo::builder().bound(Bound::Deltas(0)).build();
    queue.ready_blocking();
    add(&queue, "a");
    assert!(!queue.is_ready(), "zero counts as one");
}

/// An object whose drop uses a queue of such objects.
struct UsesQueueOnDrop(&'static str, Option<Watched>);

type Watched = Arc<Mutex<Option<Arc<dyn Queue<UsesQueueOnDrop>>>>>;

impl Object for UsesQueueOnDrop {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.0)
    }
}

impl Drop for UsesQueueOnDrop {
    fn drop(&mut self) {
        if let Some(watched) = &self.1 {
            let queue = watched.lock().clone();
            queue.into_iter().for_each(|queue| assert!(queue.depth() < 100));
        }
    }
}

// contract: Q-16a
#[test]
fn no_user_code_runs_under_the_lock() {
    let watched = Watched::default();
    let in_transform = watched.clone();
    let object = |name| Arc::new(UsesQueueOnDrop(name, Some(watched.clone())));
    let transform = Transform::new(move |object: Arc<UsesQueueOnDrop>| {
        let queue = in_transform.lock().clone();
        queue.into_iter().for_each(|queue| assert!(queue.is_ready()));
        Ok(object)
    });
    let queues: [Arc<dyn Queue<UsesQueueOnDrop>>; 2] = [
        Arc::new(DeltaFifo::builder().transform(transform.clone()).build()),
        Arc::new(RealFifo::builder().transform(transform).build()),
    ];
    for queue in queues {
        *watched.lock() = Some(queue.clone());
        queue.add(object("a")).unwrap().into_result().unwrap();
        // Merged deletions, a list with a duplicate, a rejected object, and popped objects.
        queue.delete(object("a").into()).unwrap().into_result().unwrap();
        queue.delete(object("a").into()).unwrap().into_result().unwrap();
        let duplicate = kinformer_core::Replacement::new(vec![object("b"), object("b")], "1");
        assert_eq!(queue.replace(duplicate).unwrap().errors().len(), 1);
        drop(queue.try_pop_batch(10).unwrap());
        queue.close();
        assert!(matches!(queue.add(object("c")), Err(SinkError::Closed)));
        while let Ok(popped) = queue.try_pop_batch(10) {
            drop(popped);
        }
        *watched.lock() = None;
    }
}
