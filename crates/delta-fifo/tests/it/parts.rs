//! Queues of a collection that is divided into parts.

use std::sync::Arc;

use kinformer_core::{
    Delta, Error, KeyRef, KnownObjects, Object, ObjectKey, PartId, Partition, Parts, Replacement,
    ResourceVersion, Tombstone, Transform,
};
use kinformer_delta_fifo::{DeltaFifo, Popped, Queue, RealFifo};
use parking_lot::Mutex;

const A: PartId = PartId::new(0);
const B: PartId = PartId::new(1);

/// An object that carries its part, which may change.
#[derive(Clone, Debug, PartialEq)]
struct Thing {
    name: &'static str,
    part: u32,
    version: u64,
}

impl Object for Thing {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::number(self.version)
    }
}

fn thing(name: &'static str, part: PartId, version: u64) -> Arc<Thing> {
    Arc::new(Thing { name, part: part.number(), version })
}

/// Partitions by the field. `parts` is the announced number of parts.
struct ByField {
    parts: u32,
}

impl Partition<Thing> for ByField {
    fn parts(&self) -> u32 {
        self.parts
    }

    fn part_of(&self, thing: &Thing) -> Option<PartId> {
        Some(thing.part.into())
    }
}

#[derive(Default)]
struct Store(Mutex<Vec<Arc<Thing>>>);

impl KnownObjects<Thing> for Store {
    fn keys(&self) -> Vec<ObjectKey> {
        self.0.lock().iter().map(|thing| thing.key().try_into().unwrap()).collect()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<Thing>> {
        self.0.lock().iter().find(|thing| thing.key() == key).cloned()
    }
}

/// A queue of each kind, of two parts, over known objects.
fn queues(known: &[Arc<Thing>]) -> Vec<(&'static str, Arc<dyn Queue<Thing>>)> {
    let parts = || Parts::new(ByField { parts: 2 });
    let known = || Arc::new(Store(Mutex::new(known.to_vec())));
    vec![
        ("RealFifo", Arc::new(RealFifo::builder().parts(parts()).build())),
        ("RealFifo by object", Arc::new(RealFifo::builder().parts(parts()).known_objects(known()).build())),
        ("DeltaFifo", Arc::new(DeltaFifo::builder().parts(parts()).known_objects(known()).build())),
    ]
}

fn list(part: PartId, things: &[Arc<Thing>], version: u64) -> Delta<Thing> {
    Delta::ReplacedAll(Box::new(Replacement::new(things.to_vec(), version).part(part)))
}

fn deleted(thing: Arc<Thing>) -> Delta<Thing> {
    Delta::Deleted(Tombstone::FinalState(thing))
}

fn text(delta: &Delta<Thing>) -> String {
    let state = |thing: &Arc<Thing>| format!("{}{}@{}", thing.name, thing.part, thing.version);
    match delta {
        Delta::ReplacedAll(all) => {
            let things: Vec<_> = all.objects.iter().map(state).collect();
            format!("{} = {}", all.part, things.join(" "))
        }
        Delta::Bookmark { part, resource_version } => format!("{part} @{resource_version}"),
        Delta::Deleted(Tombstone::FinalStateUnknown(missed)) => {
            format!("Deleted ?{}", missed.last_known.as_ref().map(state).unwrap_or_default())
        }
        other => format!("{} {}", other.delta_type(), other.object().map(state).unwrap_or_default()),
    }
}

fn write(queue: &dyn Queue<Thing>, delta: Delta<Thing>) {
    queue.apply(delta.into()).unwrap().into_result().unwrap();
}

fn pop(queue: &dyn Queue<Thing>) -> Option<Popped<Thing>> {
    queue.try_pop_batch(1).unwrap()
}

fn all(queue: &dyn Queue<Thing>) -> Vec<String> {
    std::iter::from_fn(|| pop(queue)).flat_map(|popped| popped.iter().map(text).collect::<Vec<_>>()).collect()
}

/// A list of one part deletes only objects of this part: known, queued or in flight.
// contract: Q-21a
#[test]
fn list_deletes_only_objects_of_its_part() {
    let known = [thing("a", A, 1), thing("b", B, 1)];
    for (name, queue) in queues(&known) {
        write(&*queue, Delta::Added(thing("c", A, 2)));
        write(&*queue, Delta::Added(thing("d", B, 2)));
        let in_flight = pop(&*queue).unwrap();
        assert_eq!(text(&in_flight[0]), "Added c0@2", "{name}");
        write(&*queue, Delta::Added(thing("e", A, 3)));
        write(&*queue, list(B, &[thing("f", B, 3)], 3));
        let mut popped = all(&*queue);
        popped.retain(|text| text.starts_with("Deleted") || text.starts_with("part"));
        popped.sort();
        let expected: &[&str] = match name {
            "RealFifo" => &["part 1 = f1@3"],
            _ => &["Deleted ?b1@1", "Deleted ?d1@2"],
        };
        assert_eq!(popped, expected, "{name}");
        write(&*queue, list(A, &[], 4));
        let mut popped = all(&*queue);
        popped.sort();
        let expected: &[&str] = match name {
            "RealFifo" => &["part 0 = "],
            _ => &["Deleted ?a0@1", "Deleted ?c0@2"],
        };
        assert_eq!(popped, expected, "{name}");
    }
}

/// A deletion of a part that was removed since, queued or in flight, is none for the part that has the object now: its list deletes
/// the object again.
// contract: Q-21b
#[test]
fn deletion_of_a_removed_part_counts_for_no_other() {
    let known = || Arc::new(Store(Mutex::new(vec![thing("a", A, 1)])));
    for is_in_flight in [false, true] {
        let parts = Parts::new(ByField { parts: 2 }).changeable();
        let queues: [(&str, Arc<dyn Queue<Thing>>); 2] = [
            ("RealFifo", Arc::new(RealFifo::builder().parts(parts.clone()).known_objects(known()).build())),
            ("DeltaFifo", Arc::new(DeltaFifo::builder().parts(parts.clone()).known_objects(known()).build())),
        ];
        queues.iter().for_each(|(_, queue)| write(&**queue, list(A, &[], 2)));
        assert!(parts.set(Parts::new(ByField { parts: 2 }), vec![5.into(), 6.into()]));
        for (name, queue) in queues {
            let in_flight = is_in_flight.then(|| pop(&*queue).unwrap());
            write(&*queue, list(5.into(), &[], 3));
            let popped: Vec<_> = std::iter::from_fn(|| pop(&*queue)).collect();
            let deltas = popped.iter().flat_map(|popped| popped.iter());
            let of_new = |delta: &&Delta<Thing>| matches!(delta, Delta::Deleted(Tombstone::FinalStateUnknown(missed)) if missed.part == Some(5.into()));
            assert_eq!(deltas.filter(of_new).count(), 1, "{name} {is_in_flight}: {popped:?}");
            drop(in_flight);
        }
    }
}

/// An object has moved into a part, and the deletion from its old part arrives late. A list of the new part without the
/// object deletes it nevertheless, because the late deletion is from another part.
// contract: Q-21b
#[test]
fn deletion_counts_only_for_its_part() {
    for late in 0..3 {
        for (name, queue) in queues(&[thing("a", B, 2)]) {
            let popped = match late {
                // Queued alone: the state of B is known.
                0 => {
                    write(&*queue, deleted(thing("a", A, 2)));
                    None
                }
                // Queued behind the state of B.
                1 => {
                    write(&*queue, Delta::Added(thing("a", B, 3)));
                    write(&*queue, deleted(thing("a", A, 3)));
                    None
                }
                // In flight.
                _ => {
                    write(&*queue, deleted(thing("a", A, 2)));
                    pop(&*queue)
                }
            };
            write(&*queue, list(B, &[], 4));
            let expected = match (name, late) {
                ("RealFifo", _) => "part 1 = ",
                (_, 1) => "Deleted ?a1@3",
                _ => "Deleted ?a1@2",
            };
            assert_eq!(all(&*queue).last().unwrap(), expected, "{name} {late}");
            drop(popped);
        }
    }
}

/// A deletion by key alone counts only for the part that it names, queued or in flight.
// contract: Q-21c, Q-22
#[test]
fn keyed_deletion_counts_only_for_its_part() {
    let deletion = |part| {
        let key = KeyRef::named("a").try_into().unwrap();
        Delta::Deleted(Tombstone::final_state_unknown(key, None).from_part(part))
    };
    for in_flight in [false, true] {
        for (name, queue) in queues(&[thing("a", B, 2)]) {
            write(&*queue, deletion(A));
            let popped = if in_flight { pop(&*queue) } else { None };
            write(&*queue, list(B, &[], 4));
            let last = match name {
                "RealFifo" => "part 1 = ",
                _ => "Deleted ?a1@2",
            };
            assert_eq!(all(&*queue).last().unwrap(), last, "{name} {in_flight}");
            drop(popped);
            // A deletion from this part counts.
            write(&*queue, deletion(B));
            let popped = if in_flight { pop(&*queue) } else { None };
            write(&*queue, list(B, &[], 5));
            let after: Vec<_> = popped.iter().flat_map(|popped| popped.iter().map(text)).collect();
            let after: Vec<_> = after.into_iter().chain(all(&*queue)).collect();
            let expected: &[&str] = match name {
                "RealFifo" => &["Deleted ?", "part 1 = "],
                _ => &["Deleted ?"],
            };
            assert_eq!(after, expected, "{name} {in_flight}");
            drop(popped);
        }
    }
    let queue = DeltaFifo::builder().parts(Parts::new(ByField { parts: 2 })).build();
    write(&queue, Delta::Added(thing("a", B, 2)));
    for part in [B, B, A] {
        write(&queue, deletion(part));
    }
    assert_eq!(queue.get_by_key(KeyRef::named("a")).len(), 3, "deletions of one part are merged");
}

// contract: S-16e
#[test]
fn transform_cannot_change_the_part() {
    let parts = || Parts::new(ByField { parts: 2 });
    let moved = || {
        Transform::new(|thing: Arc<Thing>| match thing.version {
            2 => Ok(Arc::new(Thing { part: 1, ..Thing::clone(&thing) })),
            _ => Ok(thing),
        })
    };
    let known = || Arc::new(Store(Mutex::new(vec![thing("a", A, 1)])));
    let queues: [(&str, Arc<dyn Queue<Thing>>); 3] = [
        ("RealFifo", Arc::new(RealFifo::builder().parts(parts()).transform(moved()).build())),
        (
            "RealFifo by object",
            Arc::new(RealFifo::builder().parts(parts()).transform(moved()).known_objects(known()).build()),
        ),
        (
            "DeltaFifo",
            Arc::new(DeltaFifo::builder().parts(parts()).transform(moved()).known_objects(known()).build()),
        ),
    ];
    for (name, queue) in queues {
        let both = [thing("a", A, 2), thing("b", A, 3)];
        for deltas in [both.clone().map(Delta::Updated).into(), list(A, &both, 3).into()] {
            let errors = queue.apply(deltas).unwrap();
            assert_eq!(errors.errors().len(), 1, "{name}: {errors:?}");
            let problem = &errors.errors()[0];
            assert!(matches!(problem.error, Error::OtherPart { part: Some(A), .. }), "{name}: {problem:?}");
            assert!(problem.left_out, "{name}");
            let Some(popped) = pop(&*queue) else { panic!("{name}: nothing is queued") };
            match &popped[0] {
                // The known state of the other object stays.
                Delta::ReplacedAll(list) => {
                    assert_eq!(list.undelivered, [KeyRef::named("a")]);
                }
                delta => assert!(text(delta).ends_with("b0@3"), "{name}: {delta:?}"),
            }
            assert!(pop(&*queue).is_none(), "{name}");
        }
        // A deletion is never left out, only its state.
        let errors = queue.apply(deleted(thing("a", A, 2)).into()).unwrap();
        assert!(errors.errors().len() == 1 && !errors.errors()[0].left_out, "{name}: {errors:?}");
        let popped = pop(&*queue).unwrap();
        let Delta::Deleted(Tombstone::FinalStateUnknown(missed)) = &popped[0] else {
            panic!("{name}: {popped:?}")
        };
        assert!(missed.last_known.is_none() && missed.part == Some(A), "{name}: {missed:?}");
    }
}

/// A closed queue rejects an operation even if all of its objects would be left out.
// contract: Q-20d
#[test]
fn closed_queue_rejects_left_out_objects() {
    for (name, queue) in queues(&[]) {
        queue.close();
        let refused = queue.apply(Delta::Added(thing("z", 5.into(), 1)).into());
        assert!(matches!(refused, Err(Error::Closed)), "{name}: {refused:?}");
    }
}

/// Consecutive deletions of one part are merged, as in client-go's queue. Deletions from two parts are not, because
/// each removes a state of its own part.
// contract: Q-22
#[test]
fn deletions_from_two_parts_are_not_merged() {
    let queue = DeltaFifo::builder().parts(Parts::new(ByField { parts: 2 })).build();
    write(&queue, Delta::Added(thing("a", B, 2)));
    for object in [thing("a", B, 3), thing("a", A, 2), thing("a", A, 4)] {
        write(&queue, deleted(object));
    }
    let texts: Vec<_> = queue.get_by_key(KeyRef::named("a")).iter().map(text).collect();
    assert_eq!(texts, ["Added a1@2", "Deleted a1@3", "Deleted a0@4"]);
}

/// Each first list is popped as part of the initial list. The queue has synced once the last of them was processed.
// contract: Q-23a, Q-23b
#[test]
fn queue_syncs_after_first_list_of_every_part() {
    for (name, queue) in queues(&[]) {
        write(&*queue, list(A, &[thing("a", A, 1), thing("b", A, 1)], 1));
        // From a watch.
        write(&*queue, Delta::Added(thing("c", A, 2)));
        write(&*queue, list(B, &[thing("d", B, 1)], 1));
        let mut initial = Vec::new();
        while let Some(popped) = pop(&*queue) {
            assert!(!queue.has_synced(), "{name}: {popped:?} has not been processed");
            initial.extend(popped.iter().map(|delta| (text(delta), popped.in_initial_list())));
            if initial.last().unwrap().0 == "Added c0@2" {
                assert!(!initial.pop().unwrap().1, "{name}");
            }
        }
        assert!(initial.iter().all(|(_, initial)| *initial), "{name}: {initial:?}");
        assert!(queue.has_synced(), "{name}");
        // Only the first list of each part.
        write(&*queue, list(A, &[thing("a", A, 3)], 3));
        assert!(!pop(&*queue).unwrap().in_initial_list(), "{name}");
        assert!(queue.has_synced(), "{name}");
    }
}

/// An empty first list makes no entry that was queued before it one of the initial list, and the queue has synced once
/// that entry was processed.
// contract: Q-07, Q-23a, Q-23b
#[test]
fn empty_first_list_has_no_entries() {
    for (name, queue) in queues(&[]) {
        write(&*queue, list(A, &[thing("a", A, 1)], 1));
        write(&*queue, Delta::Added(thing("b", A, 2)));
        write(&*queue, Delta::Added(thing("c", A, 3)));
        write(&*queue, list(B, &[], 4));
        let mut popped = Vec::new();
        while let Some(next) = pop(&*queue) {
            assert!(!queue.has_synced(), "{name}: {next:?} has not been processed");
            popped.extend(next.iter().map(|delta| (text(delta), next.in_initial_list())));
        }
        assert!(queue.has_synced(), "{name}");
        let initial =
            |delta: &str| popped.iter().find(|(text, _)| text == delta).map(|(_, initial)| *initial);
        assert_eq!((initial("Added b0@2"), initial("Added c0@3")), (Some(false), Some(false)), "{name}");
    }
}

/// The last first list is empty, or merges into deltas that are queued before it.
// contract: Q-23a
#[test]
fn last_first_list_may_queue_nothing_new() {
    for (name, queue) in queues(&[]) {
        write(&*queue, list(A, &[thing("a", A, 1)], 1));
        let first = pop(&*queue).unwrap();
        drop(first);
        assert!(!queue.has_synced(), "{name}");
        write(&*queue, list(B, &[], 1));
        while let Some(popped) = pop(&*queue) {
            drop(popped);
        }
        assert!(queue.has_synced(), "{name}");
    }
    for (name, queue) in queues(&[]) {
        write(&*queue, list(A, &[thing("a", A, 1)], 1));
        drop(pop(&*queue));
        write(&*queue, Delta::Updated(thing("a", A, 2)));
        // The object has moved.
        write(&*queue, list(B, &[thing("a", B, 3)], 3));
        assert!(!queue.has_synced(), "{name}: its list is queued");
        while let Some(popped) = pop(&*queue) {
            assert!(!queue.has_synced(), "{name}: {popped:?} has not been processed");
        }
        assert!(queue.has_synced(), "{name}");
    }
}

/// The entries that a first list joins, by its keys, are popped as initial. Other entries before it are not.
// contract: Q-23b, Q-23c
#[test]
fn only_entries_of_first_lists_are_initial() {
    let pops = |queue: &DeltaFifo<Thing>| {
        let mut pops = Vec::new();
        while let Some(popped) = queue.try_pop_batch(10).unwrap() {
            assert!(!queue.has_synced() || !popped.in_initial_list(), "{popped:?} has not been processed");
            pops.push((popped.iter().map(text).collect::<Vec<_>>().join(", "), popped.in_initial_list()));
        }
        assert!(queue.has_synced());
        pops
    };
    let two = || DeltaFifo::builder().parts(Parts::new(ByField { parts: 2 })).build();
    let queue = two();
    write(&queue, list(A, &[], 1));
    for name in ["x", "a", "y", "z"] {
        write(&queue, Delta::Added(thing(name, A, 2)));
    }
    // One of its objects has moved, and another one is only named as undelivered.
    let moved = Replacement::new(vec![thing("a", B, 3), thing("b", B, 3)], 3).part(B);
    let moved = moved.undelivered([KeyRef::named("z").try_into().unwrap()]);
    write(&queue, Delta::ReplacedAll(Box::new(moved)));
    let expected = [
        ("Added x0@2", false),
        ("Added a0@2, Replaced a1@3", true),
        ("Added y0@2, Added z0@2", false),
        ("Replaced b1@3", true),
    ];
    assert_eq!(pops(&queue), expected.map(|(text, initial)| (text.to_owned(), initial)));
    // The list joins another first list.
    let queue = two();
    write(&queue, list(A, &[thing("a", A, 1), thing("b", A, 1), thing("c", A, 1)], 1));
    write(&queue, Delta::Added(thing("x", A, 2)));
    write(&queue, list(B, &[thing("b", B, 3), thing("d", B, 3)], 3));
    let expected = [
        ("Replaced a0@1, Replaced b0@1, Replaced b1@3, Replaced c0@1", true),
        ("Added x0@2", false),
        ("Replaced d1@3", true),
    ];
    assert_eq!(pops(&queue), expected.map(|(text, initial)| (text.to_owned(), initial)));
}

/// Versions are popped with the parts that have reached them.
// contract: Q-24
#[test]
fn pop_returns_the_version_of_each_part() {
    for (name, queue) in queues(&[]) {
        write(&*queue, list(A, &[thing("a", A, 1)], 7));
        write(&*queue, list(B, &[thing("b", B, 1)], 3));
        write(&*queue, Delta::Bookmark { part: A, resource_version: 9.into() });
        let mut versions = kinformer_core::Versions::unset(2);
        while let Some(popped) = pop(&*queue) {
            popped.versions().apply_to(&mut versions);
        }
        assert_eq!(*versions.of(A), ResourceVersion::number(9), "{name}");
        assert_eq!(*versions.of(B), ResourceVersion::number(3), "{name}");
        assert_eq!(versions.lowest(), ResourceVersion::number(3), "{name}");
    }
}

/// An object of no part, or of a part that does not exist, is left out and reported. A deletion of such an object keeps
/// its key.
// contract: O-24b, O-24d
#[test]
fn object_of_unknown_part_is_reported() {
    for (name, queue) in queues(&[thing("a", A, 1)]) {
        for part in [2, u32::MAX] {
            let errors = queue.apply(Delta::Added(thing("z", part.into(), 1)).into()).unwrap();
            let problem = &errors.errors()[0];
            assert!(
                problem.left_out && matches!(problem.error, Error::OtherPart { .. }),
                "{name}: {errors:?}"
            );
            assert!(pop(&*queue).is_none(), "{name}");
            assert!(!queue.has_synced(), "{name}");
        }
        let errors = queue.apply(deleted(thing("a", 5.into(), 2)).into()).unwrap();
        assert!(!errors.is_empty() && !errors.errors()[0].left_out, "{name}: {errors:?}");
        assert_eq!(all(&*queue), ["Deleted ?"], "{name}");
    }
}

/// A part that does not exist takes no memory and does not affect other parts.
// contract: O-24e
#[test]
fn versions_of_unknown_parts_are_ignored() {
    for (name, queue) in queues(&[]) {
        let unknown_part = PartId::new(u32::MAX);
        write(&*queue, Delta::Bookmark { part: unknown_part, resource_version: 9.into() });
        write(&*queue, list(unknown_part, &[], 9));
        let mut versions = kinformer_core::Versions::unset(2);
        while let Some(popped) = pop(&*queue) {
            assert!(!popped.versions().apply_to(&mut versions), "{name}");
        }
        assert_eq!(versions.iter().count(), 2, "{name}");
        assert!(!queue.has_synced(), "{name}");
    }
}

/// The first list of a part without objects counts as processed when its version is: the version follows what was queued
/// or in flight before it.
// contract: Q-23a
#[test]
fn empty_first_list_syncs_with_its_version() {
    for (name, queue) in queues(&[]) {
        write(&*queue, list(A, &[], 1));
        drop(pop(&*queue));
        write(&*queue, Delta::Added(thing("a", A, 2)));
        write(&*queue, list(B, &[], 3));
        assert!(!queue.has_synced(), "{name}: the list is behind an object");
        all(&*queue);
        assert!(queue.has_synced(), "{name}");
    }
    for (name, queue) in queues(&[]) {
        write(&*queue, list(A, &[], 1));
        drop(pop(&*queue));
        write(&*queue, Delta::Added(thing("a", A, 2)));
        let in_flight = pop(&*queue);
        write(&*queue, list(B, &[], 3));
        drop(in_flight);
        assert!(!queue.has_synced(), "{name}: the list was not popped");
        drop(pop(&*queue));
        assert!(queue.has_synced(), "{name}");
    }
}
