//! The FIFO and the heap against the contract.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Pod, list, pod, unknown};
use kinformer_core::{Error as SinkError, KeyRef, Sink};
use kinformer_delta_fifo::{Bound, Error, Fifo, Heap, WriteError};
use proptest::prelude::*;

fn drain(queue: &Fifo<Pod>) -> Vec<(String, u32)> {
    std::iter::from_fn(|| queue.try_pop().unwrap()).map(|pod| (pod.name.clone(), pod.value)).collect()
}

fn add(queue: &Fifo<Pod>, name: &str, value: u32) {
    queue.add(pod(name, value)).unwrap();
}

/// The newest state of a key is popped at the position of its first state.
// contract: Q-17a, Q-17b
#[test]
fn fifo_pops_newest_states_in_first_order() {
    let queue = Fifo::new();
    for (name, value) in [("a", 1), ("b", 1), ("a", 2)] {
        add(&queue, name, value);
    }
    queue.add_if_not_present(pod("b", 9)).unwrap();
    queue.add_if_not_present(pod("c", 3)).unwrap();
    assert_eq!(queue.len(), 3);
    assert_eq!(queue.get_by_key(KeyRef::named("b")).unwrap().value, 1);
    assert_eq!(drain(&queue), [("a".into(), 2), ("b".into(), 1), ("c".into(), 3)]);
}

// contract: Q-17e
#[test]
fn fifo_drops_deleted_objects() {
    let queue = Fifo::new();
    for name in ["a", "b", "c"] {
        add(&queue, name, 1);
    }
    queue.delete(pod("a", 1)).unwrap().into_result().unwrap();
    queue.delete(unknown("absent", None)).unwrap().into_result().unwrap();
    add(&queue, "a", 2);
    assert_eq!(queue.keys().iter().map(|key| key.name()).collect::<Vec<_>>(), ["b", "c", "a"]);
    queue.replace(list(&[("c", 4)]).unidentified(1)).unwrap().into_result().unwrap();
    assert_eq!(queue.len(), 3, "an incomplete list deletes nothing");
    queue.replace(list(&[("c", 5), ("d", 5)])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [("c".into(), 5), ("d".into(), 5)]);
}

// contract: Q-06a, Q-06b, Q-06d
#[test]
fn fifo_syncs_when_first_list_has_left_the_queue() {
    let queue = Fifo::new();
    assert!(!queue.has_synced());
    queue.replace(list(&[("a", 1), ("b", 1)])).unwrap().into_result().unwrap();
    assert!(!queue.has_synced());
    queue.try_pop().unwrap();
    queue.delete(pod("b", 1)).unwrap().into_result().unwrap();
    assert!(queue.has_synced());
    let written = Fifo::new();
    add(&written, "a", 1);
    assert!(written.has_synced());
}

// contract: Q-17f
#[tokio::test]
async fn fifo_errors_after_close_and_at_its_bound() {
    let queue = Fifo::with_bound(Bound::Deltas(1));
    add(&queue, "a", 1);
    add(&queue, "a", 2);
    assert!(matches!(queue.add(pod("b", 1)), Err(SinkError::Full { .. })));
    assert!(!queue.is_ready());
    assert!(matches!(queue.add(pod("", 1)), Err(SinkError::Key { .. })));
    assert!(queue.close());
    assert!(!queue.close());
    queue.ready().await;
    assert!(matches!(queue.add(pod("a", 1)), Err(SinkError::Closed)));
    assert!(matches!(queue.delete(pod("a", 1)), Err(SinkError::Closed)));
    assert!(matches!(queue.replace(list(&[])), Err(SinkError::Closed)));
    assert_eq!(queue.pop().await.unwrap().value, 2);
    assert_eq!(queue.pop().await.unwrap_err(), Error::Closed);
    assert_eq!(queue.pop_blocking().unwrap_err(), Error::Closed);
    assert_eq!(Fifo::<Pod>::with_bound(Bound::Unbounded).try_pop().unwrap(), None);
}

// contract: Q-17b, Q-17c, Q-17e
#[test]
fn heap_pops_by_priority_and_then_by_age() {
    let heap = Heap::new(|pod: &Pod| pod.value);
    for (name, value) in [("a", 3), ("b", 1), ("c", 2), ("d", 1)] {
        heap.add(pod(name, value)).unwrap();
    }
    assert_eq!(heap.peek().unwrap().name, "b");
    heap.add(pod("a", 0)).unwrap();
    heap.add_if_not_present(pod("c", 9)).unwrap();
    assert_eq!(heap.get_by_key(KeyRef::named("c")).unwrap().value, 2);
    assert_eq!(heap.delete(KeyRef::named("b")).unwrap().unwrap().value, 1);
    assert_eq!(heap.delete(KeyRef::named("b")).unwrap(), None);
    assert_eq!(heap.keys().iter().map(|key| key.name()).collect::<Vec<_>>(), ["a", "d", "c"]);
    let popped: Vec<_> = std::iter::from_fn(|| heap.try_pop().unwrap()).map(|pod| pod.value).collect();
    assert_eq!(popped, [0, 1, 2]);
    let most = Heap::new(|pod: &Pod| Reverse(pod.value));
    assert!(most.bulk_add([pod("a", 1), pod("b", 2)]).is_empty());
    assert_eq!(most.try_pop().unwrap().unwrap().name, "b");
}

// contract: Q-17f
#[tokio::test]
async fn heap_errors_after_close_and_for_bad_objects() {
    let heap = Heap::new(|pod: &Pod| if pod.value == 13 { panic!("thirteen") } else { pod.value });
    let errors = heap.bulk_add([pod("a", 1), pod("", 2), pod("b", 13), pod("c", 0)]);
    let [no_key, no_priority] = errors.errors() else { panic!("{errors:?}") };
    assert!(matches!(no_key.error, SinkError::Key { index: 1, .. }));
    assert!(no_priority.to_string().contains('b'), "{no_priority}");
    assert_eq!(heap.len(), 2);
    let error = heap.add(pod("d", 13)).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(WriteError::Priority { key, .. }) if key.name() == "d"));
    assert!(heap.close());
    assert!(!heap.close());
    assert!(matches!(heap.add(pod("a", 1)), Err(SinkError::Closed)));
    assert!(matches!(heap.add_if_not_present(pod("a", 1)), Err(SinkError::Closed)));
    assert_eq!(heap.bulk_add([pod("a", 1)]).errors().len(), 1);
    assert_eq!(heap.delete(KeyRef::named("a")).unwrap_err(), Error::Closed);
    assert_eq!(heap.pop().await.unwrap().name, "c");
    assert_eq!(heap.pop_blocking().unwrap().name, "a");
    assert_eq!(heap.pop().await.unwrap_err(), Error::Closed);
}

// contract: Q-05a, Q-05b, Q-17f
#[tokio::test]
async fn heap_and_fifo_pops_wait() {
    let (heap, fifo) = (Heap::new(|pod: &Pod| pod.value), Fifo::new());
    let (other_heap, other_fifo) = (heap.clone(), fifo.clone());
    let popping = tokio::spawn(async move { (other_heap.pop().await, other_fifo.pop().await) });
    tokio::task::yield_now().await;
    heap.add(pod("a", 1)).unwrap();
    tokio::task::yield_now().await;
    add(&fifo, "b", 1);
    let (from_heap, from_fifo) = popping.await.unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (heap, fifo) = (heap.clone(), fifo.clone());
            [tokio::spawn(async move { heap.pop().await }), tokio::spawn(async move { fifo.pop().await })]
        })
        .collect();
    tokio::task::yield_now().await;
    heap.close();
    fifo.close();
    for task in waiting.into_iter().flatten() {
        assert_eq!(task.await.unwrap().unwrap_err(), Error::Closed);
    }
    assert_eq!((from_heap.unwrap().name.as_str(), from_fifo.unwrap().name.as_str()), ("a", "b"));
}

proptest! {
    // contract: Q-17b, Q-17c, Q-17e
    #[test]
    fn heap_behaves_like_a_sorted_list(steps in prop::collection::vec((0u8..5, 0u8..12, 0u32..8), 0..200)) {
        let heap = Heap::new(|pod: &Pod| pod.value);
        // Name to (value, age).
        let mut model: BTreeMap<String, (u32, usize)> = BTreeMap::new();
        for (age, (what, key, value)) in steps.into_iter().enumerate() {
            let name = format!("p{key}");
            match what {
                0 | 1 => {
                    heap.add(pod(&name, value)).unwrap();
                    model.insert(name, (value, age));
                }
                2 => {
                    heap.add_if_not_present(pod(&name, value)).unwrap();
                    model.entry(name).or_insert((value, age));
                }
                3 => prop_assert_eq!(heap.delete(KeyRef::named(&name)).unwrap().map(|pod| pod.value), model.remove(&name).map(|(value, _)| value)),
                _ => {
                    let first = model.iter().min_by_key(|(_, place)| **place).map(|(name, _)| name.clone());
                    let popped = heap.try_pop().unwrap();
                    prop_assert_eq!(popped.as_ref().map(|pod| pod.name.clone()), first.clone());
                    first.into_iter().for_each(|name| {
                        model.remove(&name);
                    });
                }
            }
            let mut order: Vec<_> = model.iter().map(|(name, place)| (*place, name.clone())).collect();
            order.sort();
            let listed: Vec<_> = heap.list().iter().map(|pod: &Arc<Pod>| pod.name.clone()).collect();
            prop_assert_eq!(listed, order.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
        }
    }

    // contract: Q-17a
    #[test]
    fn fifo_behaves_like_a_list_of_keys(steps in prop::collection::vec((0u8..6, 0u8..6, 0u32..100), 0..300)) {
        let queue = Fifo::new();
        let mut model: Vec<(String, u32)> = Vec::new();
        for (what, key, value) in steps {
            let name = format!("p{key}");
            let index = model.iter().position(|(queued, _)| *queued == name);
            match (what, index) {
                (0..=2, Some(index)) => { add(&queue, &name, value); model[index].1 = value; }
                (0..=2, None) => { add(&queue, &name, value); model.push((name, value)); }
                (3, index) => {
                    queue.delete(pod(&name, value)).unwrap().into_result().unwrap();
                    index.into_iter().for_each(|index| drop(model.remove(index)));
                }
                _ => {
                    let first = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(queue.try_pop().unwrap().map(|pod| (pod.name.clone(), pod.value)), first);
                }
            }
            prop_assert_eq!(queue.len(), model.len());
        }
        prop_assert_eq!(drain(&queue), model);
    }
}
