//! Revisions: which changes a snapshot includes.

use std::sync::Arc;

use crate::common::{key, pod};
use kinformer_core::{
    Change, Delta, DeltaType, Deltas, Object, Replacement, Tombstone, VersionUpdate, VersionUpdates,
};
use kinformer_store::{IndexFunction, Indexer};

/// A snapshot includes a change if it has the revision of the change or a later one. Only writes of objects are counted.
#[test]
fn snapshots_include_changes_by_revision() {
    let indexer = Arc::new(Indexer::new());
    let reader = indexer.reader();
    assert_eq!(reader.snapshot().revision(), 0);

    let first = indexer.apply([Delta::Added(pod("a/1").arc()), Delta::Added(pod("a/2").arc())]);
    assert_eq!(reader.snapshot().revision(), first.revision);
    let before = reader.snapshot();

    let second = indexer.apply([Delta::Deleted(Tombstone::final_state_unknown(key("a/1"), None))]);
    assert!(before.revision() < second.revision && before.contains(("a", "1")));
    assert_eq!(reader.snapshot().revision(), second.revision);
    assert!(!reader.contains(("a", "1")));

    let third = indexer.apply(Delta::ReplacedAll(Box::new(Replacement::new(vec![pod("a/3").arc()], "7"))));
    assert!(third.revision > second.revision);
    indexer.delete_by_key(("a", "3")).unwrap();
    let last = reader.snapshot().revision();
    assert!(last > third.revision);

    // These do not change objects.
    assert!(indexer.delete_by_key(("a", "3")).is_none());
    indexer.bookmark(9u64);
    let by_all = IndexFunction::new(|_, values| values.push("all"));
    indexer.add_indexers([("all", by_all)]).unwrap().into_result().unwrap();
    assert_eq!(reader.snapshot().revision(), last);
}

// contract: S-21a, S-21b
#[test]
fn change_carries_delta_and_revision() {
    let indexer = Indexer::new();
    let text = |change: &Change<crate::common::Pod>| {
        let old = change.old.as_ref().map(|old| old.resource_version().to_string());
        let key = change.key().map(|key| key.to_string());
        (change.delta.delta_type(), key.unwrap(), old.unwrap_or_default())
    };
    let change = |kind, key: &str, old: &str| (kind, key.to_owned(), old.to_owned());
    let applied = indexer.apply([
        Delta::Added(pod("a/0").version(1u64).arc()),
        Delta::Added(pod("a/").arc()),
        Delta::Updated(pod("a/0").version(2u64).arc()),
        Delta::SyncAll,
        Delta::Deleted(pod("a/0").version(3u64).arc().into()),
        Delta::Deleted(pod("a/0").version(4u64).arc().into()),
        Delta::Replaced(pod("a/2").version(5u64).arc()),
    ]);
    use DeltaType::{Added, Deleted, Replaced, Updated};
    assert_eq!(
        applied.changes.iter().map(text).collect::<Vec<_>>(),
        [
            change(Added, "a/0", ""),
            change(Updated, "a/0", "1"),
            change(Deleted, "a/0", "2"),
            change(Deleted, "a/0", ""),
            change(Replaced, "a/2", ""),
        ]
    );
    assert!(matches!(applied.errors.errors()[0].error, kinformer_core::Error::Key { index: 1, .. }));
    // The final state is the state of the delta, not the stored one.
    assert_eq!(applied.changes[2].delta.object().unwrap().resource_version(), "3".into());
    assert!(applied.changes.iter().all(|change| change.revision == applied.revision));
    assert_eq!(applied.revision, indexer.snapshot().revision(), "one publication");

    let list = Replacement::new(vec![pod("a/9").arc(), pod("a/8").arc()], "7");
    let replaced = indexer.apply([Delta::bookmark("6"), Delta::ReplacedAll(Box::new(list))]);
    assert_eq!(
        replaced.changes.iter().map(text).collect::<Vec<_>>(),
        [change(Deleted, "a/2", "5"), change(Replaced, "a/9", ""), change(Replaced, "a/8", "")]
    );
    let Delta::Deleted(tombstone) = &replaced.changes[0].delta else { panic!("not a deletion") };
    assert!(tombstone.is_final_state_unknown());
    assert!(Arc::ptr_eq(tombstone.object().unwrap(), replaced.changes[0].old.as_ref().unwrap()));
    assert!(replaced.changes.iter().all(|change| change.revision == replaced.revision));
}

// contract: S-22
#[test]
fn given_version_is_set_by_last_publication() {
    let indexer = Indexer::new();
    let list = |name: &str| Delta::ReplacedAll(Box::new(Replacement::new(vec![pod(name).arc()], 50u64)));
    let deltas = [Delta::Added(pod("a/1").version(30u64).arc()), list("a/2"), Delta::bookmark("60")];
    let given = VersionUpdate::Advance("20".into()).into();
    let applied = indexer.apply_at(deltas, &given);
    assert!(applied.errors.is_empty());
    assert_eq!(indexer.resource_versions().lowest(), "20".into());
    assert!(indexer.contains(("a", "2")) && !indexer.contains(("a", "1")));
    let _ = indexer.apply_at(list("a/3"), &VersionUpdates::NONE);
    assert_eq!((indexer.resource_versions().lowest(), indexer.contains(("a", "3"))), ("20".into(), true));
    let set = VersionUpdate::Set { version: "7".into(), is_complete: true };
    let _ = indexer.apply_at(Deltas::new(), &set.into());
    assert_eq!(indexer.resource_versions().lowest(), "7".into());
    let _ = indexer.apply([Delta::Added(pod("a/1").version(30u64).arc()), Delta::bookmark("31")]);
    assert_eq!(indexer.resource_versions().lowest(), "31".into());
}
