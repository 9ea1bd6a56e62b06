//! Several deltas in one operation: all of them are queued or none, as if they were written one by one.

use std::sync::Arc;

use crate::common::{Consumer, Pod, list, pod, texts, unknown};
use kinformer_core::{
    Delta, Deltas, Error as SinkError, KeyRef, KnownObjects, ObjectKey, Sink, Transform, VersionUpdate,
};
use kinformer_delta_fifo::{Bound, DeltaFifo, Error, Fifo, Popped, Queue, RealFifo, WriteError};

/// A consumer that has stored these objects.
fn known(pods: &[(&str, u32)]) -> Arc<Consumer> {
    let consumer = Consumer::default();
    pods.iter().for_each(|(name, value)| consumer.apply(&Delta::Added(pod(name, *value))));
    Arc::new(consumer)
}

/// A queue of each kind, with its bound.
fn queues(bound: Bound, known: &Arc<dyn KnownObjects<Pod>>) -> [Arc<dyn Queue<Pod>>; 4] {
    let transform = || {
        Transform::new(|pod: Arc<Pod>| match pod.name.as_str() {
            "fails" => Err("fails".into()),
            _ => Ok(pod),
        })
    };
    [
        Arc::new(RealFifo::builder().bound(bound).transform(transform()).build()),
        Arc::new(
            RealFifo::builder().bound(bound).transform(transform()).known_objects(known.clone()).build(),
        ),
        Arc::new(DeltaFifo::builder().bound(bound).transform(transform()).build()),
        Arc::new(
            DeltaFifo::builder().bound(bound).transform(transform()).known_objects(known.clone()).build(),
        ),
    ]
}

fn history() -> Vec<Delta<Pod>> {
    vec![
        Delta::Added(pod("a", 2)),
        Delta::Updated(pod("b", 3)),
        Delta::Deleted(pod("a", 4).into()),
        Delta::ReplacedAll(Box::new(list(&[("b", 5), ("c", 5)]))),
        Delta::bookmark("6"),
        Delta::SyncAll,
        Delta::Replaced(pod("a", 7)),
        Delta::Sync(pod("k", 1)),
        Delta::Deleted(unknown("k", None)),
    ]
}

/// The result of each pop: its deltas, whether it is part of the initial list, and the versions.
fn drained(queue: &dyn Queue<Pod>) -> Vec<(Vec<String>, bool, String)> {
    let mut popped = Vec::new();
    while let Ok(Some(batch)) = queue.try_pop_batch(1) {
        popped.push((texts(&batch), batch.in_initial_list(), format!("{:?}", batch.versions())));
    }
    popped
}

/// A batch is queued as if its deltas were written one by one.
// contract: Q-20a
#[test]
fn batch_equals_single_writes() {
    let known: Arc<dyn KnownObjects<Pod>> = known(&[("k", 1)]);
    let (single, batch) = (queues(Bound::Unbounded, &known), queues(Bound::Unbounded, &known));
    for (single, batch) in single.iter().zip(&batch) {
        for delta in history() {
            single.apply(delta.into()).unwrap().into_result().unwrap();
        }
        batch.apply(history().into()).unwrap().into_result().unwrap();
        assert_eq!(single.metrics(), batch.metrics());
        let drained = drained(&**single);
        assert!(drained.len() > 2, "{drained:?}");
        assert_eq!(self::drained(&**batch), drained);
        assert!(single.has_synced() && batch.has_synced());
    }
}

// contract: Q-20f, Q-20g, Q-12a
#[test]
fn left_out_objects_are_reported_by_name() {
    let known: Arc<dyn KnownObjects<Pod>> = known(&[("gone", 1)]);
    for queue in queues(Bound::Unbounded, &known) {
        let deltas = [
            Delta::Updated(pod("", 1)),
            Delta::Added(pod("a", 1)),
            Delta::Added(pod("fails", 2)),
            Delta::ReplacedAll(Box::new(list(&[("b", 3), ("fails", 3), ("b", 4)]))),
            Delta::Added(pod("b", 5)),
            Delta::Deleted(pod("fails", 6).into()),
            Delta::Deleted(pod("", 7).into()),
        ];
        let errors = queue.apply(deltas.into()).unwrap();
        let mut problems: Vec<_> = errors
            .errors()
            .iter()
            .map(|problem| match &problem.error {
                SinkError::Key { index, .. } => (index.to_string(), problem.left_out),
                error => (error.object().unwrap().to_string(), problem.left_out),
            })
            .collect();
        problems.sort_unstable();
        let expected =
            [("0", true), ("6", true), ("b", true), ("fails", false), ("fails", true), ("fails", true)];
        assert_eq!(problems, expected.map(|(name, left_out)| (name.to_owned(), left_out)));
        assert!(queue.depth() > 0);
        assert!(queue.apply(Deltas::new()).unwrap().is_empty());
    }
}

// contract: Q-20b, Q-20c, Q-20d, Q-20h, Q-19e
#[test]
fn batch_is_accepted_or_rejected_as_a_whole() {
    let known: Arc<dyn KnownObjects<Pod>> = known(&[]);
    let added = |names: &[&str]| names.iter().map(|name| Delta::Added(pod(name, 1))).collect::<Deltas<_>>();
    for queue in queues(Bound::Deltas(2), &known) {
        queue.apply(added(&["a"])).unwrap().into_result().unwrap();
        queue.apply(added(&["b", "c", "d"])).unwrap().into_result().unwrap();
        assert_eq!((queue.depth(), queue.is_ready()), (4, false));
        let refused = queue.apply(added(&["e", "f"]));
        assert!(matches!(refused, Err(SinkError::Full { key: Some(key), limit: 2 }) if key.name() == "e"));
        let mut with_bookmark = added(&["e"]);
        with_bookmark.push(Delta::bookmark("9"));
        assert!(matches!(queue.apply(with_bookmark), Err(SinkError::Full { .. })));
        assert_eq!((queue.depth(), queue.metrics().refused), (4, 2));
        // A version needs no room.
        queue.apply(Delta::bookmark("8").into()).unwrap().into_result().unwrap();
        let popped: Vec<Popped<Pod>> = std::iter::from_fn(|| queue.try_pop_batch(9).unwrap()).collect();
        assert_eq!(popped.iter().map(|popped| popped.len()).sum::<usize>(), 4);
        assert_eq!(popped.last().unwrap().versions(), &VersionUpdate::Advance("8".into()).into());
        assert!(queue.close());
        assert!(matches!(queue.apply(added(&["e", "f"])), Err(SinkError::Closed)));
        assert_eq!(queue.try_pop_batch(1).unwrap_err(), Error::Closed);
    }
}

/// Known objects that panic.
struct Panicking;

impl KnownObjects<Pod> for Panicking {
    fn keys(&self) -> Vec<ObjectKey> {
        std::panic::resume_unwind(Box::new("broken"))
    }

    fn get_by_key(&self, _: KeyRef<'_>) -> Option<Arc<Pod>> {
        std::panic::resume_unwind(Box::new("broken"))
    }
}

// contract: Q-20b, Q-20e
#[test]
fn panicking_known_objects_reject_the_batch() {
    let queue = DeltaFifo::builder().known_objects(Arc::new(Panicking)).build();
    let deltas = [Delta::Added(pod("a", 1)), Delta::Deleted(pod("a", 2).into())];
    let is_known_objects_error =
        |error: SinkError| matches!(error.downcast_ref(), Some(WriteError::KnownObjects { .. }));
    assert!(is_known_objects_error(queue.apply(deltas.clone()).unwrap_err()));
    assert_eq!((queue.depth(), queue.has_synced()), (0, false));
    let queue = RealFifo::builder().known_objects(Arc::new(Panicking)).build();
    queue.apply(deltas).unwrap().into_result().unwrap();
    let deltas = [Delta::Added(pod("b", 3)), Delta::ReplacedAll(Box::new(list(&[("a", 4)])))];
    assert!(is_known_objects_error(queue.apply(deltas).unwrap_err()));
    assert_eq!(queue.depth(), 2);
}

// contract: Q-20b, Q-20c, Q-20f, Q-20h
#[test]
fn fifo_accepts_or_rejects_a_batch_as_a_whole() {
    let queue = Fifo::with_bound(Bound::Deltas(1));
    let deltas = [Delta::Added(pod("a", 1)), Delta::Added(pod("", 2)), Delta::Updated(pod("b", 3))];
    let errors = queue.apply(deltas.into()).unwrap();
    assert!(matches!(errors.errors()[0].error, SinkError::Key { index: 1, .. }));
    assert_eq!(queue.len(), 2);
    let deltas = [Delta::Deleted(pod("a", 4).into()), Delta::Added(pod("c", 5))];
    assert!(matches!(queue.apply(deltas.into()), Err(SinkError::Full { .. })));
    assert_eq!(queue.len(), 2);
    let deltas = [Delta::Added(pod("a", 6)), Delta::ReplacedAll(Box::new(list(&[("b", 7)]))), Delta::SyncAll];
    queue.apply(deltas.into()).unwrap().into_result().unwrap();
    assert_eq!((queue.len(), queue.try_pop().unwrap().unwrap().value), (1, 7));
}

/// The last piece of a list that is popped in pieces has the version of the list.
// contract: Q-19b
#[test]
fn last_piece_of_a_list_has_its_version() {
    let known: Arc<dyn KnownObjects<Pod>> = known(&[("gone", 1)]);
    let [_, by_object, _, delta_fifo] = queues(Bound::Unbounded, &known);
    for queue in [by_object, delta_fifo] {
        let list = list(&[("b", 5), ("c", 5), ("d", 5)]);
        let version = list.resource_version.clone();
        queue.apply(Delta::ReplacedAll(Box::new(list)).into()).unwrap().into_result().unwrap();
        let popped: Vec<_> = std::iter::from_fn(|| queue.try_pop_batch(1).unwrap()).collect();
        assert_eq!(popped.len(), 4);
        let (last, first) = popped.split_last().unwrap();
        assert_eq!(last.versions(), &VersionUpdate::Set { version, is_complete: true }.into());
        for piece in first {
            assert!(!format!("{:?}", piece.versions()).contains("Set"), "{piece:?}");
        }
    }
}
