//! Every interleaving of small scenarios: no wake-up is lost, and no key is handed out twice or lost.
//! A test binary of its own, because the model checker needs a flag of the compiler.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p kinformer-workqueue --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::future::Future;
use std::task::Poll;

use kinformer_workqueue::WorkQueue;
use loom::future::block_on;
use loom::thread;

fn queue() -> WorkQueue<u32> {
    // The model has no clock.
    WorkQueue::builder().without_durations().build()
}

// contract: W-08a
#[test]
fn waiting_worker_receives_a_key() {
    loom::model(|| {
        let queue = queue();
        let producer = queue.clone();
        let producing = thread::spawn(move || assert!(producer.add(1)));
        assert_eq!(*block_on(queue.next()).unwrap().key(), 1);
        producing.join().unwrap();
    });
}

// contract: W-08a
#[test]
fn two_workers_receive_one_key_each() {
    loom::model(|| {
        let queue = queue();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || block_on(queue.next()).unwrap().done())
            })
            .collect();
        queue.add(1);
        queue.add(2);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(queue.depth(), 0);
    });
}

// contract: W-01b, W-01c
#[test]
fn key_added_in_flight_is_handed_out_after_its_run() {
    loom::model(|| {
        let queue = queue();
        queue.add(1);
        let first = queue.try_next().unwrap();
        let other = queue.clone();
        let worker = thread::spawn(move || block_on(other.next()).unwrap().done());
        queue.add(1);
        first.done();
        worker.join().unwrap();
        assert!(queue.try_next().is_none());
    });
}

// contract: W-01a, W-01c
#[test]
fn addition_during_the_end_of_a_run_is_not_lost() {
    loom::model(|| {
        let queue = queue();
        queue.add(1);
        let item = queue.try_next().unwrap();
        let producer = queue.clone();
        let producing = thread::spawn(move || assert!(producer.add(1)));
        item.done();
        producing.join().unwrap();
        assert_eq!(*queue.try_next().unwrap().key(), 1);
        assert!(queue.try_next().is_none());
    });
}

// contract: W-06b, W-06c
#[test]
fn shut_down_wakes_all_workers() {
    loom::model(|| {
        let queue = queue();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || while block_on(queue.next()).is_some() {})
            })
            .collect();
        queue.add(1);
        queue.shut_down();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(queue.depth(), 0);
    });
}

// contract: W-06e
#[test]
fn drain_ends_with_the_last_run() {
    loom::model(|| {
        let queue = queue();
        queue.add(1);
        let item = queue.try_next().unwrap();
        let worker = thread::spawn(move || item.done());
        assert!(block_on(queue.shut_down_with_drain()));
        worker.join().unwrap();
    });
}

// contract: W-07d
#[test]
fn wait_for_runs_ends_with_them() {
    loom::model(|| {
        let queue = queue();
        queue.add(1);
        let item = queue.try_next().unwrap();
        let worker = thread::spawn(move || item.done());
        block_on(queue.in_flight(|_| true));
        worker.join().unwrap();
    });
}

// contract: W-07a
#[test]
fn nothing_is_admitted_after_the_predicate_is_set() {
    loom::model(|| {
        let queue = queue();
        let producer = queue.clone();
        let producing = thread::spawn(move || producer.add(1));
        queue.admit(|_| false);
        let removed = queue.retain(|_| false);
        let accepted = producing.join().unwrap();
        assert_eq!(removed, usize::from(accepted));
        assert!(queue.try_next().is_none());
    });
}

// contract: W-08d
#[test]
fn cancelled_wait_loses_no_wake_up() {
    loom::model(|| {
        let queue = queue();
        let (producer, other) = (queue.clone(), queue.clone());
        let worker = thread::spawn(move || block_on(other.next()).unwrap().done());
        let producing = thread::spawn(move || assert!(producer.add(1)));
        {
            // Polled once and dropped, ready or not.
            let mut cancelled = Box::pin(queue.next());
            let taken = block_on(std::future::poll_fn(|cx| Poll::Ready(cancelled.as_mut().poll(cx))));
            if let Poll::Ready(taken) = taken {
                drop(taken);
                queue.add(2);
            }
        }
        producing.join().unwrap();
        worker.join().unwrap();
    });
}
