//! Every interleaving of small scenarios: no wake-up is lost, and no known object is missed.
//! A test binary of its own, because the model checker needs a flag of the compiler.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p kinformer-delta-fifo --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::sync::Arc;

use kinformer_core::{Delta, KeyRef, KnownObjects, Object, ObjectKey, Replacement, Tombstone};
use kinformer_delta_fifo::{Bound, DeltaFifo, Error, RealFifo};
use loom::future::block_on;
use loom::sync::Mutex;
use loom::thread;

struct Pod(&'static str);

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.0)
    }
}

fn pod(name: &'static str) -> Arc<Pod> {
    Arc::new(Pod(name))
}

fn add(queue: &RealFifo<Pod>, name: &'static str) {
    queue.add(pod(name)).unwrap().into_result().unwrap();
}

// contract: Q-05a
#[test]
fn waiting_pop_receives_a_queued_delta() {
    loom::model(|| {
        let queue = RealFifo::new();
        let producer = queue.clone();
        let producing = thread::spawn(move || add(&producer, "a"));
        assert_eq!(block_on(queue.pop()).unwrap().deltas().len(), 1);
        producing.join().unwrap();
    });
}

// contract: Q-05a
#[test]
fn two_waiting_pops_receive_one_each() {
    loom::model(|| {
        let queue = RealFifo::new();
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || drop(block_on(queue.pop()).unwrap()))
            })
            .collect();
        add(&queue, "a");
        add(&queue, "b");
        consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
        assert_eq!(queue.depth(), 0);
    });
}

// contract: Q-05a, Q-05b, Q-05c, Q-05d
#[test]
fn close_wakes_pop_after_queued_deltas() {
    loom::model(|| {
        let queue = RealFifo::new();
        let producer = queue.clone();
        let producing = thread::spawn(move || {
            add(&producer, "a");
            producer.close();
        });
        assert!(block_on(queue.pop()).is_ok());
        assert_eq!(block_on(queue.pop()).unwrap_err(), Error::Closed);
        producing.join().unwrap();
    });
}

#[test]
fn cancelled_pop_loses_no_wake_up() {
    loom::model(|| {
        let queue = RealFifo::new();
        let (producer, other) = (queue.clone(), queue.clone());
        let popping = thread::spawn(move || drop(block_on(other.pop()).unwrap()));
        let producing = thread::spawn(move || add(&producer, "a"));
        {
            // Polled once and dropped, ready or not.
            let mut cancelled = Box::pin(queue.pop());
            let taken =
                block_on(std::future::poll_fn(|cx| std::task::Poll::Ready(cancelled.as_mut().poll(cx))));
            if let std::task::Poll::Ready(taken) = taken {
                drop(taken);
                add(&queue, "a");
            }
        }
        producing.join().unwrap();
        popping.join().unwrap();
    });
    use std::future::Future;
}

// contract: Q-16b
#[test]
fn waiting_producer_gets_room() {
    loom::model(|| {
        let queue = RealFifo::builder().bound(Bound::Deltas(1)).build();
        add(&queue, "a");
        let consumer = queue.clone();
        let consuming = thread::spawn(move || drop(consumer.try_pop().unwrap()));
        block_on(queue.ready());
        add(&queue, "b");
        consuming.join().unwrap();
    });
}

// contract: Q-06d
#[test]
fn sync_waiter_wakes_after_processing() {
    loom::model(|| {
        let queue = RealFifo::new();
        queue.replace(Replacement::new(vec![pod("a")], "1")).unwrap().into_result().unwrap();
        let consumer = queue.clone();
        let consuming = thread::spawn(move || drop(consumer.try_pop().unwrap()));
        block_on(queue.synced()).unwrap();
        consuming.join().unwrap();
    });
}

/// The objects that a consumer has stored.
#[derive(Default)]
struct Stored(Mutex<Vec<&'static str>>);

impl KnownObjects<Pod> for Stored {
    fn keys(&self) -> Vec<ObjectKey> {
        self.0.lock().unwrap().iter().map(|name| name.parse().unwrap()).collect()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<Pod>> {
        self.0.lock().unwrap().iter().find(|name| **name == key.name()).map(|name| pod(name))
    }
}

// contract: Q-08b, Q-16a
#[test]
fn replace_during_processing_misses_nothing() {
    loom::model(|| {
        let stored = Arc::new(Stored::default());
        let queue = DeltaFifo::builder().known_objects(stored.clone()).build();
        queue.add(pod("a")).unwrap().into_result().unwrap();
        let (consumer, store) = (queue.clone(), stored.clone());
        let apply = move |deltas: &[Delta<Pod>]| {
            let mut stored = store.0.lock().unwrap();
            for delta in deltas {
                match delta {
                    Delta::Deleted(Tombstone::FinalStateUnknown(missed)) => {
                        stored.retain(|name| *name != missed.key.name());
                    }
                    other => stored.push(other.object().unwrap().0),
                }
            }
        };
        let applying = apply.clone();
        let consuming = thread::spawn(move || {
            let popped = consumer.try_pop().unwrap().unwrap();
            applying(popped.deltas());
        });
        queue.replace(Replacement::new(Vec::new(), "1")).unwrap().into_result().unwrap();
        consuming.join().unwrap();
        while let Some(popped) = queue.try_pop().unwrap() {
            apply(popped.deltas());
        }
        assert!(stored.0.lock().unwrap().is_empty(), "the object in flight is deleted as well");
    });
}
