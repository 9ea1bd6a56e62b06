//! Waiting for keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use kinformer_workqueue::WorkQueue;

use crate::common::{MS, SECOND, advance, poll, queue, settle, take};

/// Spawns a worker that counts its runs.
fn worker(queue: &WorkQueue<u32>, runs: &Arc<AtomicUsize>) -> tokio::task::JoinHandle<()> {
    let (queue, runs) = (queue.clone(), runs.clone());
    tokio::spawn(async move {
        while let Some(item) = queue.next().await {
            runs.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(SECOND).await;
            item.done();
        }
    })
}

// contract: W-08a
#[tokio::test(start_paused = true)]
async fn each_key_wakes_one_worker() {
    let (queue, runs) = (WorkQueue::new(), Arc::new(AtomicUsize::new(0)));
    let _workers: Vec<_> = (0..5).map(|_| worker(&queue, &runs)).collect();
    settle().await;
    (0..4).for_each(|key| assert!(queue.add(key)));
    settle().await;
    assert_eq!(runs.load(Ordering::Relaxed), 4, "all keys are in flight at once");
}

// contract: W-08a, W-08e
#[tokio::test(start_paused = true)]
async fn delays_that_end_together_wake_as_many_workers() {
    let (queue, runs) = (WorkQueue::new(), Arc::new(AtomicUsize::new(0)));
    let _workers: Vec<_> = (0..5).map(|_| worker(&queue, &runs)).collect();
    settle().await;
    (0..4).for_each(|key| assert!(queue.add_after(key, SECOND)));
    settle().await;
    advance(SECOND).await;
    assert_eq!(runs.load(Ordering::Relaxed), 4);
}

// contract: W-08e
#[tokio::test(start_paused = true)]
async fn another_worker_replaces_the_one_with_the_alarm() {
    for end in ["cancelled", "served", "cancelled before"] {
        let (queue, runs) = (WorkQueue::new(), Arc::new(AtomicUsize::new(0)));
        let first = worker(&queue, &runs);
        settle().await;
        if end != "cancelled before" {
            queue.add_after(1, SECOND);
            settle().await;
        }
        let _others: Vec<_> = (0..2).map(|_| worker(&queue, &runs)).collect();
        settle().await;
        match end {
            "served" => assert!(queue.add(2)),
            _ => first.abort(),
        }
        settle().await;
        queue.add_after(1, SECOND);
        settle().await;
        let before = runs.load(Ordering::Relaxed);
        advance(SECOND).await;
        assert_eq!(runs.load(Ordering::Relaxed) - before, 1, "{end}");
    }
}

// contract: W-08e
#[tokio::test(start_paused = true)]
async fn earlier_delay_moves_the_alarm() {
    let (queue, runs) = (WorkQueue::new(), Arc::new(AtomicUsize::new(0)));
    let _workers: Vec<_> = (0..2).map(|_| worker(&queue, &runs)).collect();
    settle().await;
    for (key, delay) in [(1, 500), (2, 300), (3, 400), (4, 100)] {
        queue.add_after(key, delay * MS);
        settle().await;
    }
    for (time, expected) in [(99, 0), (1, 1), (200, 2)] {
        advance(time * MS).await;
        assert_eq!(runs.load(Ordering::Relaxed), expected, "after {time} more ms");
    }
}

/// Whichever worker is woken for an earlier delay, that worker gets the alarm.
// contract: W-08e
#[tokio::test(start_paused = true)]
async fn any_worker_gets_the_alarm() {
    for workers in 1..4 {
        for earlier in 1..4_u32 {
            let (queue, runs) = (WorkQueue::new(), Arc::new(AtomicUsize::new(0)));
            let _workers: Vec<_> = (0..workers).map(|_| worker(&queue, &runs)).collect();
            settle().await;
            for key in 0..=earlier {
                queue.add_after(key, SECOND - 100 * MS * key);
                settle().await;
            }
            advance(SECOND - 100 * MS * earlier).await;
            assert_eq!(runs.load(Ordering::Relaxed), 1, "{workers} workers, {earlier} earlier delays");
        }
    }
}

// contract: W-08d
#[tokio::test(start_paused = true)]
async fn cancelled_wait_loses_no_key() {
    let queue = queue();
    let mut first = Box::pin(queue.next());
    let mut second = Box::pin(queue.next());
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    queue.add("a");
    drop(first); // notified
    assert!(poll(second.as_mut()).is_ready(), "the notification was passed on");
}

// contract: W-08d
#[tokio::test(start_paused = true)]
async fn timed_out_wait_loses_no_key() {
    let queue = queue();
    queue.add_after("a", SECOND);
    for _ in 0..9 {
        assert!(tokio::time::timeout(100 * MS, queue.next()).await.is_err());
    }
    assert!(tokio::time::timeout(101 * MS, queue.next()).await.is_ok());
}

// contract: W-08b
#[test]
fn blocking_wait_gets_keys_and_delayed_keys() {
    let queue = queue();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let keys = [queue.next_blocking().unwrap(), queue.next_blocking().unwrap()];
            keys.map(|item| *item.key())
        });
        queue.add("a");
        queue.add_after("b", MS);
        assert_eq!(waiting.join().unwrap(), ["a", "b"]);
        let waiting = scope.spawn(|| queue.next_blocking().is_none());
        queue.shut_down();
        assert!(waiting.join().unwrap());
    });
}

// contract: W-08c
#[test]
fn blocking_wait_has_a_deadline() {
    let queue = queue();
    let now = tokio::time::Instant::now().into_std();
    assert!(queue.next_blocking_until(now).is_err());
    queue.add_after("b", 1000 * SECOND);
    assert!(queue.next_blocking_until(now + MS).is_err());
    queue.add("a");
    let item = queue.next_blocking_until(now).unwrap().unwrap();
    assert_eq!(*item.key(), "a");
    queue.shut_down();
    assert!(queue.next_blocking_until(now).unwrap().is_none());
}

// contract: W-08e
#[test]
fn blocking_waiters_share_the_alarm() {
    let queue = WorkQueue::new();
    std::thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..3).map(|_| scope.spawn(|| queue.next_blocking().map(|item| *item.key()))).collect();
        (0..3_u32).for_each(|key| assert!(queue.add_after(key, (key + 1) * MS)));
        let mut keys: Vec<_> = waiting.into_iter().map(|waiting| waiting.join().unwrap().unwrap()).collect();
        keys.sort_unstable();
        assert_eq!(keys, [0, 1, 2]);
    });
}

// contract: W-02e
#[tokio::test(start_paused = true)]
async fn longest_delay_does_not_overflow() {
    let queue = queue();
    assert!(queue.add_after("a", std::time::Duration::MAX));
    assert!(tokio::time::timeout(SECOND, queue.next()).await.is_err());
    queue.add("a");
    take(&queue).done();
}

/// A waiter that is woken to set the alarm may find a key. Then another one sets it.
// contract: W-08e
#[tokio::test(start_paused = true)]
async fn waiter_that_finds_a_key_leaves_the_alarm_to_another() {
    let queue = WorkQueue::new();
    (0..3_u32).for_each(|key| assert!(queue.add_after(key, (key + 1) * MS)));
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(queue.next())).collect();
    assert!(waiting.iter_mut().all(|next| poll(next.as_mut()).is_pending()));
    for key in 0..3 {
        tokio::time::advance(MS).await;
        let mut next = waiting.remove(0);
        let Poll::Ready(Some(item)) = poll(next.as_mut()) else { panic!("{key} is not handed out") };
        assert_eq!(*item.key(), key);
        item.done();
    }
}

/// The queue has no key and no delay, so that no timer is needed.
// contract: W-08a
#[test]
fn waiting_without_delays_needs_no_runtime() {
    let queue = queue();
    let mut next = Box::pin(queue.next());
    assert!(poll(next.as_mut()).is_pending());
    queue.add("a");
    assert!(poll(next.as_mut()).is_ready());
}

/// A waiter whose alarm rang for a key that was removed meanwhile waits for later delays too.
// contract: W-08e
#[tokio::test(start_paused = true)]
async fn alarm_of_a_removed_key_does_not_hide_the_next_delay() {
    let queue = WorkQueue::new();
    queue.add_after(1, 10 * SECOND);
    let next = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|item| *item.key()) }
    });
    tokio::time::sleep(SECOND).await;
    queue.retain(|_| false);
    tokio::time::sleep(20 * SECOND).await;
    queue.add_after(2, 5 * SECOND);
    assert_eq!(tokio::time::timeout(6 * SECOND, next).await.unwrap().unwrap(), Some(2));
}
