//! DeltaFIFO against section Q of the contract.

use std::sync::Arc;

use crate::common::{Consumer, Pod, list, pod, text, texts, unknown};
use kinformer_core::{Delta, Error as SinkError, KeyRef, KnownObjects, ObjectKey, Tombstone, Transform};
use kinformer_delta_fifo::{Bound, DeltaFifo, OnReplace, WriteError};

fn queued(queue: &DeltaFifo<Pod>, key: &str) -> Vec<String> {
    queue.get_by_key(KeyRef::parse(key).unwrap()).iter().map(text).collect()
}

fn drain(queue: &DeltaFifo<Pod>) -> Vec<Vec<String>> {
    std::iter::from_fn(|| queue.try_pop().unwrap()).map(|popped| texts(&popped)).collect()
}

/// A queue with these known objects, and the consumer that stores them.
fn with_known(pods: &[(&str, u32)]) -> (DeltaFifo<Pod>, Arc<Consumer>) {
    let known = Arc::new(Consumer::default());
    for (name, value) in pods {
        known.apply(&Delta::Added(pod(name, *value)));
    }
    (DeltaFifo::builder().known_objects(known.clone()).build(), known)
}

// contract: Q-02a, Q-02b
#[test]
fn deltas_accumulate_under_their_key() {
    let queue = DeltaFifo::new();
    for (name, value) in [("a", 1), ("b", 1), ("a", 2)] {
        queue.update(pod(name, value)).unwrap().into_result().unwrap();
    }
    queue.delete(pod("a", 3)).unwrap().into_result().unwrap();
    assert_eq!((queue.len(), queue.depth()), (2, 4));
    let first = queue.try_pop().unwrap().unwrap();
    assert_eq!(texts(&first), ["Updated a=1", "Updated a=2", "Deleted a=3"]);
    queue.add(pod("a", 4)).unwrap().into_result().unwrap();
    assert_eq!(
        queue.keys().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["b", "a"],
        "after its pop, a key is queued at the tail"
    );
    drop(first);
    assert_eq!(drain(&queue), [vec!["Updated b=1"], vec!["Added a=4"]]);
}

// contract: Q-01
#[test]
fn deltas_of_each_producer_keep_their_order() {
    let queue: DeltaFifo<Pod> = DeltaFifo::builder().bound(Bound::Unbounded).build();
    std::thread::scope(|scope| {
        for producer in ["a", "b"] {
            let queue = queue.clone();
            scope.spawn(move || {
                for value in 0..1000 {
                    queue
                        .update(pod(&format!("{producer}{}", value % 7), value))
                        .unwrap()
                        .into_result()
                        .unwrap();
                }
            });
        }
        let mut last = std::collections::HashMap::new();
        let mut seen = 0;
        while seen < 2000 {
            for delta in queue.pop_blocking().unwrap().deltas() {
                let pod = delta.object().unwrap();
                assert!(last.insert(pod.name.clone(), pod.value).is_none_or(|before| before < pod.value));
                seen += 1;
            }
        }
    });
    let firsts = DeltaFifo::new();
    for name in ["c", "a", "b"] {
        firsts.add(pod(name, 0)).unwrap().into_result().unwrap();
    }
    assert_eq!(drain(&firsts).concat(), ["Added c=0", "Added a=0", "Added b=0"]);
}

/// Two consecutive deletions are merged: the one with more information is kept.
// contract: Q-03a, Q-03d
#[test]
fn merged_deletions_keep_the_most_information() {
    type Deletion = Tombstone<Arc<Pod>>;
    let cases: [(Deletion, Deletion, &str); 6] = [
        (pod("a", 2).into(), pod("a", 3).into(), "Deleted a=3"),
        (pod("a", 2).into(), unknown("a", Some(pod("a", 1))), "Deleted a=2"),
        (unknown("a", Some(pod("a", 1))), pod("a", 2).into(), "Deleted a=2"),
        (unknown("a", None), unknown("a", Some(pod("a", 1))), "Deleted ?a=1"),
        (unknown("a", Some(pod("a", 1))), unknown("a", None), "Deleted ?a=1"),
        (unknown("a", Some(pod("a", 1))), unknown("a", Some(pod("a", 2))), "Deleted ?a=1"),
    ];
    for (first, second, stays) in cases {
        let queue = DeltaFifo::new();
        queue.add(pod("a", 1)).unwrap().into_result().unwrap();
        queue.delete(first).unwrap().into_result().unwrap();
        queue.delete(second).unwrap().into_result().unwrap();
        assert_eq!(queued(&queue, "a"), ["Added a=1", stays]);
        assert_eq!(queue.depth(), 2);
    }
}

// contract: Q-04a
#[test]
fn deletion_of_unknown_key_is_dropped() {
    let alone = DeltaFifo::<Pod>::new();
    alone.delete(pod("a", 1)).unwrap().into_result().unwrap();
    assert!(alone.is_empty());
    assert!(alone.has_synced(), "the write itself counts");

    let (queue, _) = with_known(&[("known", 1)]);
    for name in ["known", "unknown"] {
        queue.delete(pod(name, 2)).unwrap().into_result().unwrap();
    }
    assert_eq!(drain(&queue), [["Deleted known=2"]]);

    queue.add(pod("new", 1)).unwrap().into_result().unwrap();
    let processing = queue.try_pop().unwrap();
    queue.delete(pod("new", 2)).unwrap().into_result().unwrap();
    assert_eq!(queued(&queue, "new"), ["Deleted new=2"], "an object in flight is known");
    drop(processing);
}

// contract: Q-06a, Q-06d, Q-07
#[test]
fn queue_syncs_after_first_replace_is_processed() {
    let (queue, known) = with_known(&[("gone", 1)]);
    assert!(!queue.has_synced(), "untouched");
    queue.replace(list(&[("a", 1), ("b", 1)])).unwrap().into_result().unwrap();
    queue.add(pod("later", 1)).unwrap().into_result().unwrap();
    for expected in [["Replaced a=1"], ["Replaced b=1"], ["Deleted ?gone=1"]] {
        assert!(!queue.has_synced());
        let popped = queue.try_pop().unwrap().unwrap();
        assert_eq!(texts(&popped), expected);
        assert!(popped.in_initial_list());
        assert!(!queue.has_synced(), "popped is not processed");
        known.process(popped);
    }
    assert!(queue.has_synced());
    let popped = queue.try_pop().unwrap().unwrap();
    assert!(!popped.in_initial_list());
    drop(popped);
    queue.replace(list(&[("z", 1)])).unwrap().into_result().unwrap();
    assert!(queue.has_synced(), "a second replace does not affect it");
    assert!(!queue.try_pop().unwrap().unwrap().in_initial_list());
}

// contract: Q-06b, Q-06c
#[test]
fn first_write_or_empty_replace_syncs_at_once() {
    let writes: [fn(&DeltaFifo<Pod>); 4] = [
        |queue| queue.add(pod("a", 1)).unwrap().into_result().unwrap(),
        |queue| queue.update(pod("a", 1)).unwrap().into_result().unwrap(),
        |queue| queue.delete(pod("a", 1)).unwrap().into_result().unwrap(),
        |queue| queue.replace(list(&[])).unwrap().into_result().unwrap(),
    ];
    for write in writes {
        let queue = DeltaFifo::new();
        write(&queue);
        assert!(queue.has_synced());
        queue.replace(list(&[("b", 1)])).unwrap().into_result().unwrap();
        assert!(queue.has_synced());
    }
}

// contract: Q-15d, Q-07
#[test]
fn batch_ends_with_the_initial_list() {
    let queue = DeltaFifo::new();
    queue.replace(list(&[("a", 1), ("b", 1)])).unwrap().into_result().unwrap();
    queue.add(pod("c", 1)).unwrap().into_result().unwrap();
    queue.add(pod("d", 1)).unwrap().into_result().unwrap();
    let batch = queue.try_pop_batch(1000).unwrap().unwrap();
    assert_eq!(texts(&batch), ["Replaced a=1", "Replaced b=1"]);
    assert!(batch.in_initial_list());
    drop(batch);
    let batch = queue.try_pop_batch(1000).unwrap().unwrap();
    assert_eq!((texts(&batch).len(), batch.in_initial_list()), (2, false));
}

// contract: Q-08a, Q-08b, Q-08c, Q-08d
#[test]
fn replace_queues_deletions_with_newest_state() {
    let (queue, _) = with_known(&[("stored", 1), ("both", 1), ("deleted", 1), ("kept", 1)]);
    queue.update(pod("both", 2)).unwrap().into_result().unwrap();
    queue.add(pod("queued", 1)).unwrap().into_result().unwrap();
    queue.delete(pod("deleted", 2)).unwrap().into_result().unwrap();
    queue.replace(list(&[("kept", 3), ("new", 3)])).unwrap().into_result().unwrap();
    assert_eq!(
        drain(&queue),
        [
            vec!["Updated both=2", "Deleted ?both=2"],
            vec!["Added queued=1", "Deleted ?queued=1"],
            vec!["Deleted deleted=2"],
            vec!["Replaced kept=3"],
            vec!["Replaced new=3"],
            vec!["Deleted ?stored=1"],
        ]
    );
}

// contract: Q-08a, Q-08b, Q-08c
#[test]
fn replace_can_queue_sync_without_known_objects() {
    let queue = DeltaFifo::builder().on_replace(OnReplace::Sync).build();
    queue.add(pod("queued", 1)).unwrap().into_result().unwrap();
    queue.replace(list(&[("a", 1)])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [vec!["Added queued=1", "Deleted ?queued=1"], vec!["Sync a=1"]]);
}

// contract: Q-08b
#[test]
fn known_key_without_object_gets_a_tombstone() {
    struct KeysOnly;
    impl KnownObjects<Pod> for KeysOnly {
        fn keys(&self) -> Vec<ObjectKey> {
            vec!["ghost".parse().unwrap()]
        }
        fn get_by_key(&self, _: KeyRef<'_>) -> Option<Arc<Pod>> {
            None
        }
    }
    let queue = DeltaFifo::builder().known_objects(Arc::new(KeysOnly)).build();
    queue.replace(list(&[])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [["Deleted ?ghost"]]);
    queue.resync().unwrap();
    assert!(queue.is_empty());
}

// contract: Q-08b
#[test]
fn undelivered_objects_are_not_deleted() {
    let (queue, _) = with_known(&[("stored", 1), ("gone", 1)]);
    queue.add(pod("queued", 1)).unwrap().into_result().unwrap();
    let undelivered = ["stored", "queued"].map(|name| name.parse().unwrap());
    queue.replace(list(&[]).undelivered(undelivered)).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [["Added queued=1"], ["Deleted ?gone=1"]]);
}

// contract: R-15a, R-15b, R-15f
#[test]
fn incomplete_list_deletes_nothing() {
    let (queue, known) = with_known(&[("stored", 1), ("processed", 1)]);
    queue.update(pod("processed", 2)).unwrap().into_result().unwrap();
    let processing = queue.try_pop().unwrap().unwrap();
    queue.add(pod("queued", 1)).unwrap().into_result().unwrap();
    queue.replace(list(&[("new", 3)]).unidentified(2)).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [["Added queued=1"], ["Replaced new=3"]]);
    known.process(processing);
    queue.replace(list(&[("stored", 1)])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [["Replaced stored=1"], ["Deleted ?processed=2"]]);
}

/// A replace deletes an object in flight, unless its newest delta is a deletion.
// contract: Q-08b, Q-08c, Q-08d
#[test]
fn replace_deletes_existing_objects_in_flight() {
    let (queue, known) = with_known(&[("deleted", 1)]);
    queue.add(pod("added", 1)).unwrap().into_result().unwrap();
    queue.delete(pod("deleted", 2)).unwrap().into_result().unwrap();
    let processing = [queue.try_pop().unwrap().unwrap(), queue.try_pop().unwrap().unwrap()];
    queue.replace(list(&[])).unwrap().into_result().unwrap();
    assert_eq!(queue.keys().len(), 1);
    assert_eq!(queued(&queue, "added"), ["Deleted ?added=1"]);
    processing.into_iter().for_each(|popped| known.process(popped));
    known.process(queue.try_pop().unwrap().unwrap());
    assert!(known.state().is_empty());
}

// contract: Q-04a
#[test]
fn deletion_during_a_deletion_is_kept() {
    let (queue, known) = with_known(&[("a", 1)]);
    queue.delete(unknown("a", None)).unwrap().into_result().unwrap();
    let processing = queue.try_pop().unwrap().unwrap();
    queue.delete(pod("a", 2)).unwrap().into_result().unwrap();
    assert_eq!(
        queued(&queue, "a"),
        ["Deleted a=2"],
        "the consumer may not have applied the first deletion yet"
    );
    known.process(processing);
}

// contract: Q-09
#[test]
fn replace_after_queued_deletion_adds_the_object() {
    let (queue, _) = with_known(&[("a", 1)]);
    queue.delete(pod("a", 2)).unwrap().into_result().unwrap();
    queue.replace(list(&[("a", 3)])).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [["Deleted a=2", "Replaced a=3"]]);
}

// contract: Q-10a, Q-10b
#[test]
fn resync_queues_nothing_stale() {
    let (queue, _) = with_known(&[("idle", 1), ("queued", 1), ("processing", 1)]);
    queue.update(pod("processing", 2)).unwrap().into_result().unwrap();
    queue.update(pod("queued", 2)).unwrap().into_result().unwrap();
    let processing = queue.try_pop().unwrap();
    queue.resync().unwrap();
    assert_eq!(drain(&queue), [["Updated queued=2"], ["Sync idle=1"]]);
    drop(processing);
    DeltaFifo::<Pod>::new().resync().unwrap();
}

// contract: Q-11
#[test]
fn add_and_delete_before_a_pop_are_both_kept() {
    let (queue, _) = with_known(&[]);
    queue.add(pod("a", 1)).unwrap().into_result().unwrap();
    queue.delete(pod("a", 2)).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [["Added a=1", "Deleted a=2"]]);
}

// contract: Q-12a, Q-12b
#[test]
fn key_error_names_object_and_changes_nothing() {
    let (queue, _) = with_known(&[("a", 1)]);
    queue.add(pod("a", 1)).unwrap().into_result().unwrap();
    for result in [
        queue.add(pod("", 1)).map(drop),
        queue.update(pod("", 1)).map(drop),
        queue.delete(pod("", 1)).map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(&error, SinkError::Key { source, .. } if source.key().is_empty()), "{error:?}");
    }
    assert_eq!(drain(&queue), [["Added a=1"]]);
}

/// Invalid and repeated entries of a list are reported by their index or key, and the others are queued.
// contract: Q-12a, Q-20g
#[test]
fn bad_list_entries_are_reported_by_name() {
    let queue = DeltaFifo::new();
    let errors = queue.replace(list(&[("a", 1), ("", 2), ("b", 3), ("a", 4)])).unwrap();
    let [nameless, repeated] = errors.errors() else { panic!("{errors:?}") };
    assert!(matches!(nameless.error, SinkError::Key { index: 1, .. }), "{nameless}");
    assert!(nameless.to_string().contains("the name is empty"));
    assert!(repeated.to_string().contains("a is in the list more than once"));
    assert_eq!(drain(&queue), [["Replaced b=3"], ["Replaced a=4"]], "the last one counts");
}

// contract: S-16a, S-16c
#[test]
fn transform_runs_once_for_each_object() {
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = seen.clone();
    let transform = Transform::in_place(move |pod: &mut Pod| {
        log.lock().push(format!("{}={}", pod.name, pod.value));
        pod.value += 100;
        if pod.name == "fails" { Err("no".into()) } else { Ok(()) }
    });
    let known = Arc::new(Consumer::default());
    known.apply(&Delta::Added(pod("fails", 1)));
    let queue = DeltaFifo::builder().known_objects(known.clone()).transform(transform).build();
    queue.add(pod("a", 1)).unwrap().into_result().unwrap();
    queue.update(pod("a", 2)).unwrap().into_result().unwrap();
    queue.delete(pod("a", 3)).unwrap().into_result().unwrap();
    queue.delete(unknown("a", Some(pod("a", 4)))).unwrap().into_result().unwrap();
    assert!(queue.delete(pod("", 9)).is_err(), "without a key there is nothing to transform");
    assert!(
        matches!(queue.add(pod("fails", 5)), Err(SinkError::Transform { key, .. }) if key.name() == "fails")
    );
    let errors = queue.replace(list(&[("b", 6), ("fails", 7)])).unwrap();
    assert_eq!(errors.errors().len(), 1);
    assert_eq!(
        drain(&queue),
        [vec!["Added a=101", "Updated a=102", "Deleted a=103"], vec!["Replaced b=106"]]
    );
    queue.resync().unwrap();
    assert_eq!(drain(&queue), [["Sync fails=1"]], "an object with a failed transform keeps its state");
    assert_eq!(*seen.lock(), ["a=1", "a=2", "a=3", "fails=5", "b=6", "fails=7"]);

    let errors = queue.delete(pod("fails", 8)).unwrap();
    let [problem] = errors.errors() else { panic!("{errors:?}") };
    assert!(matches!(&problem.error, SinkError::Transform { key, .. } if key.name() == "fails"));
    assert_eq!(drain(&queue), [["Deleted ?fails"]], "only its state is lost, not the deletion");
}

#[test]
fn panicking_user_code_changes_nothing() {
    struct Panics;
    impl KnownObjects<Pod> for Panics {
        fn keys(&self) -> Vec<ObjectKey> {
            panic!("keys")
        }
        fn get_by_key(&self, _: KeyRef<'_>) -> Option<Arc<Pod>> {
            panic!("get")
        }
    }
    let queue = DeltaFifo::builder().known_objects(Arc::new(Panics)).build();
    queue.add(pod("a", 1)).unwrap().into_result().unwrap();
    for result in
        [queue.replace(list(&[("b", 1)])).map(drop), queue.resync(), queue.delete(pod("a", 1)).map(drop)]
    {
        let error = result.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(WriteError::KnownObjects { .. })), "{error:?}");
    }
    assert_eq!(drain(&queue), [["Added a=1"]]);
    queue.add(pod("c", 1)).unwrap().into_result().unwrap();
    assert_eq!(drain(&queue), [["Added c=1"]]);
    let panicking = DeltaFifo::builder().transform(Transform::new(|_: Arc<Pod>| panic!("transform"))).build();
    assert!(matches!(panicking.add(pod("a", 1)), Err(SinkError::Transform { .. })));
    assert!(panicking.is_empty());
}
