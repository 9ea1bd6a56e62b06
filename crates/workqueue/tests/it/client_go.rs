//! The tests of client-go 0.37's `util/workqueue`, case by case. docs/workqueue.md has the table.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kinformer_workqueue::{Add, ItemExponential, ItemFastSlow, MaxOf, MaxWait, RateLimiter, WorkQueue};

use crate::common::{MS, SECOND, advance, drain, poll, queue, settle, take};

/// Ends a queue with or without a drain.
async fn end(queue: &WorkQueue<u32>, drains: bool) {
    if drains {
        assert!(queue.shut_down_with_drain().await);
    } else {
        queue.shut_down();
    }
}

// contract: W-01a, W-06a, W-06b, W-06e
#[tokio::test(start_paused = true)]
async fn many_producers_and_consumers() {
    for drains in [false, true] {
        let queue = WorkQueue::new();
        let producers: Vec<_> = (0..50)
            .map(|key| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    for _ in 0..50 {
                        queue.add(key);
                        tokio::time::sleep(MS).await;
                    }
                })
            })
            .collect();
        let consumers: Vec<_> = (0..10)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut runs = 0;
                    while let Some(item) = queue.next().await {
                        assert_ne!(*item.key(), 1000, "added after the end");
                        tokio::time::sleep(3 * MS).await;
                        runs += 1;
                    }
                    runs
                })
            })
            .collect();
        for producer in producers {
            producer.await.unwrap();
        }
        end(&queue, drains).await;
        assert!(!queue.add(1000));
        let mut runs = 0;
        for consumer in consumers {
            runs += consumer.await.unwrap();
        }
        assert!((50..=2500).contains(&runs), "{runs}");
        assert_eq!((queue.depth(), queue.metrics().in_flight), (0, 0));
    }
}

// contract: W-01c, W-06e
#[tokio::test]
async fn add_while_processing() {
    for drains in [false, true] {
        let queue = WorkQueue::new();
        let consumers: Vec<_> = (0..10)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut runs: HashMap<u32, u32> = HashMap::new();
                    while let Some(item) = queue.next().await {
                        let count = runs.entry(*item.key()).or_default();
                        *count += 1;
                        if *count < 2 {
                            queue.add(*item.key());
                        }
                    }
                })
            })
            .collect();
        (0..50).for_each(|key| assert!(queue.add(key)));
        end(&queue, drains).await;
        for consumer in consumers {
            consumer.await.unwrap();
        }
        assert_eq!(queue.depth(), 0);
    }
}

// contract: W-01a
#[test]
fn depth_counts_a_key_once() {
    let queue = queue();
    queue.add("foo");
    assert_eq!(queue.depth(), 1);
    queue.add("bar");
    assert_eq!(queue.depth(), 2);
    queue.add("foo");
    assert_eq!(queue.depth(), 2);
}

// contract: W-01b, W-01c
#[test]
fn reinsert() {
    let queue = queue();
    queue.add("foo");
    let item = take(&queue);
    queue.add("foo");
    assert!(queue.try_next().is_none(), "in flight");
    drop(item);
    assert_eq!(*take(&queue).key(), "foo");
    assert_eq!(queue.depth(), 0);
}

/// client-go calls `Touch` of the order when a queued key is added again. Here the priority is the order.
// contract: W-01a, W-03b, W-03f
#[test]
fn collapse() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    queue.add("bar");
    assert_eq!(drain(&queue), ["foo", "bar"]);
    queue.add("foo");
    queue.add("bar");
    queue.add_with("bar", Add::new().priority(1));
    assert_eq!(drain(&queue), ["bar", "foo"]);
    assert_eq!(queue.depth(), 0);
}

// contract: W-01b, W-01c
#[tokio::test]
async fn collapse_while_processing() {
    let queue = queue();
    queue.add("foo");
    let item = take(&queue);
    queue.add("foo");
    queue.add("foo");
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { *queue.next().await.unwrap().key() }
    });
    settle().await;
    assert!(!other.is_finished());
    drop(item);
    assert_eq!(other.await.unwrap(), "foo");
    assert_eq!(queue.depth(), 0);
}

// contract: W-06e
#[tokio::test]
async fn drain_waits_for_items() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let items = [take(&queue), take(&queue)];
    let mut drained = std::pin::pin!(queue.shut_down_with_drain());
    assert!(poll(drained.as_mut()).is_pending());
    assert!(queue.next().await.is_none(), "shut down");
    for item in items {
        assert!(poll(drained.as_mut()).is_pending());
        item.done();
    }
    assert!(drained.await);
}

// contract: W-06b
#[test]
fn shut_down_does_not_wait() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let _items = [take(&queue), take(&queue)];
    queue.shut_down();
    assert!(queue.next_blocking().is_none());
}

// contract: W-06f
#[tokio::test]
async fn shut_down_ends_a_drain() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let _items = [take(&queue), take(&queue)];
    let mut drained = std::pin::pin!(queue.shut_down_with_drain());
    assert!(poll(drained.as_mut()).is_pending());
    queue.shut_down();
    assert!(!drained.await);
}

// contract: W-01c, W-06b, W-06e
#[tokio::test]
async fn drain_with_a_key_added_again() {
    let queue = queue();
    queue.add("foo");
    let item = take(&queue);
    queue.add("foo");
    let mut drained = std::pin::pin!(queue.shut_down_with_drain());
    assert!(poll(drained.as_mut()).is_pending());
    assert!(queue.next().await.is_none());
    item.done();
    assert!(poll(drained.as_mut()).is_pending(), "queued again");
    queue.next().await.unwrap().done();
    assert!(queue.next().await.is_none());
    assert!(drained.await);
}

// contract: W-10b
#[test]
fn processed_keys_are_dropped() {
    let queue = WorkQueue::new();
    let key = Arc::new(1);
    queue.add(key.clone());
    assert_eq!(Arc::strong_count(&key), 2);
    take(&queue).done();
    assert_eq!(Arc::strong_count(&key), 1);
    queue.add_after(key.clone(), SECOND);
    queue.shut_down();
    assert_eq!(Arc::strong_count(&key), 1);
}

// contract: W-02a
#[tokio::test(start_paused = true)]
async fn delayed_key() {
    let queue = queue();
    queue.add_after("foo", 50 * MS);
    assert_eq!(queue.depth(), 0);
    advance(49 * MS).await;
    assert!(queue.try_next().is_none());
    advance(11 * MS).await;
    assert_eq!(queue.depth(), 1);
    take(&queue).done();
    advance(10 * SECOND).await;
    assert_eq!(queue.depth(), 0);
}

// contract: W-02b
#[tokio::test(start_paused = true)]
async fn deduplicated_delays() {
    let queue = queue();
    queue.add_after("foo", 50 * MS);
    queue.add_after("foo", 70 * MS);
    assert_eq!(queue.depth(), 0);
    advance(60 * MS).await;
    take(&queue).done();
    advance(20 * MS).await;
    assert_eq!(queue.depth(), 0);

    queue.add_after("foo", 50 * MS);
    queue.add_after("foo", 30 * MS);
    assert_eq!(queue.depth(), 0);
    advance(40 * MS).await;
    take(&queue).done();
    advance(20 * MS).await;
    assert_eq!(queue.depth(), 0);
}

// contract: W-02a
#[tokio::test(start_paused = true)]
async fn earlier_delay_ends_first() {
    let queue = queue();
    queue.add_after("foo", SECOND);
    queue.add_after("bar", 50 * MS);
    assert_eq!(queue.depth(), 0);
    advance(60 * MS).await;
    assert_eq!(drain(&queue), ["bar"]);
    queue.add_after("baz", 2 * SECOND);
    advance(SECOND).await;
    assert_eq!(drain(&queue), ["foo"]);
    advance(2 * SECOND).await;
    assert_eq!(drain(&queue), ["baz"]);
}

// contract: W-02d
#[tokio::test(start_paused = true)]
async fn delays_that_end_together() {
    let queue = queue();
    queue.add_after("foo", SECOND);
    queue.add_after("bar", 500 * MS);
    queue.add_after("baz", 250 * MS);
    advance(2 * SECOND).await;
    assert_eq!(queue.depth(), 3);
    assert_eq!(drain(&queue), ["baz", "bar", "foo"]);
}

// contract: W-04a, W-04e
#[tokio::test(start_paused = true)]
async fn rate_limited_queue() {
    let limiter = ItemExponential::new(MS, SECOND);
    let queue = WorkQueue::builder().rate_limiter(limiter).build();
    let delay = async |key| {
        let start = tokio::time::Instant::now();
        queue.add_rate_limited(key);
        let item = queue.next().await.unwrap();
        assert_eq!(*item.key(), key);
        start.elapsed()
    };
    assert_eq!(delay("one").await, MS);
    assert_eq!(delay("one").await, 2 * MS);
    assert_eq!(queue.retries(&"one"), 2);
    assert_eq!(delay("two").await, MS);
    assert_eq!(delay("two").await, 2 * MS);
    queue.forget(&"one");
    assert_eq!(queue.retries(&"one"), 0);
    assert_eq!(delay("one").await, MS);
}

/// Returns the delays of a key in milliseconds.
fn delays<K>(limiter: &impl RateLimiter<K>, key: K, count: usize) -> Vec<u128> {
    (0..count).map(|_| limiter.when(&key).as_millis()).collect()
}

// contract: W-04a, W-04e
#[test]
fn item_exponential() {
    let limiter = ItemExponential::new(MS, SECOND);
    assert_eq!(delays(&limiter, "one", 5), [1, 2, 4, 8, 16]);
    assert_eq!(limiter.retries(&"one"), 5);
    assert_eq!(delays(&limiter, "two", 2), [1, 2]);
    assert_eq!(limiter.retries(&"two"), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.retries(&"one"), 0);
    assert_eq!(delays(&limiter, "one", 1), [1]);
}

// contract: W-04a
#[test]
fn item_exponential_does_not_overflow() {
    let limiter = ItemExponential::new(MS, 1000 * SECOND);
    assert_eq!(delays(&limiter, "one", 6)[5], 32);
    assert_eq!(delays(&limiter, "overflow1", 1001)[1000], 1_000_000);
    let limiter = ItemExponential::new(60 * SECOND, 3_600_000 * SECOND);
    assert_eq!(delays(&limiter, "two", 3)[2], 240_000);
    assert_eq!(delays(&limiter, "overflow2", 1001)[1000], 3_600_000_000);
}

// contract: W-04b, W-04e
#[test]
fn item_fast_slow() {
    let limiter = ItemFastSlow::new(5 * MS, 10 * SECOND, 3);
    assert_eq!(delays(&limiter, "one", 5), [5, 5, 5, 10_000, 10_000]);
    assert_eq!(limiter.retries(&"one"), 5);
    assert_eq!(delays(&limiter, "two", 2), [5, 5]);
    assert_eq!(limiter.retries(&"two"), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.retries(&"one"), 0);
    assert_eq!(delays(&limiter, "one", 1), [5]);
}

// contract: W-04d, W-04e
#[test]
fn max_of() {
    let limiter =
        MaxOf::new().with(ItemFastSlow::new(5 * MS, 3 * SECOND, 3)).with(ItemExponential::new(MS, SECOND));
    assert_eq!(delays(&limiter, "one", 5), [5, 5, 5, 3000, 3000]);
    assert_eq!(limiter.retries(&"one"), 5);
    assert_eq!(delays(&limiter, "two", 2), [5, 5]);
    assert_eq!(limiter.retries(&"two"), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.retries(&"one"), 0);
    assert_eq!(delays(&limiter, "one", 1), [5]);
}

/// A short delay for the first calls, whatever the keys are.
struct Step(std::sync::atomic::AtomicU32);

impl RateLimiter<u32> for Step {
    fn when(&self, _: &u32) -> Duration {
        let calls = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if calls < 100 { 5 * MS } else { 1000 * SECOND }
    }

    fn forget(&self, _: &u32) {}

    fn retries(&self, _: &u32) -> u32 {
        0
    }

    fn failing(&self) -> usize {
        0
    }
}

// contract: W-04d
#[test]
fn max_wait() {
    let limiter = MaxWait::new(Step(0.into()), 500 * SECOND);
    for key in 0..200 {
        assert_eq!(limiter.when(&key), if key < 100 { 5 * MS } else { 500 * SECOND });
    }
}

// contract: W-09a, W-09b, W-09c
#[tokio::test(start_paused = true)]
async fn metrics_of_a_key() {
    let micros = Duration::from_micros;
    let queue = queue();
    queue.add("foo");
    let metrics = queue.metrics();
    assert_eq!((metrics.adds, metrics.depth), (1, 1));

    advance(micros(50)).await;
    let item = take(&queue);
    let metrics = queue.metrics();
    assert_eq!((metrics.queue_duration.sum(), metrics.queue_duration.count()), (micros(50), 1));

    (0..5).for_each(|_| assert!(queue.add("foo")));
    let metrics = queue.metrics();
    assert_eq!((metrics.adds, metrics.depth), (2, 1));

    advance(micros(25)).await;
    item.done();
    let metrics = queue.metrics();
    assert_eq!((metrics.work_duration.sum(), metrics.work_duration.count()), (micros(25), 1));
    assert_eq!(metrics.depth, 1);

    let item = take(&queue);
    let metrics = queue.metrics();
    assert_eq!((metrics.queue_duration.sum(), metrics.queue_duration.count()), (micros(75), 2));

    advance(MS).await;
    let metrics = queue.metrics();
    assert_eq!((metrics.unfinished_work, metrics.longest_running), (MS, MS));
    item.done();
    let metrics = queue.metrics();
    assert_eq!((metrics.work_duration.sum(), metrics.work_duration.count()), (micros(1025), 2));
    assert_eq!((metrics.unfinished_work, metrics.longest_running), (Duration::ZERO, Duration::ZERO));
}
