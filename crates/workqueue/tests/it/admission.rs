//! Giving keys away: admission, removal, and waiting for keys in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kinformer_workqueue::{Add, WorkQueue};

use crate::common::{MS, SECOND, advance, drain, poll, queue, take};

// contract: W-07a, W-07b
#[tokio::test(start_paused = true)]
async fn only_admitted_keys_are_added() {
    let queue = queue();
    queue.add("b");
    queue.add_after("c", MS);
    let item = take(&queue);
    queue.admit(|key| *key == "a");
    assert!(queue.add("a") && queue.add_after("a", SECOND));
    assert!(!queue.add("b") && !queue.add_after("b", MS) && !queue.add_rate_limited("b"));
    item.retry();
    assert_eq!(queue.metrics().rejected, 4);
    advance(MS).await;
    assert_eq!(drain(&queue), ["a", "c"], "the delayed key was added before");
    queue.admit_all();
    assert!(queue.add("b"));
}

// contract: W-07c
#[tokio::test(start_paused = true)]
async fn retain_removes_queued_delayed_and_repeated_keys() {
    let queue = WorkQueue::new();
    for key in 0..5000_u32 {
        match key % 4 {
            0 => queue.add(key),
            1 => queue.add_after(key, SECOND),
            2 => queue.add_with(key, Add::new().priority(key.into())),
            _ => queue.add(key),
        };
    }
    let in_flight: Vec<_> = (0..1250).map(|_| take(&queue)).collect();
    assert!(in_flight.iter().all(|item| item.key() % 4 != 1));
    in_flight.iter().for_each(|item| assert!(queue.add(*item.key())));
    let removed = queue.retain(|key| *key < 2500);
    assert_eq!(removed, 2500);
    drop(in_flight);
    advance(SECOND).await;
    let mut rest = drain(&queue);
    rest.sort_unstable();
    assert_eq!(rest, (0..2500).collect::<Vec<_>>());
    assert_eq!(queue.metrics().delayed, 0);
    assert!(queue.depths().is_empty());
}

// contract: W-07d
#[tokio::test]
async fn in_flight_waits_for_the_runs_of_now() {
    let queue = queue();
    ["a", "b", "c"].into_iter().for_each(|key| assert!(queue.add(key)));
    let [a, b, c] = [take(&queue), take(&queue), take(&queue)];
    queue.in_flight(|key| *key == "x").await;
    let mut waiting = std::pin::pin!(queue.in_flight(|key| *key != "c"));
    assert!(poll(waiting.as_mut()).is_pending());
    a.done();
    queue.add("a");
    let _again = take(&queue);
    assert!(poll(waiting.as_mut()).is_pending());
    b.retry();
    waiting.await;
    drop(c);
}

// contract: W-07d, W-08b, W-08c
#[test]
fn blocking_wait_for_runs_has_a_deadline() {
    let queue = queue();
    queue.add("a");
    let item = take(&queue);
    let now = tokio::time::Instant::now().into_std();
    assert!(queue.in_flight_blocking_until(|_| true, now).is_err());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.in_flight_blocking_until(|_| true, now + 1000 * SECOND));
        item.done();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}

/// A predicate that is replaced while it runs does not decide.
// contract: W-07e
#[test]
fn replaced_predicate_does_not_decide() {
    let queue: WorkQueue<u32> = WorkQueue::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let (replacing, counted) = (queue.clone(), calls.clone());
    queue.admit(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        replacing.admit(|key| *key == 2);
        true
    });
    assert!(!queue.add(1));
    assert!(queue.add(2));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// A request that is rejected is no failure: the rate limiter does not remember the key.
// contract: W-07f
#[tokio::test(start_paused = true)]
async fn rejected_keys_have_no_failures() {
    let queue = queue();
    queue.add("b");
    let item = take(&queue);
    queue.admit(|key| *key == "a");
    item.retry();
    assert!(!queue.add_rate_limited("b") && queue.add_rate_limited("a"));
    queue.shut_down();
    assert!(!queue.add_rate_limited("a"));
    assert_eq!((queue.retries(&"b"), queue.retries(&"a"), queue.metrics().failing), (0, 1, 1));
}

/// A key is removed alone: queued, delayed, or to be repeated after its run.
// contract: W-12
#[tokio::test(start_paused = true)]
async fn remove_takes_one_pending_key() {
    let queue = WorkQueue::new();
    queue.add(1);
    queue.add(2);
    queue.add_after(3, SECOND);
    let running = queue.next().await.unwrap();
    queue.add(1);
    assert_eq!([1, 2, 3, 4].map(|key| queue.remove(&key)), [true, true, true, false]);
    drop(running);
    advance(SECOND).await;
    assert!(queue.try_next().is_none() && queue.depth() == 0);
    assert!(queue.add(2) && queue.try_next().is_some());
}
