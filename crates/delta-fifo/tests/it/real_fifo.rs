//! RealFIFO against section Q of the contract.

use std::sync::Arc;

use crate::common::{Consumer, Pod, list, pod, texts, unknown};
use kinformer_core::{Delta, Error as SinkError, KeyProblem, KeyRef, Object, ObjectName, Transform};
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
fn deltas_are_popped_in_order_of_arrival() {
    let queue = RealFifo::new();
    write(&queue, &["b", "a", "b"]);
    queue.delete(pod("a", 7)).unwrap().into_result().unwrap();
    queue.add(pod("a", 8)).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), ["Updated b=0", "Updated a=1", "Updated b=2", "Deleted a=7", "Added a=8"]);
}

// contract: Q-01
#[test]
fn deltas_of_each_producer_keep_their_order() {
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

// contract: Q-04b
#[test]
fn deletion_of_unknown_key_is_kept() {
    for queue in [RealFifo::new(), with_known(&[]).0] {
        queue.delete(pod("a", 1)).unwrap().into_result().unwrap();
        queue.delete(unknown("b", None)).unwrap().into_result().unwrap();
        assert_eq!(drain(&queue), ["Deleted a=1", "Deleted ?b"]);
    }
}

/// In atomic mode, each list, resync and bookmark is queued as one delta, in order with all others.
// contract: Q-14a, Q-14b, Q-14d
#[test]
fn atomic_mode_keeps_lists_and_resyncs_whole() {
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

/// In atomic mode, bad entries of a list are reported, and the list names objects with a failed transform as
/// undelivered.
// contract: Q-14a, Q-20g
#[test]
fn atomic_mode_reports_bad_list_entries() {
    let transform =
        Transform::new(|pod: Arc<Pod>| if pod.name == "fails" { Err("no".into()) } else { Ok(pod) });
    let queue = RealFifo::builder().transform(transform).build();
    let undelivered = ["undecodable".parse().unwrap()];
    let bad = list(&[("a", 1), ("", 2), ("fails", 3), ("a", 4)]).undelivered(undelivered);
    let errors = queue.replace(bad).unwrap();
    let [nameless, failed, repeated] = errors.errors() else { panic!("{errors:?}") };
    assert!(matches!(nameless.error, SinkError::Key { index: 1, .. }), "{nameless}");
    let name = |name: &str| Some(ObjectName::Key(name.parse().unwrap()));
    assert_eq!([failed, repeated].map(|problem| problem.error.object()), [name("fails"), name("a")]);
    let mut popped = queue.try_pop().unwrap().unwrap();
    let Some(Delta::ReplacedAll(all)) = popped.take().into_iter().next() else { panic!("no list") };
    assert_eq!(all.objects.len(), 1);
    assert_eq!(all.objects[0].value, 4);
    let names: Vec<_> = all.undelivered.iter().map(|key| key.name()).collect();
    assert_eq!(names, ["undecodable", "fails"]);
}

// contract: R-15a, R-15b
#[test]
fn incomplete_list_deletes_nothing() {
    let incomplete = || list(&[("new", 3)]).unidentified(2);
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
    assert_eq!((all.unidentified, all.is_complete()), (2, false));
}

/// With known objects, a replace queues the deletions first and then the objects of the list.
// contract: Q-08a, Q-08b, Q-08c, Q-08d, Q-18c
#[test]
fn replace_queues_deletions_before_the_list() {
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

// contract: Q-08d
#[test]
fn deletion_in_flight_is_not_repeated() {
    let (queue, _) = with_known(&[("a", 1)]);
    queue.delete(pod("a", 2)).unwrap().into_result().unwrap();
    let processing = queue.try_pop().unwrap();
    queue.replace(list(&[])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [""; 0]);
    drop(processing);
}

/// With and without known objects, handlers receive the deletions of a list first.
// contract: Q-18a, Q-18b, Q-18c
#[test]
fn deletions_come_first_in_both_modes() {
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
fn replace_after_queued_deletion_adds_the_object() {
    let (queue, _) = with_known(&[("a", 1)]);
    queue.delete(pod("a", 2)).unwrap().into_result().unwrap();
    queue.replace(list(&[("a", 3)])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), ["Deleted a=2", "Replaced a=3"]);
}

// contract: Q-10a, Q-10b
#[test]
fn resync_queues_nothing_stale() {
    let (queue, _) = with_known(&[("idle", 1), ("queued", 1), ("processing", 1)]);
    write(&queue, &["processing", "queued"]);
    let processing = queue.try_pop().unwrap();
    queue.resync().unwrap();
    assert_eq!(drain(&queue), ["Updated queued=1", "Sync idle=1"]);
    drop(processing);
}

// contract: Q-06a, Q-06b, Q-06c, Q-06d, Q-07
#[test]
fn queue_syncs_after_first_list_is_processed() {
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
fn deltas_before_the_first_list_are_not_initial() {
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

// contract: Q-06d
#[test]
fn empty_list_of_atomic_queue_must_be_processed() {
    let queue = RealFifo::<Pod>::new();
    queue.replace(list(&[])).unwrap().into_result().unwrap();
    assert!(!queue.has_synced(), "the store may contain objects that this list deletes");
    drop(queue.try_pop().unwrap());
    assert!(queue.has_synced());
}

/// A batch has distinct keys. It ends at a repeated key and at a delta that concerns all objects.
// contract: Q-15a, Q-15c
#[test]
fn batch_has_distinct_keys() {
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

// contract: Q-15d
#[test]
fn batch_ends_with_the_initial_list() {
    let (queue, _) = with_known(&[]);
    queue.replace(list(&[("a", 1), ("b", 1)])).unwrap().into_result().unwrap();
    write(&queue, &["c"]);
    assert_eq!(batches(&queue, 1000), [vec!["Replaced a=1", "Replaced b=1"], vec!["Updated c=0"]]);
}

/// An object whose key can become invalid while it is queued.
struct LosesKey(Mutex<&'static str>, &'static str);

impl Object for LosesKey {
    fn key(&self) -> KeyRef<'_> {
        match *self.0.lock() {
            "panics" => panic!("expected panic"),
            "lost" => KeyRef::named(""),
            _ => KeyRef::named(self.1),
        }
    }
}

/// An item whose key became invalid in the queue is popped and reported, and ends the batch.
// contract: Q-15e
#[test]
fn item_that_lost_its_key_ends_the_batch() {
    for (state, problem) in [("lost", KeyProblem::EmptyName), ("panics", KeyProblem::Panicked)] {
        let queue = RealFifo::<LosesKey>::new();
        let pods = ["a", "b", "c"].map(|name| Arc::new(LosesKey(Mutex::new(""), name)));
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

// contract: Q-12b
#[test]
fn key_error_names_object_and_changes_nothing() {
    for queue in [RealFifo::new(), with_known(&[]).0] {
        for result in [queue.add(pod("", 1)), queue.update(pod("", 1)), queue.delete(pod("", 1))] {
            assert!(matches!(result, Err(SinkError::Key { .. })));
        }
        assert_eq!(queue.depth(), 0);
        assert!(!queue.has_synced());
    }
}

// contract: S-16a, S-16c
#[test]
fn transform_runs_once_for_each_object() {
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
