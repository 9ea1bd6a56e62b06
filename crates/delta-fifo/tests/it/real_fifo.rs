//! RealFIFO against section Q of the contract.

use std::sync::Arc;

use crate::common::{Consumer, Pod, list, pod, texts, unknown};
use kinformer_core::{Delta, Error as SinkError, KeyProblem, KeyRef, Object, Transform};
use kinformer_delta_fifo::{Bound, RealFifo};
use parking_lot::Mutex;

fn drain(queue: &RealFifo<Pod>) -> Vec<String> {
    std::iter::from_fn(|| queue.try_pop().unwrap()).flat_map(|popped| texts(&popped)).collect()
}

fn batches(queue: &RealFifo<Pod>, max: usize) -> Vec<Vec<String>> {
    std::iter::from_fn(|| queue.try_pop_batch(max).unwrap()).map(|popped| texts(&popped)).collect()
}

fn with_known(pods: &[(&str, u32)]) -> (RealFifo<Pod>, Arc<Consumer>) {
    let known = Arc::new(Consumer::default());
    for (name, value) in pods {
        known.apply(&Delta::Added(pod(name, *value)));
    }
    (RealFifo::builder().known_objects(known.clone()).build(), known)
}

fn write(queue: &RealFifo<Pod>, names: &[&str]) {
    for (value, name) in names.iter().enumerate() {
        queue.update(pod(name, value as u32)).unwrap().into_result().unwrap();
    }
}

// contract: Q-13
#[test]
fn everything_comes_out_in_the_order_of_its_arrival() {
    let queue = RealFifo::new();
    write(&queue, &["b", "a", "b"]);
    queue.delete(pod("a", 7)).unwrap().into_result().unwrap();
    queue.add(pod("a", 8)).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), ["Updated b=0", "Updated a=1", "Updated b=2", "Deleted a=7", "Added a=8"]);
}

// contract: Q-01
#[test]
fn each_producers_items_come_out_in_its_own_order() {
    let queue: RealFifo<Pod> = RealFifo::builder().bound(Bound::Unbounded).build();
    std::thread::scope(|scope| {
        for producer in ["a", "b", "c"] {
            let queue = queue.clone();
            scope.spawn(move || {
                for value in 0..1000 {
                    queue.update(pod(producer, value)).unwrap().into_result().unwrap();
                }
            });
        }
        let mut next = std::collections::HashMap::from([("a", 0), ("b", 0), ("c", 0)]);
        while next.values().any(|next| *next < 1000) {
            for delta in queue.pop_blocking().unwrap().deltas() {
                let pod = delta.object().unwrap();
                let next = next.get_mut(pod.name.as_str()).unwrap();
                assert_eq!(*next, pod.value);
                *next += 1;
            }
        }
    });
}

// contract: Q-04
#[test]
fn a_deletion_of_what_nobody_has_is_kept() {
    for queue in [RealFifo::new(), with_known(&[]).0] {
        queue.delete(pod("a", 1)).unwrap().into_result().unwrap();
        queue.delete(unknown("b", None)).unwrap().into_result().unwrap();
        assert_eq!(drain(&queue), ["Deleted a=1", "Deleted ?b"]);
    }
}

// contract: Q-14
#[test]
fn atomic_mode_brings_lists_resyncs_and_bookmarks_whole_and_in_order() {
    let queue = RealFifo::new();
    assert!(queue.is_atomic());
    write(&queue, &["a"]);
    queue.bookmark("5").unwrap();
    queue.replace(list(&[("x", 1), ("y", 2)])).unwrap().into_result().unwrap();
    queue.resync().unwrap();
    write(&queue, &["b"]);
    assert_eq!(
        drain(&queue),
        ["Updated a=0", "Bookmark @5", "ReplacedAll x=1 y=2 @1", "SyncAll", "Updated b=0"]
    );
}

// contract: Q-14
#[test]
fn atomic_mode_reports_bad_entries_and_names_what_was_not_delivered() {
    let transform =
        Transform::new(|pod: Arc<Pod>| if pod.name == "fails" { Err("no".into()) } else { Ok(pod) });
    let queue = RealFifo::builder().transform(transform).build();
    let undelivered = ["undecodable".parse().unwrap()];
    let bad = list(&[("a", 1), ("", 2), ("fails", 3), ("a", 4)]).undelivered(undelivered);
    let errors = queue.replace(bad).unwrap();
    assert_eq!(errors.errors().iter().map(|p| p.position).collect::<Vec<_>>(), [1, 2, 0]);
    let mut popped = queue.try_pop().unwrap().unwrap();
    let Some(Delta::ReplacedAll(all)) = popped.take().into_iter().next() else { panic!("no list") };
    assert_eq!(all.objects.len(), 1);
    assert_eq!(all.objects[0].value, 4);
    let names: Vec<_> = all.undelivered.iter().map(|key| key.name()).collect();
    assert_eq!(names, ["undecodable", "fails"]);
}

// contract: R-15
#[test]
fn an_incomplete_list_deletes_nothing() {
    let incomplete = || list(&[("new", 3)]).unreadable(2);
    let (queue, known) = with_known(&[("stored", 1), ("processed", 1)]);
    write(&queue, &["processed"]);
    let processing = queue.try_pop().unwrap().unwrap();
    write(&queue, &["queued"]);
    queue.replace(incomplete()).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), ["Updated queued=0", "Replaced new=3"]);
    known.process(processing);

    let atomic = RealFifo::new();
    atomic.replace(incomplete()).unwrap().into_result().unwrap();
    let mut popped = atomic.try_pop().unwrap().unwrap();
    let Some(Delta::ReplacedAll(all)) = popped.take().into_iter().next() else { panic!("no list") };
    assert_eq!((all.unreadable, all.is_complete()), (2, false));
}

// contract
#[test]
fn with_known_objects_a_replace_is_deletions_first_then_the_list() {
    let (queue, _) = with_known(&[("stored", 1), ("both", 1), ("deleted", 1), ("kept", 1)]);
    assert!(!queue.is_atomic());
    write(&queue, &["both", "queued"]);
    queue.delete(pod("deleted", 2)).unwrap().into_result().unwrap();
    queue.bookmark("9").unwrap();
    assert_eq!(queue.depth(), 3, "no bookmarks");
    queue.replace(list(&[("kept", 3), ("new", 3)])).unwrap().into_result().unwrap();
    assert_eq!(
        drain(&queue),
        [
            "Updated both=0",
            "Updated queued=1",
            "Deleted deleted=2",
            "Deleted ?both=0",
            "Deleted ?queued=1",
            "Deleted ?stored=1",
            "Replaced kept=3",
            "Replaced new=3",
        ]
    );
}

// contract: Q-08
#[test]
fn what_is_being_deleted_is_not_deleted_again() {
    let (queue, _) = with_known(&[("a", 1)]);
    queue.delete(pod("a", 2)).unwrap().into_result().unwrap();
    let processing = queue.try_pop().unwrap();
    queue.replace(list(&[])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [""; 0]);
    drop(processing);
}

// contract: Q-18
#[test]
fn atomic_or_not_the_deletions_come_first_and_the_store_is_updated_before() {
    let events = |queue: RealFifo<Pod>, known: Arc<Consumer>| {
        queue.replace(list(&[("a", 1), ("b", 1)])).unwrap().into_result().unwrap();
        queue.replace(list(&[("b", 2), ("c", 2)])).unwrap().into_result().unwrap();
        while let Some(popped) = queue.try_pop_batch(100).unwrap() {
            known.process(popped);
        }
        let events: Vec<_> =
            known.events.lock().iter().map(|(key, event)| format!("{key} {event}")).collect();
        (events, known.state())
    };
    let atomic = events(RealFifo::new(), Arc::new(Consumer::default()));
    let (queue, known) = with_known(&[]);
    assert_eq!(atomic.0, ["a add 1", "b add 1", "a delete 1", "b update 1>2", "c add 2"]);
    assert_eq!(events(queue, known), atomic);
}

// contract: Q-09
#[test]
fn replace_after_a_queued_deletion_still_brings_the_object() {
    let (queue, _) = with_known(&[("a", 1)]);
    queue.delete(pod("a", 2)).unwrap().into_result().unwrap();
    queue.replace(list(&[("a", 3)])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), ["Deleted a=2", "Replaced a=3"]);
}

// contract: Q-10
#[test]
fn resync_brings_nothing_stale() {
    let (queue, _) = with_known(&[("idle", 1), ("queued", 1), ("processing", 1)]);
    write(&queue, &["processing", "queued"]);
    let processing = queue.try_pop().unwrap();
    queue.resync().unwrap();
    assert_eq!(drain(&queue), ["Updated queued=1", "Sync idle=1"]);
    drop(processing);
}

// contract
#[test]
fn synced_once_the_first_list_has_been_processed() {
    for (queue, entries) in [(RealFifo::new(), 1), (with_known(&[("gone", 1)]).0, 3)] {
        assert!(!queue.has_synced());
        queue.replace(list(&[("a", 1), ("b", 1)])).unwrap().into_result().unwrap();
        write(&queue, &["later"]);
        for _ in 0..entries {
            let popped = queue.try_pop().unwrap().unwrap();
            assert!(popped.in_initial_list());
            assert!(!queue.has_synced(), "popped is not processed");
            drop(popped);
        }
        assert!(queue.has_synced());
        assert!(!queue.try_pop().unwrap().unwrap().in_initial_list());
    }
    let (empty, _) = with_known(&[]);
    empty.replace(list(&[])).unwrap().into_result().unwrap();
    assert!(empty.has_synced());
    let written = RealFifo::<Pod>::new();
    written.delete(pod("a", 1)).unwrap().into_result().unwrap();
    assert!(written.has_synced());
}

// contract: Q-07
#[test]
fn what_was_queued_before_the_first_list_is_not_a_part_of_it() {
    let atomic = RealFifo::new();
    atomic.bookmark("5").unwrap();
    let (each, _) = with_known(&[("a", 1)]);
    each.resync().unwrap();
    for queue in [atomic, each] {
        queue.replace(list(&[("a", 2)])).unwrap().into_result().unwrap();
        let popped = queue.try_pop_batch(1000).unwrap().unwrap();
        assert_eq!((popped.deltas().len(), popped.in_initial_list()), (1, false));
        drop(popped);
        assert!(!queue.has_synced());
        assert!(queue.try_pop_batch(1000).unwrap().unwrap().in_initial_list());
        assert!(queue.has_synced());
    }
}

// contract: Q-06
#[test]
fn an_empty_list_of_an_atomic_queue_is_an_entry_to_process() {
    let queue = RealFifo::<Pod>::new();
    queue.replace(list(&[])).unwrap().into_result().unwrap();
    assert!(!queue.has_synced(), "the store may hold objects that this list takes away");
    drop(queue.try_pop().unwrap());
    assert!(queue.has_synced());
}

// contract: Q-15
#[test]
fn a_batch_takes_distinct_keys_and_ends_where_it_must() {
    let queue = RealFifo::new();
    write(&queue, &["a", "b", "c", "b", "d"]);
    queue.bookmark("5").unwrap();
    write(&queue, &["e", "f", "g", "h"]);
    queue.resync().unwrap();
    queue.replace(list(&[("x", 1)])).unwrap().into_result().unwrap();
    assert_eq!(
        batches(&queue, 3),
        [
            vec!["Updated a=0", "Updated b=1", "Updated c=2"],
            vec!["Updated b=3", "Updated d=4"],
            vec!["Bookmark @5"],
            vec!["Updated e=0", "Updated f=1", "Updated g=2"],
            vec!["Updated h=3"],
            vec!["SyncAll"],
            vec!["ReplacedAll x=1 @1"],
        ]
    );
    write(&queue, &["a", "a", "b"]);
    assert_eq!(batches(&queue, 1000), [vec!["Updated a=0"], vec!["Updated a=1", "Updated b=2"]]);
}

// contract: Q-15
#[test]
fn a_batch_ends_with_the_initial_list() {
    let (queue, _) = with_known(&[]);
    queue.replace(list(&[("a", 1), ("b", 1)])).unwrap().into_result().unwrap();
    write(&queue, &["c"]);
    assert_eq!(batches(&queue, 1000), [vec!["Replaced a=1", "Replaced b=1"], vec!["Updated c=0"]]);
}

/// An object that can lose its name while it is queued.
struct Fickle(Mutex<&'static str>, &'static str);

impl Object for Fickle {
    fn key(&self) -> KeyRef<'_> {
        match *self.0.lock() {
            "panics" => panic!("asked for its key"),
            "lost" => KeyRef::named(""),
            _ => KeyRef::named(self.1),
        }
    }
}

// contract: Q-15
#[test]
fn an_item_that_has_lost_its_key_is_popped_reported_and_ends_the_batch() {
    for (state, problem) in [("lost", KeyProblem::EmptyName), ("panics", KeyProblem::Panicked)] {
        let queue = RealFifo::<Fickle>::new();
        let pods = ["a", "b", "c"].map(|name| Arc::new(Fickle(Mutex::new(""), name)));
        for pod in &pods {
            queue.add(pod.clone()).unwrap().into_result().unwrap();
        }
        *pods[1].0.lock() = state;
        let batch = queue.try_pop_batch(10).unwrap().unwrap();
        assert_eq!(batch.deltas().len(), 2);
        assert_eq!(batch.key_error().unwrap().problem(), problem);
        drop(batch);
        let batch = queue.try_pop_batch(10).unwrap().unwrap();
        assert_eq!((batch.deltas().len(), batch.key_error().is_none()), (1, true));
    }
}

// contract: Q-12
#[test]
fn a_key_error_names_the_object_and_changes_nothing() {
    for queue in [RealFifo::new(), with_known(&[]).0] {
        for result in [queue.add(pod("", 1)), queue.update(pod("", 1)), queue.delete(pod("", 1))] {
            assert!(matches!(result, Err(SinkError::Key(_))));
        }
        assert_eq!(queue.depth(), 0);
        assert!(!queue.has_synced());
    }
}

// contract: S-16
#[test]
fn the_transform_sees_each_object_once_and_nothing_it_has_seen_before() {
    for atomic in [true, false] {
        let seen = Arc::new(Mutex::new(0));
        let log = seen.clone();
        let transform = Transform::in_place(move |pod: &mut Pod| {
            *log.lock() += 1;
            pod.value += 100;
            if pod.name == "fails" { Err("no".into()) } else { Ok(()) }
        });
        let known = Arc::new(Consumer::default());
        known.apply(&Delta::Added(pod("known", 1)));
        let builder = RealFifo::builder().transform(transform);
        let queue = if atomic { builder } else { builder.known_objects(known) }.build();
        write(&queue, &["a"]);
        queue.delete(pod("a", 1)).unwrap().into_result().unwrap();
        queue.delete(unknown("a", Some(pod("a", 2)))).unwrap().into_result().unwrap();
        assert_eq!(queue.delete(pod("fails", 1)).unwrap().errors().len(), 1);
        queue.replace(list(&[("known", 2)])).unwrap().into_result().unwrap();
        queue.resync().unwrap();
        let texts = drain(&queue);
        assert_eq!(&texts[..4], ["Updated a=100", "Deleted a=101", "Deleted ?a=2", "Deleted ?fails"]);
        assert!(texts[4].contains("known=102"), "{texts:?}");
        assert_eq!(*seen.lock(), 4);
    }
}
