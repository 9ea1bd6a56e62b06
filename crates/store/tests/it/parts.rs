//! Stores of a collection that is divided into parts.

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{
    ByNamespace, Delta, Deltas, Error as ObjectError, KeyRef, ObjectName, PartId, PartialErrors, Partition,
    Parts, Replacement, ResourceVersion, Tombstone, Transform,
};
use kinformer_store::{Error, IndexFunction, Indexer};
use kinformer_testing::Item;

const A: PartId = PartId::new(0);
const B: PartId = PartId::new(1);

/// The value of an item is the number of its part.
struct ByValue {
    parts: u32,
}

impl Partition<Item> for ByValue {
    fn parts(&self) -> u32 {
        self.parts
    }

    fn part_of(&self, item: &Item) -> Option<PartId> {
        u32::try_from(item.value).ok().map(PartId::new)
    }
}

fn item(name: &str, part: PartId, version: u64) -> Arc<Item> {
    Arc::new(Item::of(name, version, part.number().into()))
}

fn list(part: PartId, items: &[Arc<Item>], version: u64) -> Replacement<Item> {
    Replacement::new(items.to_vec(), version).part(part)
}

fn indexer() -> Indexer<Item> {
    Indexer::builder().parts(Parts::new(ByValue { parts: 2 })).build().unwrap()
}

fn names(indexer: &Indexer<Item>) -> Vec<String> {
    let mut names: Vec<_> =
        indexer.list().iter().map(|item| format!("{}{}@{}", item.name, item.value, item.version)).collect();
    names.sort();
    names
}

// contract: S-25
#[test]
fn list_removes_only_objects_of_its_part() {
    let indexer = indexer();
    indexer.replace(list(A, &[item("a", A, 1), item("b", A, 1)], 1)).unwrap().into_result().unwrap();
    indexer.replace(list(B, &[item("c", B, 1), item("d", B, 1)], 1)).unwrap().into_result().unwrap();
    assert_eq!(names(&indexer), ["a0@1", "b0@1", "c1@1", "d1@1"]);
    let applied = indexer.apply([Delta::ReplacedAll(Box::new(list(A, &[item("b", A, 1)], 2)))]);
    let changed: Vec<_> =
        applied.changes.iter().map(|change| change.delta.key().unwrap().to_string()).collect();
    assert_eq!(changed, ["a", "b"]);
    assert_eq!(names(&indexer), ["b0@1", "c1@1", "d1@1"]);
    // An incomplete list deletes nothing.
    indexer.replace(list(B, &[item("c", B, 1)], 2).unidentified(1)).unwrap().into_result().unwrap();
    assert_eq!(names(&indexer), ["b0@1", "c1@1", "d1@1"]);
    indexer.replace(list(B, &[], 3)).unwrap().into_result().unwrap();
    assert_eq!(names(&indexer), ["b0@1"]);
}

/// A deletion from one part does not remove a state from another part. The object moves between the parts, and the two
/// events come in either order.
// contract: S-26a
#[test]
fn stale_part_deletion_keeps_newer_object() {
    let deletion = || Delta::Deleted(Tombstone::FinalState(item("a", A, 2)));
    for deltas in [[deletion(), Delta::Added(item("a", B, 2))], [Delta::Added(item("a", B, 2)), deletion()]] {
        let indexer = indexer();
        indexer.add(item("a", A, 1)).unwrap().into_result().unwrap();
        indexer.apply(deltas).errors.into_result().unwrap();
        assert_eq!(names(&indexer), ["a1@2"]);
        // A missed deletion does not remove it either.
        let last_known = Some(item("a", A, 1));
        let key = KeyRef::named("a").try_into().unwrap();
        indexer
            .apply([Delta::Deleted(Tombstone::final_state_unknown(key, last_known))])
            .errors
            .into_result()
            .unwrap();
        assert_eq!(names(&indexer), ["a1@2"]);
        indexer.delete(item("a", B, 3)).unwrap().into_result().unwrap();
        assert!(indexer.is_empty());
    }
}

/// The source of the part that contained the object lags behind the source of the part that contains it now. An older
/// state from the first, in an event or a list, does not replace the newer one.
// contract: S-26c, S-26d
#[test]
fn stale_part_state_does_not_replace_newer() {
    for late in 0..3 {
        let indexer = Indexer::builder()
            .parts(Parts::new(ByValue { parts: 2 }))
            .index(
                "part",
                IndexFunction::new(|item: &Arc<Item>, values| values.push(&item.value.to_string())),
            )
            .build()
            .unwrap();
        indexer.add(item("a", B, 5)).unwrap().into_result().unwrap();
        let stale = item("a", A, 3);
        let applied = match late {
            0 => {
                indexer.apply([Delta::Updated(stale), Delta::Deleted(Tombstone::FinalState(item("a", A, 5)))])
            }
            1 => indexer.apply([
                Delta::ReplacedAll(Box::new(list(A, &[stale], 4))),
                Delta::Deleted(Tombstone::FinalState(item("a", A, 5))),
            ]),
            _ => indexer.apply([Delta::Replaced(stale)]),
        };
        applied.errors.into_result().unwrap();
        assert!(
            applied.changes.iter().all(|change| change.old.is_none() && change.new_state().is_none()),
            "{late}"
        );
        assert_eq!(names(&indexer), ["a1@5"], "{late}");
        assert_eq!(indexer.by_index("part", "1").unwrap().len(), 1);
        assert_eq!(indexer.by_index("part", "0").unwrap().len(), 0);
        // Within one part the order of the source counts, not the versions.
        indexer.update(item("a", B, 4)).unwrap().into_result().unwrap();
        assert_eq!(names(&indexer), ["a1@4"], "{late}");
        // A newer state of another part replaces it.
        indexer.replace(list(A, &[item("a", A, 6)], 6)).unwrap().into_result().unwrap();
        assert_eq!(names(&indexer), ["a0@6"], "{late}");
    }
}

// contract: S-27a, S-27b, S-27c
#[tokio::test(start_paused = true)]
async fn each_part_version_can_be_awaited() {
    let partition = ByNamespace::new(["kitchen", "office"]);
    let indexer = Indexer::<Item>::builder().parts(Parts::new(partition)).build().unwrap();
    let reader = indexer.reader();
    assert!(indexer.resource_versions().lowest().is_unset());
    let (seven, three) = (7.into(), 3.into());
    let kitchen = reader.wait_for(A, &seven);
    let office = reader.wait_for(KeyRef::new("office", "lamp"), &three);
    let (mut kitchen, mut office) = (std::pin::pin!(kitchen), std::pin::pin!(office));
    assert!(futures::poll!(kitchen.as_mut()).is_pending() && futures::poll!(office.as_mut()).is_pending());
    indexer.add(Arc::new(Item::of("kitchen/kettle", 7, 0))).unwrap().into_result().unwrap();
    assert!(futures::poll!(office.as_mut()).is_pending(), "only the other part has the version");
    kitchen.await.unwrap();
    assert!(indexer.resource_versions().lowest().is_unset());
    indexer.apply([Delta::Bookmark { part: B, resource_version: 3.into() }]).errors.into_result().unwrap();
    office.await.unwrap();
    let versions = indexer.snapshot().resource_versions().clone();
    assert_eq!((versions.of(A), versions.of(B)), (&7.into(), &3.into()));
    assert_eq!(versions.lowest(), ResourceVersion::number(3));
    reader.wait_for(KeyRef::new("kitchen", "sink"), &7.into()).await.unwrap();

    // Parts that do not exist cannot be awaited.
    for (place, name) in [
        (PartId::new(2).into(), "part 2"),
        (KeyRef::new("garden", "tree").into(), "the key garden/tree"),
        (KeyRef::named("tree").into(), "the key tree"),
    ] {
        let place: kinformer_core::PartOrKey<'_> = place;
        let error = reader.wait_for(place, &1.into()).await.unwrap_err();
        assert!(matches!(&error, Error::NoPart { place, parts: 2 } if place == name), "{error}");
        let soon = tokio::time::Instant::now() + Duration::from_secs(1);
        let error = reader.wait_for(place, &1.into()).until(soon).await.unwrap_err();
        assert!(matches!(error, Error::NoPart { .. }), "{error}");
    }
}

/// A key that does not determine its part has the part of the stored object.
// contract: S-27c
#[tokio::test]
async fn stored_object_determines_the_part_of_its_key() {
    let indexer = indexer();
    let reader = indexer.reader();
    indexer.replace(list(B, &[item("a", B, 1)], 3)).unwrap().into_result().unwrap();
    assert_eq!(reader.part_of(KeyRef::named("a")).unwrap(), B);
    reader.wait_for(KeyRef::named("a"), &3.into()).await.unwrap();
    indexer.replace(list(B, &[], 4)).unwrap().into_result().unwrap();
    let error = reader.wait_for(KeyRef::named("a"), &3.into()).await.unwrap_err();
    assert!(matches!(error, Error::NoPart { .. }), "{error}");
}

// contract: S-27a, S-27b
#[test]
fn incomparable_versions_have_no_lowest() {
    let indexer = indexer();
    let mark = |part, version: ResourceVersion| {
        indexer.apply([Delta::Bookmark { part, resource_version: version }]).errors.into_result().unwrap();
    };
    mark(A, 5.into());
    mark(B, "x".into());
    assert!(indexer.resource_versions().lowest().is_unset());
    assert_eq!(*indexer.resource_versions().of(B), "x".into());
    assert!(indexer.resource_versions().of(PartId::new(9)).is_unset());
}

/// An object that moves to another part is then in that part only.
// contract: O-24a
#[test]
fn moved_object_is_in_one_part() {
    let indexer = indexer();
    indexer.replace(list(A, &[item("a", A, 1)], 1)).unwrap().into_result().unwrap();
    indexer.update(item("a", B, 2)).unwrap().into_result().unwrap();
    indexer.replace(list(A, &[], 3)).unwrap().into_result().unwrap();
    assert_eq!(names(&indexer), ["a1@2"], "a list of its former part does not remove it");
    indexer.replace(list(B, &[], 4)).unwrap().into_result().unwrap();
    assert!(indexer.is_empty());
}

/// An object of a part that does not exist is left out and reported by position. No memory is allocated for the part.
// contract: O-24b, O-24e
#[test]
fn object_of_unknown_part_is_reported() {
    let indexer = indexer();
    let unknown_part = PartId::new(u32::MAX);
    let applied = indexer.apply([
        Delta::Added(item("a", A, 1)),
        Delta::Added(item("b", PartId::new(2), 1)),
        Delta::ReplacedAll(Box::new(list(
            B,
            &[item("c", B, 1), item("d", unknown_part, 1), item("e", B, 1)],
            1,
        ))),
        Delta::Bookmark { part: unknown_part, resource_version: 9.into() },
        Delta::ReplacedAll(Box::new(list(unknown_part, &[], 9))),
    ]);
    let objects: Vec<_> = applied.errors.errors().iter().map(|problem| problem.error.object()).collect();
    assert_eq!(objects, ["b", "d"].map(|name| Some(ObjectName::Key(name.parse().unwrap()))));
    for problem in applied.errors.errors() {
        assert!(problem.left_out && matches!(problem.error, ObjectError::OtherPart { .. }), "{problem:?}");
    }
    assert_eq!(names(&indexer), ["a0@1", "c1@1", "e1@1"]);
    assert_eq!(indexer.resource_versions().iter().count(), 2);
}

struct Panics;

impl Partition<Item> for Panics {
    fn parts(&self) -> u32 {
        2
    }

    fn part_of(&self, item: &Item) -> Option<PartId> {
        assert!(item.name != "bad", "expected panic");
        Some(A)
    }
}

/// Partitions are called like accessors: an object for which the partition panics is left out, and all others are
/// stored.
// contract: O-24c
#[test]
fn panicking_partition_affects_only_its_object() {
    let indexer = Indexer::builder().parts(Parts::new(Panics)).build().unwrap();
    let items = [item("good", A, 1), item("bad", A, 1), item("better", A, 1)];
    let errors = indexer.replace(list(A, &items, 1)).unwrap();
    let objects = |errors: &PartialErrors| -> Vec<_> {
        errors.errors().iter().map(|problem| problem.error.object().unwrap().to_string()).collect()
    };
    assert_eq!(objects(&errors), ["bad"]);
    assert_eq!(names(&indexer), ["better0@1", "good0@1"]);
    let applied = indexer.apply(items.map(Delta::Updated).to_vec());
    assert_eq!(objects(&applied.errors), ["bad"]);
    assert_eq!(applied.changes.len(), 2);
}

/// A deletion that names its part removes only a state of that part, also if the deletion has only a key.
// contract: S-26b
#[test]
fn deletion_with_part_spares_other_parts() {
    let key = || KeyRef::named("a").try_into().unwrap();
    let deletion = |last_known, part| {
        let tombstone = Tombstone::final_state_unknown(key(), last_known).from_part(part);
        [Delta::Deleted(tombstone)]
    };
    let indexer = indexer();
    indexer.add(item("a", B, 2)).unwrap().into_result().unwrap();
    for part in [A, PartId::new(2)] {
        for last_known in [None, Some(item("a", B, 1))] {
            indexer.apply(deletion(last_known, Some(part))).errors.into_result().unwrap();
            assert_eq!(names(&indexer), ["a1@2"]);
        }
    }
    indexer.apply(deletion(None, Some(B))).errors.into_result().unwrap();
    assert!(indexer.is_empty());
    // A list names its part in the deletions of missing objects.
    indexer.add(item("a", B, 3)).unwrap().into_result().unwrap();
    let applied = indexer.apply([Delta::ReplacedAll(Box::new(list(B, &[], 3)))]);
    let Delta::Deleted(Tombstone::FinalStateUnknown(missed)) = &applied.changes[0].delta else {
        panic!("{applied:?}")
    };
    assert_eq!(missed.part, Some(B));
    // A deletion without a part applies to all parts.
    indexer.add(item("a", B, 4)).unwrap().into_result().unwrap();
    indexer.apply(deletion(None, None)).errors.into_result().unwrap();
    assert!(indexer.is_empty());
}

// contract: S-16e
#[test]
fn transform_cannot_change_the_part() {
    let moved = Transform::new(|item: Arc<Item>| match (&*item.name, item.version) {
        ("a", 2) => Ok(Arc::new(Item { value: 1, ..Item::clone(&item) })),
        _ => Ok(item),
    });
    let parts = Parts::new(ByValue { parts: 2 });
    let indexer = Indexer::builder().parts(parts).transform(moved).build().unwrap();
    indexer.add(item("a", A, 1)).unwrap().into_result().unwrap();
    let refused = indexer.update(item("a", A, 2)).unwrap_err().to_string();
    assert!(refused.contains("a does not belong to part 0"), "{refused}");
    // Its stored state stays, and other objects are stored.
    let both = [item("a", A, 2), item("b", A, 2)];
    let single = both.clone().map(Delta::Updated);
    for deltas in [Deltas::from(single), Delta::ReplacedAll(Box::new(list(A, &both, 2))).into()] {
        let errors = indexer.apply(deltas).errors;
        assert_eq!(errors.errors().len(), 1, "{errors:?}");
        let problem = &errors.errors()[0];
        assert!(matches!(problem.error, ObjectError::OtherPart { part: Some(A), .. }), "{problem:?}");
        assert!(problem.left_out);
        assert_eq!(names(&indexer), ["a0@1", "b0@2"]);
    }
}

/// Objects of removed parts leave, what is still on its way for these is dropped, and waits for them end.
// contract: D-02a, D-08a
#[tokio::test]
async fn removed_parts_leave() {
    let by_namespace = |names: &[&str]| Parts::<Item>::new(ByNamespace::new(names.iter().copied()));
    let parts = by_namespace(&["a", "b"]).changeable();
    let index = IndexFunction::by_namespace();
    let indexer = Indexer::builder().parts(parts.clone()).index("namespace", index).build().unwrap();
    let item = |name: &str, version| Arc::new(Item::of(name, version, 0));
    indexer.add(item("a/1", 1)).unwrap().into_result().unwrap();
    indexer.add(item("b/1", 2)).unwrap().into_result().unwrap();
    let before = indexer.snapshot();
    let (reader, version) = (indexer.reader(), ResourceVersion::number(9));
    let of_part = reader.wait_for(B, &version);
    let of_key = reader.wait_for(KeyRef::new("b", "1"), &version);
    let change = async {
        tokio::task::yield_now().await;
        assert!(parts.set(by_namespace(&["a"]), vec![A]));
        indexer.apply_parts()
    };
    let (of_part, of_key, applied) = tokio::join!(of_part, of_key, change);
    assert!(matches!(of_part, Err(Error::PartRemoved { part: B })), "{of_part:?}");
    assert!(matches!(of_key, Err(Error::NoPart { .. })), "{of_key:?}");
    let [change] = &applied.changes[..] else { panic!("{applied:?}") };
    assert!(matches!(&change.delta, Delta::Left(item) if *item.name == *"1"), "{change:?}");
    assert_eq!((change.revision, indexer.len()), (before.revision() + 1, 1));
    assert!(indexer.by_index("namespace", "b").unwrap().is_empty());
    assert_eq!((before.len(), indexer.resource_versions().iter().count()), (2, 1));
    let late = [Delta::Added(item("b/2", 3)), Delta::ReplacedAll(Box::new(list(B, &[item("b/3", 4)], 4)))];
    let applied = indexer.apply(late);
    assert!(applied.changes.is_empty() && applied.errors.is_empty(), "{applied:?}");
    assert_eq!(indexer.len(), 1);
    // All objects are of one part now, and those that are stored stay.
    assert!(parts.set(Parts::one(), vec![2.into()]));
    assert!(indexer.apply_parts().changes.is_empty());
    indexer.add(item("b/2", 5)).unwrap().into_result().unwrap();
    assert_eq!(indexer.resource_versions().of(2.into()), &5.into());
    indexer.apply([Delta::Left(item("b/2", 5))]).errors.into_result().unwrap();
    assert_eq!(indexer.len(), 1);
}
