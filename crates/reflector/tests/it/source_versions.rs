//! Versions of healthy sources that are not kube-apiserver: they prove less.

use crate::common::*;
use kinformer_reflector::{ApiStatus, SourceError};
use kinformer_testing::Item;
use kinformer_testing::fake_source::WatchScript;

fn unavailable() -> SourceError {
    ApiStatus::new(503, "ServiceUnavailable", "upgrade").into()
}

/// A source whose bookmarks count for themselves, below its lists.
// contract: R-17h, R-17n
#[tokio::test(start_paused = true)]
async fn bookmarks_are_ignored_as_a_sign_after_two_false_alarms() {
    let bookmark = || WatchScript::new().bookmark(3);
    let run = start(
        listed()
            .watch(bookmark().hang())
            .list(list(7, &[("a", 1)]))
            .watch(bookmark().hang())
            .list(list(8, &[("a", 1)]))
            .watch(bookmark().added(Item::new("b", 9)).bookmark(4).added(Item::new("c", 10)).hang()),
    );
    run.finished().await;
    settle().await;
    let texts = run.sink.texts();
    assert!(texts.ends_with(&["add c@10".to_owned()]), "{texts:?}");
    assert_eq!(run.handle.metrics().versions_went_back, 2);
    assert!(run.handle.ignores_versions());
    assert_eq!(run.handle.last_version(), 10.into());
    run.stop().await;
}

/// No watch continues from version 0, nor from the version of an event if lists have none: the watch after a failure would
/// lack the deletions in between.
// contract: R-17j, R-17l
#[tokio::test(start_paused = true)]
async fn failed_watch_without_a_version_of_a_list_leads_to_a_list() {
    let failed = |watch: WatchScript<Item>| watch.added(Item::new("b", 2)).error(unavailable());
    let zero = || list(0, &[("a", 1)]);
    let run = start(script().list(zero()).watch(failed(WatchScript::new())).list(zero()).watch(hang()));
    run.finished().await;
    assert_eq!(run.source.texts()[1..], ["watch 0", "list 0 limit 500", "watch 0"]);
    run.stop().await;

    let moved = || WatchScript::new().modified(Item::new("a", 2)).modified(Item::new("a", 3));
    for version in ["0", "-"] {
        let listed = || if version == "0" { zero() } else { unversioned(&[("a", 1)]) };
        let run = start(script().list(listed()).watch(failed(moved())).list(listed()).watch(hang()));
        run.finished().await;
        assert_eq!(run.source.texts()[1], format!("watch {version}"));
        assert_eq!(run.source.texts()[2], "list 3");
        assert_eq!(run.handle.metrics().versions_went_back, 0);
        run.stop().await;
    }
}

/// A list below the versions of its own objects has another counter than they: nothing has gone back.
// contract: R-17b, R-17k
#[tokio::test(start_paused = true)]
async fn list_below_its_objects_proves_nothing() {
    let updated = |version| WatchScript::new().modified(Item::new("a", version));
    let run = start(
        script()
            .list(list(5, &[("a", 60)]))
            .watch(updated(61).error(expired()))
            .list(list(6, &[("a", 61)]))
            .watch(updated(62).deleted(Item::new("a", 63)).error(expired()))
            .list(list(6, &[]))
            .watch(updated(70).added(Item::new("b", 1)).hang())
            .list(list(7, &[("a", 70), ("b", 1)]))
            .watch(updated(71).added(Item::new("c", 2)).hang())
            .list(list(8, &[("a", 71), ("b", 1), ("c", 2)]))
            .watch(updated(72).added(Item::new("d", 3)).hang()),
    );
    run.finished().await;
    settle().await;
    let texts = run.sink.texts();
    assert!(texts.ends_with(&["update a@72".to_owned(), "add d@3".to_owned()]), "{texts:?}");
    assert_eq!(run.source.texts()[2..6], ["list 61", "watch 6", "list 63", "watch 6"]);
    assert_eq!(run.handle.metrics().versions_went_back, 2);
    assert!(run.handle.ignores_versions());
    run.stop().await;
}

/// Another watch from the last version would deliver the events again whose versions are ignored.
// contract: R-17m
#[tokio::test(start_paused = true)]
async fn events_with_ignored_versions_are_not_delivered_again() {
    let event = |version| WatchScript::new().modified(Item::new("a", version));
    let run = start(
        listed()
            .watch(event(3).hang())
            .list(list(7, &[("a", 3)]))
            .watch(event(4).hang())
            .list(list(8, &[("a", 4)]))
            .watch(event(5).after(2 * SECOND))
            .list(list(9, &[("a", 5)]))
            .watch(WatchScript::new().after(2 * SECOND))
            .watch(event(6).bookmark(20).after(2 * SECOND))
            .watch(hang()),
    );
    run.finished().await;
    let requests = ["watch 8", "list 8", "watch 9", "watch 9", "watch 20"];
    assert_eq!(run.source.texts()[5..], requests);
    run.stop().await;
}
