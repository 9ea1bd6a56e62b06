//! The tests of controller-runtime's `priorityqueue`, case by case. docs/workqueue.md has the table.

use std::collections::HashMap;

use kinformer_workqueue::{Add, Fairness, ItemExponential, RateLimiter, WorkQueue};
use parking_lot::Mutex;

use crate::common::{MS, SECOND, advance, queue, settle, take};

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

fn priority(priority: i64) -> Add {
    Add::new().priority(priority)
}

// contract: W-09a
#[test]
fn returns_an_item() {
    let queue = queue();
    queue.add("foo");
    let item = take(&queue);
    assert_eq!(*item.key(), "foo");
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.adds, metrics.retries), (0, 1, 0));
}

// contract: W-01e
#[test]
fn returns_items_in_order() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    assert_eq!([take(&queue), take(&queue)].map(|item| *item.key()), ["foo", "bar"]);
    assert_eq!((queue.metrics().depth, queue.metrics().adds), (0, 2));
}

// contract: W-01b, W-09a
#[test]
fn does_not_return_a_locked_item() {
    let queue = queue();
    queue.add("foo");
    let _foo = take(&queue);
    queue.add("foo");
    queue.add("bar");
    assert_eq!(*take(&queue).key(), "bar");
    assert_eq!(queue.depths(), [(0, 1)]);
    assert_eq!(queue.metrics().adds, 3);
}

/// In controller-runtime the key keeps the place of its addition.
// contract: W-01d
#[test]
fn returns_an_unlocked_item_behind_the_others() {
    let queue = queue();
    queue.add("foo");
    let foo = take(&queue);
    queue.add("foo");
    queue.add("bar");
    let _bar = take(&queue);
    queue.add("baz");
    foo.done();
    assert_eq!([take(&queue), take(&queue)].map(|item| *item.key()), ["baz", "foo"]);
    assert_eq!(queue.metrics().adds, 4);
}

// contract: W-01a
#[test]
fn deduplicates_items() {
    let queue = queue();
    queue.add("foo");
    queue.add("foo");
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.in_flight, metrics.adds), (1, 0, 1));
}

// contract: W-01c
#[test]
fn enqueues_a_locked_item() {
    let queue = queue();
    queue.add("foo");
    let item = take(&queue);
    assert_eq!((*item.key(), item.priority(), queue.is_shut_down()), ("foo", 0, false));
    queue.add("foo");
    assert_eq!(queue.depth(), 1);
    item.done();
    let item = take(&queue);
    assert_eq!((*item.key(), item.priority(), queue.is_shut_down()), ("foo", 0, false));
    assert_eq!((queue.metrics().depth, queue.metrics().adds), (0, 2));
}

// contract: W-02b, W-03c
#[test]
fn retains_the_highest_priority() {
    for priorities in [[1, 2], [2, 1]] {
        let queue = queue();
        priorities.into_iter().for_each(|value| assert!(queue.add_with("foo", priority(value))));
        assert_eq!(queue.depths(), [(2, 1)]);
        assert_eq!(take(&queue).priority(), 2);
        assert_eq!((queue.depth(), queue.metrics().adds), (0, 1));
    }
}

// contract: W-03a, W-03b
#[test]
fn raised_priority_comes_first() {
    let queue = queue();
    ["foo", "bar", "baz"].into_iter().for_each(|key| assert!(queue.add(key)));
    queue.add_with("baz", priority(1));
    let item = take(&queue);
    assert_eq!((*item.key(), item.priority()), ("baz", 1));
    assert_eq!(queue.depths(), [(0, 2)]);
    assert_eq!(queue.metrics().adds, 3);
}

// contract: W-02b, W-02c
#[tokio::test(start_paused = true)]
async fn retains_the_shortest_delay() {
    let queue = queue();
    queue.add("foo");
    queue.add_after("foo", HOUR);
    take(&queue).done();
    assert_eq!((queue.depth(), queue.metrics().adds), (0, 1));
    advance(2 * HOUR).await;
    assert_eq!(queue.depth(), 0, "one run");
}

// contract: W-02a, W-09a
#[tokio::test(start_paused = true)]
async fn depth_has_no_delayed_items() {
    let queue = queue();
    queue.add_after("foo", 60 * SECOND);
    queue.add("baz");
    queue.add_after("bar", 60 * SECOND);
    queue.add("bal");
    assert_eq!(queue.depths(), [(0, 2)]);
    assert_eq!(queue.metrics().delayed, 2);
}

/// controller-runtime returns no key after the shutdown, not even the queued ones.
// contract: W-06a, W-06b
#[tokio::test]
async fn shut_down_queue_returns_queued_items_only() {
    let queue = queue();
    queue.add("baz");
    queue.shut_down();
    assert!(!queue.add_after("foo", SECOND));
    assert_eq!(*queue.next().await.unwrap().key(), "baz");
    for _ in 0..2 {
        assert!(queue.next().await.is_none());
    }
}

// contract: W-01b
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn returns_many_items() {
    let queue = WorkQueue::new();
    for round in 0..20_u32 {
        for key in 0..1000_u32 {
            let random = (key * 7919 + round * 104_729) % 100;
            if random < 10 {
                queue.add_after(key, random * MS);
            } else {
                queue.add_with(key, priority(random.into()));
            }
        }
        let workers: Vec<_> = (0..100)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    for _ in 0..10 {
                        queue.next().await.unwrap().done();
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        assert!(queue.try_next().is_none());
    }
}

// contract: W-02b, W-02c, W-09a
#[tokio::test(start_paused = true)]
async fn delayed_item_that_is_added_at_once() {
    for value in [0, 1] {
        let queue = queue();
        queue.add_after("foo", HOUR);
        assert!(queue.depths().is_empty());
        queue.add_with("foo", priority(value));
        assert_eq!(queue.depths(), [(value, 1)]);
        let item = take(&queue);
        assert_eq!((*item.key(), item.priority()), ("foo", value));
        item.done();
        assert!(queue.depths().is_empty());
        advance(2 * HOUR).await;
        assert_eq!((queue.depth(), queue.metrics().adds), (0, 1));
    }
}

// contract: W-03b
#[test]
fn raised_item_goes_behind_its_new_priority() {
    let queue = queue();
    queue.add("foo");
    queue.add_with("bar", priority(1));
    queue.add_with("foo", priority(1));
    assert_eq!(queue.depth(), 2);
    let items = [take(&queue), take(&queue)];
    assert_eq!(items.map(|item| (*item.key(), item.priority())), [("bar", 1), ("foo", 1)]);
}

// contract: W-01b, W-02b
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_adds_keep_the_invariants() {
    let queue = WorkQueue::new();
    let expected: Mutex<HashMap<u32, i64>> = Mutex::default();
    std::thread::scope(|scope| {
        for producer in 0..10_u32 {
            let (queue, expected) = (&queue, &expected);
            scope.spawn(move || {
                for step in 0..1000_u32 {
                    let random = (producer * 1000 + step).wrapping_mul(2_654_435_761);
                    let (key, value) = (random % 97, i64::from(random >> 20) - 2000);
                    let mut expected = expected.lock();
                    queue.add_with(key, priority(value).after((random % 3) * MS / 100));
                    let highest = expected.entry(key).or_insert(value);
                    *highest = value.max(*highest);
                }
            });
        }
    });
    let handed_out: Mutex<HashMap<u32, ()>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..10 {
            let (queue, expected, handed_out) = (&queue, &expected, &handed_out);
            scope.spawn(move || {
                loop {
                    let item = {
                        let mut expected = expected.lock();
                        if expected.is_empty() {
                            return;
                        }
                        let item = queue.next_blocking().unwrap();
                        assert_eq!(expected.remove(item.key()), Some(item.priority()));
                        item
                    };
                    assert_eq!(handed_out.lock().insert(*item.key(), ()), None, "handed out twice");
                    handed_out.lock().remove(item.key());
                    item.done();
                }
            });
        }
    });
    assert_eq!(queue.metrics().in_flight, 0);
}

// contract: W-03a, W-03e, W-09a
#[tokio::test(start_paused = true)]
async fn high_priorities_come_first() {
    for after in [std::time::Duration::ZERO, SECOND] {
        let queue = WorkQueue::builder().fairness(Fairness::StrictPriorities).build();
        let priorities = [10, 5, 0, -5, -10];
        for number in 0..1000 {
            priorities
                .into_iter()
                .for_each(|value| assert!(queue.add_with((value, number), priority(value).after(after))));
        }
        advance(after).await;
        for value in priorities {
            for number in 0..1000 {
                let item = take(&queue);
                assert_eq!((*item.key(), item.priority()), ((value, number), value));
            }
        }
        let metrics = queue.metrics();
        let retries = if after.is_zero() { 0 } else { 5000 };
        assert_eq!((metrics.depth, metrics.adds, metrics.retries), (0, 5000, retries));
    }
}

// contract: W-02a, W-08a
#[tokio::test(start_paused = true)]
async fn item_is_returned_after_its_delay() {
    let queue = queue();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { *queue.next().await.unwrap().key() }
    });
    settle().await;
    queue.add_after("foo", SECOND);
    settle().await;
    assert!(!waiting.is_finished());
    advance(SECOND).await;
    assert_eq!(waiting.await.unwrap(), "foo");
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.adds, metrics.retries), (0, 1, 1));
}

// contract: W-03a
#[tokio::test(start_paused = true)]
async fn high_priority_that_became_ready_comes_first() {
    let queue = queue();
    queue.add_with("foo", priority(-100));
    queue.add_after("prio", SECOND);
    advance(SECOND).await;
    let item = take(&queue);
    assert_eq!((*item.key(), item.priority()), ("prio", 0));
    assert_eq!(queue.depths(), [(-100, 1)]);
    assert_eq!((queue.metrics().adds, queue.metrics().retries), (2, 1));
}

// contract: W-08a
#[tokio::test(start_paused = true)]
async fn item_is_returned_as_soon_as_possible() {
    let queue = queue();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { *queue.next().await.unwrap().key() }
    });
    settle().await;
    queue.add_after("foo", 60 * SECOND);
    settle().await;
    assert!(!waiting.is_finished());
    queue.add("foo");
    settle().await;
    assert_eq!(waiting.await.unwrap(), "foo");
    assert_eq!((queue.metrics().depth, queue.metrics().adds), (0, 1));
}

// contract: W-02d, W-08a
#[tokio::test(start_paused = true)]
async fn delayed_items_are_returned_in_order() {
    let queue = queue();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { [*queue.next().await.unwrap().key(), *queue.next().await.unwrap().key()] }
    });
    queue.add_after("foo", SECOND);
    queue.add_after("bar", 200 * MS);
    settle().await;
    assert!(!waiting.is_finished());
    advance(SECOND).await;
    assert_eq!(waiting.await.unwrap(), ["bar", "foo"]);
    assert_eq!((queue.metrics().depth, queue.metrics().adds), (0, 2));
}

// contract: W-06c
#[tokio::test(start_paused = true)]
async fn shut_down_unblocks_next() {
    let queue = queue();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.is_none() })
        })
        .collect();
    settle().await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    queue.shut_down();
    for waiting in waiting {
        assert!(waiting.await.unwrap());
    }
}

// contract: W-02a, W-09a
#[tokio::test(start_paused = true)]
async fn depth_has_items_that_became_ready() {
    let queue = queue();
    for _ in 0..2 {
        queue.add_after("foo", 500 * MS);
        queue.add("baz");
        queue.add_after("bar", 500 * MS);
        queue.add("bal");
        assert_eq!(queue.depths(), [(0, 2)]);
        advance(SECOND).await;
        assert_eq!(queue.depths(), [(0, 4)]);
        (0..4).for_each(|_| take(&queue).done());
        assert!(queue.depths().is_empty());
    }
}

// contract: W-01a, W-09a
#[tokio::test(start_paused = true)]
async fn item_is_added_after_its_delay_is_over() {
    let queue = queue();
    queue.add_after("foo", 50 * MS);
    advance(50 * MS).await;
    assert_eq!(queue.depths(), [(0, 1)]);
    queue.add("foo");
    assert_eq!(queue.depths(), [(0, 1)]);
    take(&queue).done();
    assert!(queue.depths().is_empty());
    assert_eq!(queue.metrics().adds, 1);
}

// contract: W-04a
#[tokio::test(start_paused = true)]
async fn rate_limited_items_do_not_affect_each_other() {
    let limiter = std::sync::Arc::new(ItemExponential::default());
    let queue = WorkQueue::builder().rate_limiter(limiter.clone()).build();
    assert_eq!((0..7).map(|_| limiter.when(&"bar")).max(), Some(320 * MS));
    queue.add_rate_limited("foo");
    queue.add_rate_limited("bar");
    assert!(queue.try_next().is_none());
    advance(5 * MS).await;
    assert_eq!(*take(&queue).key(), "foo");
    assert!(queue.try_next().is_none());
    advance(634 * MS).await;
    assert!(queue.try_next().is_none());
    advance(MS).await;
    assert_eq!(*take(&queue).key(), "bar");
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.adds, metrics.retries), (0, 2, 2));
}

// contract: W-06c
#[test]
fn shut_down_while_items_are_handed_out() {
    for _ in 0..50 {
        let queue = WorkQueue::new();
        std::thread::scope(|scope| {
            for thread in 0..20_u32 {
                let queue = &queue;
                scope.spawn(move || {
                    for step in 0_u32.. {
                        let random = (thread * 1000 + step).wrapping_mul(2_654_435_761);
                        queue.add_with(random % 1000, priority((random >> 24).into()));
                        if queue.next_blocking().is_none() {
                            return;
                        }
                    }
                });
            }
            queue.add_after(5000, MS);
            queue.shut_down();
        });
        assert_eq!((queue.depth(), queue.metrics().in_flight), (0, 0));
    }
}
