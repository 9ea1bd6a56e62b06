//! Metrics, besides those of the upstream tests.

use std::time::Duration;

use kinformer_workqueue::{Add, Histogram, WorkQueue};

use crate::common::{MS, SECOND, advance, queue, take};

// contract: W-09a
#[test]
fn depths_are_counted_for_each_priority() {
    let queue = WorkQueue::new();
    for key in 0..100_u32 {
        queue.add_with(key, Add::new().priority(i64::from(key % 20) - 10));
    }
    let depths = queue.depths();
    assert_eq!(depths.len(), 20);
    assert!(depths.is_sorted() && depths.iter().all(|(_, depth)| *depth == 5), "{depths:?}");
    let item = take(&queue);
    queue.add_with(*item.key(), Add::new().priority(-50));
    assert_eq!(queue.depths()[0], (-50, 1));
    queue.add_with(*item.key(), Add::new().priority(50));
    assert_eq!((queue.depths()[0].0, queue.depths()[20]), (-10, (50, 1)));
    assert_eq!(queue.depth(), 100);
}

// contract: W-09b
#[tokio::test(start_paused = true)]
async fn histograms_have_cumulative_buckets() {
    let queue = queue();
    for delay in [Duration::ZERO, MS, 2 * MS, 2000 * SECOND] {
        queue.add("a");
        advance(delay).await;
        take(&queue).done();
    }
    let histogram = queue.metrics().queue_duration;
    let buckets: Vec<_> = histogram.buckets().collect();
    assert_eq!(buckets.iter().map(|(bound, _)| *bound).collect::<Vec<_>>(), Histogram::BOUNDS);
    assert_eq!(buckets[0].1, 1);
    assert_eq!(buckets[5], (MS, 2));
    assert_eq!(buckets[6], (10 * MS, 3));
    assert_eq!(buckets[11], (1000 * SECOND, 3));
    assert_eq!((histogram.count(), histogram.sum()), (4, 2000 * SECOND + 3 * MS));
}

// contract: W-09c
#[tokio::test(start_paused = true)]
async fn unfinished_work_is_a_sum() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    let first = take(&queue);
    advance(SECOND).await;
    let _second = take(&queue);
    advance(SECOND).await;
    let metrics = queue.metrics();
    assert_eq!((metrics.unfinished_work, metrics.longest_running), (3 * SECOND, 2 * SECOND));
    assert_eq!(metrics.in_flight, 2);
    first.done();
    let metrics = queue.metrics();
    assert_eq!((metrics.unfinished_work, metrics.longest_running), (SECOND, SECOND));
}

/// A key that is queued again after its run, or raised, counts from its new place; one that is delayed does not count.
// contract: W-09e
#[tokio::test(start_paused = true)]
async fn oldest_key_has_an_age() {
    let queue = queue();
    assert_eq!(queue.metrics().oldest, Duration::ZERO);
    queue.add_after("delayed", 3600 * SECOND);
    queue.add("a");
    advance(SECOND).await;
    queue.add("b");
    advance(SECOND).await;
    assert_eq!(queue.metrics().oldest, 2 * SECOND);
    queue.add_with("a", Add::new().priority(1));
    assert_eq!(queue.metrics().oldest, SECOND, "a is behind b now");
    take(&queue).done();
    assert_eq!(queue.metrics().oldest, SECOND, "b is left");
    take(&queue).done();
    assert_eq!(queue.metrics().oldest, Duration::ZERO);
}

// contract: W-09d
#[tokio::test(start_paused = true)]
async fn durations_are_optional() {
    let queue = WorkQueue::builder().without_durations().build();
    queue.add("a");
    advance(SECOND).await;
    let item = take(&queue);
    advance(SECOND).await;
    let metrics = queue.metrics();
    item.done();
    assert_eq!((metrics.queue_duration, metrics.longest_running), (Histogram::default(), Duration::ZERO));
    assert_eq!(queue.metrics().work_duration.count(), 0);
    assert_eq!((metrics.adds, metrics.in_flight), (1, 1));
}

// contract: W-04g
#[tokio::test(start_paused = true)]
async fn failing_keys_are_counted() {
    let queue = WorkQueue::new();
    (0..10).for_each(|key| assert!(queue.add_rate_limited(key)));
    advance(SECOND).await;
    let first = take(&queue);
    while let Some(item) = queue.try_next() {
        drop(item);
    }
    assert_eq!(queue.metrics().failing, 10, "no key was forgotten");
    first.done();
    queue.forget(&5);
    assert_eq!(queue.metrics().failing, 8);
}
