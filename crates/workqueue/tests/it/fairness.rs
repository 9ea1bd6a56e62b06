//! Order: priorities, and the progress of low ones.

use std::num::NonZeroU32;

use kinformer_workqueue::{Add, Fairness, LOW_PRIORITY, WorkQueue};

use crate::common::{queue, take};

fn with_fairness(fairness: Fairness) -> WorkQueue<u32> {
    WorkQueue::builder().fairness(fairness).build()
}

/// Adds a key of priority 0 before each step, so that there always is one, and counts the steps until the key comes.
fn steps_until(queue: &WorkQueue<u32>, key: u32) -> Option<u32> {
    (1..=10_000).find(|step| {
        queue.add(1_000_000 + step);
        *take(queue).key() == key
    })
}

// contract: W-03d
#[test]
fn low_priority_progresses_under_constant_load() {
    for every in [1, 2, 3, 10] {
        for before in [0, 1, 20] {
            let queue = with_fairness(Fairness::OldestEvery(NonZeroU32::new(every).unwrap()));
            // Older keys of both priorities.
            for key in 0..before {
                queue.add_with(key, Add::new().priority(if key % 2 == 0 { 0 } else { LOW_PRIORITY }));
            }
            queue.add_with(999, Add::new().priority(i64::MIN));
            let steps = steps_until(&queue, 999).unwrap();
            assert!(steps <= every * (before + 1), "{steps} steps, every {every}, behind {before}");
        }
    }
}

// contract: W-03d
#[test]
fn every_tenth_key_is_the_oldest_by_default() {
    let queue = WorkQueue::new();
    queue.add_with(999, Add::new().priority(LOW_PRIORITY));
    assert_eq!(steps_until(&queue, 999), Some(10));
    assert_eq!(Fairness::default(), Fairness::OldestEvery(NonZeroU32::new(10).unwrap()));
}

/// Keys that were handed out while no lower priority waited do not count.
// contract: W-03d
#[test]
fn fairness_counts_only_preferred_keys() {
    let queue = WorkQueue::new();
    for key in 0..9 {
        queue.add(key);
        take(&queue).done();
    }
    queue.add_with(999, Add::new().priority(LOW_PRIORITY));
    queue.add(100);
    assert_eq!(*take(&queue).key(), 100);
}

// contract: W-03e
#[test]
fn strict_priorities_let_low_keys_wait() {
    let queue = with_fairness(Fairness::StrictPriorities);
    queue.add_with(999, Add::new().priority(LOW_PRIORITY));
    assert_eq!(steps_until(&queue, 999), None);
}

// contract: W-01d
#[test]
fn key_added_in_flight_goes_behind_its_priority() {
    let queue = queue();
    queue.add("a");
    let item = take(&queue);
    queue.add_with("a", Add::new().priority(1));
    queue.add("b");
    queue.add_with("c", Add::new().priority(1));
    item.done();
    assert_eq!(crate::common::drain(&queue), ["c", "a", "b"]);
}

/// The shortest first, or the newest first.
// contract: W-03f
#[test]
fn priority_is_a_custom_order() {
    let shortest_first = with_fairness(Fairness::StrictPriorities);
    for length in [30, 10, 20] {
        shortest_first.add_with(length, Add::new().priority(-i64::from(length)));
    }
    assert_eq!(crate::common::drain(&shortest_first), [10, 20, 30]);

    let newest_first = with_fairness(Fairness::StrictPriorities);
    for (number, key) in (0..).zip([1, 2, 3, 1]) {
        newest_first.add_with(key, Add::new().priority(number));
    }
    assert_eq!(crate::common::drain(&newest_first), [1, 3, 2]);
}
