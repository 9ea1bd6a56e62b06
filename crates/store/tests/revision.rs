//! Which changes a snapshot has in it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;

use common::{key, pod};
use kinformer_core::{Replacement, Tombstone};
use kinformer_store::{Indexer, Reader, Transaction};

#[test]
fn a_change_is_in_every_snapshot_of_its_revision_and_in_none_before() {
    let indexer = Arc::new(Indexer::new());
    let reader = Reader::new(indexer.clone());
    assert_eq!(reader.snapshot().revision(), 0);

    let first = indexer.apply_all([Transaction::Add(pod("a/1").arc()), Transaction::Add(pod("a/2").arc())]);
    assert_eq!(reader.snapshot().revision(), first.revision);
    let before = reader.snapshot();

    let second = indexer
        .apply_all([Transaction::Delete(Tombstone::FinalStateUnknown { key: key("a/1"), last_known: None })]);
    assert!(before.revision() < second.revision && before.contains(("a", "1")));
    assert_eq!(reader.snapshot().revision(), second.revision);
    assert!(!reader.contains(("a", "1")));

    let third = indexer.replace_all(Replacement::new(vec![pod("a/3").arc()], "7")).unwrap();
    assert!(third.revision > second.revision);
    indexer.delete_by_key(("a", "3")).unwrap();
    assert!(reader.snapshot().revision() > third.revision);
}

#[test]
fn a_change_names_its_entry() {
    let indexer = Indexer::new();
    let applied = indexer.apply_all([
        Transaction::Add(pod("a/0").arc()),
        Transaction::Add(pod("a/").arc()),
        Transaction::Add(pod("a/2").arc()),
    ]);
    assert_eq!(applied.changes.iter().map(|change| change.position).collect::<Vec<_>>(), [Some(0), Some(2)]);
    assert_eq!(applied.report.problems()[0].position, 1);

    let replaced =
        indexer.replace_all(Replacement::new(vec![pod("a/9").arc(), pod("a/2").arc()], "7")).unwrap();
    assert_eq!(
        replaced.changes.iter().map(|change| change.position).collect::<Vec<_>>(),
        [None, Some(0), Some(1)]
    );
}
