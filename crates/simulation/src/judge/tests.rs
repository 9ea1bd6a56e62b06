//! Each check fails.

use serde_json::json;

use tokio::time::{Duration, Instant};

use super::*;
use crate::server::{History, Key};

const PLURAL: &str = "configmaps";

fn key(name: &str) -> Key {
    Key::new(PLURAL, "x", name)
}

fn record(history: &History) -> Record<'_> {
    Record::new(history, PLURAL)
}

/// A history with these contents of `x/a` from version 2 on.
fn contents<const N: usize>(contents: [Value; N]) -> History {
    let mut history = History::default();
    for content in contents {
        history.put(key("a"), content);
    }
    history
}

/// `x/a` is created at 2, updated at 3 and deleted at 6; `x/b` is created at 4.
fn history() -> History {
    let mut history = contents([json!({}), json!({})]);
    history.put(key("b"), json!({}));
    history.put(Key::new("secrets", "x", "a"), json!({}));
    history.delete(key("a"), None);
    history
}

/// The state that was written at a version, or one that never was.
fn object(version: u64) -> State {
    state(&history(), version)
}

fn state(history: &History, version: u64) -> State {
    let written = history.changes().iter().find(|change| change.version == version);
    written
        .and_then(|change| change.after.clone())
        .unwrap_or_else(|| State::new(json!({"metadata": {"resourceVersion": version.to_string()}})))
}

/// Applies events, and returns the error of the last one.
fn error(events: impl IntoIterator<Item = (&'static str, Received)>) -> String {
    let mut view = HandlerView::default();
    let mut last = Ok(());
    for (key, event) in events {
        assert_eq!(last, Ok(()));
        last = view.apply(record(&history()), key, event);
    }
    last.err().unwrap_or_default()
}

/// Events that follow from the history are accepted, also if states are left out.
#[test]
fn explained_events() {
    let updated = Received::Updated(object(2), object(3));
    assert_eq!(
        error([("x/a", Received::Added(object(2))), ("x/a", updated), ("x/a", Received::Deleted)]),
        ""
    );
    assert_eq!(error([("x/a", Received::Added(object(2))), ("x/a", Received::Deleted)]), "");
    assert_eq!(
        error([("x/b", Received::Added(object(4))), ("x/b", Received::Updated(object(4), object(4)))]),
        ""
    );
}

/// Each event that does not follow from the history is an error.
#[test]
fn unexplained_events() {
    let added = || ("x/a", Received::Added(object(3)));
    let last = |event| error([added(), ("x/a", event)]);
    assert!(last(Received::Added(object(3))).contains("which it has"));
    assert!(last(Received::Updated(object(2), object(3))).contains("but it has"));
    assert!(last(Received::Updated(object(3), object(2))).contains("back"));
    assert!(last(Received::Updated(object(3), object(9))).contains("never had the state"));
    assert!(error([("x/a", Received::Deleted)]).contains("does not have"));
    assert!(error([("x/a", Received::Updated(object(2), object(3)))]).contains("does not have"));
    assert!(error([("x/b", Received::Added(object(2)))]).contains("never had the state"));
    assert!(
        error([("x/b", Received::Added(object(4))), ("x/b", Received::Deleted)]).contains("has not deleted")
    );
}

/// A store is at a version of the server, and at no earlier one than before.
#[test]
fn states_of_the_store() {
    let history = history();
    let history = record(&history);
    let mut view = StoreView::default();
    let at = |version| [(String::new(), version)];
    assert_eq!(view.check(history, &at(None), &Objects::new(), false), Ok(()));
    assert_eq!(view.check(history, &at(Some(4)), &history.objects_at(0, 4), false), Ok(()));
    let wrong = history.objects_at(0, 6);
    assert!(view.check(history, &at(Some(4)), &wrong, false).unwrap_err().contains("[\"x/a\"]"));
    assert_eq!(view.check(history, &at(Some(4)), &wrong, true), Ok(()), "an incomplete list");
    let earlier = history.objects_at(0, 3);
    assert!(view.check(history, &at(Some(3)), &earlier, false).unwrap_err().contains("back"));
    assert!(view.check(history, &at(Some(3)), &earlier, true).unwrap_err().contains("back"));
    assert!(view.check(history, &at(None), &Objects::new(), false).is_err());
}

/// `x/a` and `x/b` are at 2 and 3; `x/a` is updated at 4, and a backup of version 3 is restored.
fn restored(restore: impl FnOnce(&mut History)) -> History {
    let mut history = History::default();
    for name in ["a", "b", "a"] {
        history.put(key(name), json!({}));
    }
    restore(&mut history);
    history
}

/// After a restored backup, and only then, objects go back, and stores to the restored state.
#[test]
fn states_of_restored_backups() {
    let history = restored(|_| ());
    let (created, updated) = (state(&history, 2), state(&history, 4));
    let back = |history: &History| {
        let (history, mut view) = (record(history), HandlerView::default());
        view.apply(history, "x/a", Received::Added(updated.clone())).unwrap();
        view.apply(history, "x/a", Received::Updated(updated.clone(), created.clone()))
    };
    let shown = |history: &History, version, is_incomplete| {
        let (history, mut view) = (record(history), StoreView::default());
        let before = history.objects_at(0, 4);
        view.check(history, &[(String::new(), Some(4))], &before, is_incomplete).unwrap();
        view.check(history, &[(String::new(), Some(version))], &history.objects_at(0, 3), is_incomplete)
    };
    let repeated = |history: &History| {
        let event = Received::Updated(created.clone(), created.clone());
        HandlerView::default().check_place(record(history), "x/a", &event, false, 9, 1)
    };
    assert!(check_reached(record(&history), "x/a", 4, Some(&created)).is_err());
    assert!(repeated(&history).unwrap_err().contains("without a period"));
    assert!(back(&history).unwrap_err().contains("back"));
    assert!(shown(&history, 3, false).is_err() && shown(&history, 9, false).is_err());
    assert!(shown(&history, 3, true).is_err());
    for (restore, origin) in [
        (History::restore as fn(&mut _, _), 3),
        (|history: &mut History, version| history.restore_ahead(version, 5), 9),
    ] {
        let history = restored(|history| restore(history, 3));
        assert_eq!(history.newest(), origin);
        assert_eq!(back(&history), Ok(()));
        assert_eq!((shown(&history, origin, false), shown(&history, origin, true)), (Ok(()), Ok(())));
        assert_eq!(repeated(&history), Ok(()));
        let reached = |version, state: &State| {
            let mut objects = record(&history).objects_at(0, 3);
            objects.insert("x/a".into(), state.clone());
            check_namespace_reached(
                record(&history),
                "x",
                4,
                &(vec![(String::new(), Some(version))], objects),
            )
        };
        assert_eq!(reached(4, &updated), Ok(()));
        assert_eq!(reached(3, &created), Ok(()), "a list of the backup has set the store back");
    }
}

/// Checks the place of events, and returns the error of the last one. An event has a revision.
fn misplaced(rules: Rules, events: impl IntoIterator<Item = (Received, bool, u64)>) -> String {
    let mut view = HandlerView::new(rules);
    let mut last = Ok(());
    for (event, initial, revision) in events {
        assert_eq!(last, Ok(()));
        last = view.check_place(record(&history()), "x/a", &event, initial, 4, revision);
    }
    last.err().unwrap_or_default()
}

fn added() -> Received {
    Received::Added(object(2))
}

/// An event before an earlier revision, or of the initial list at the wrong place, is an error.
#[tokio::test(start_paused = true)]
async fn places_of_events() {
    let in_order = Rules { in_order: true, has_initial_list: true, ..Rules::default() };
    assert_eq!(misplaced(in_order, [(added(), true, 1), (added(), false, 2)]), "");
    assert!(misplaced(in_order, [(added(), false, 2), (added(), false, 1)]).contains("goes back"));
    assert_eq!(misplaced(Rules::default(), [(added(), false, 2), (added(), false, 1)]), "");
    let newer = || Received::Added(object(9));
    assert!(misplaced(in_order, [(newer(), true, 1)]).contains("newer than all lists"));
    assert_eq!(misplaced(in_order, [(newer(), false, 1)]), "");
    let late = Rules { is_late: true, ..in_order };
    assert!(misplaced(late, [(added(), false, 1), (added(), true, 1)]).contains("after a live event"));
    let mut view = HandlerView::new(in_order);
    view.synced();
    let (history, added) = (history(), added());
    let place =
        |view: &mut HandlerView, initial| view.check_place(record(&history), "x/a", &added, initial, 4, 1);
    assert!(place(&mut view, true).unwrap_err().contains("has synced"));
    assert_eq!(place(&mut view, false), Ok(()));
    view.removed();
    assert!(place(&mut view, false).unwrap_err().contains("after its removal"));
}

/// A resync without a period, or before it is due, is an error, and so is a missing one.
#[tokio::test(start_paused = true)]
async fn resyncs_at_the_wrong_time() {
    let resync = || Received::Updated(object(4), object(4));
    assert!(misplaced(Rules::default(), [(resync(), false, 1)]).contains("without a period"));
    let (began, period) = (Instant::now(), Duration::from_secs(10));
    let rules = Rules { resyncs: Some((period, began)), ..Rules::default() };
    assert!(misplaced(rules, [(resync(), false, 1)]).contains("1 times"));
    tokio::time::advance(period).await;
    assert_eq!(misplaced(rules, [(resync(), false, 1)]), "");
    assert!(misplaced(rules, [(resync(), false, 1), (resync(), false, 1)]).contains("2 times"));
    let mut view = HandlerView::new(rules);
    view.apply(record(&history()), "x/b", Received::Added(object(4))).unwrap();
    assert!(view.check_resynced(began).unwrap_err().contains("x/b was not resynced"));
    view.check_place(record(&history()), "x/b", &resync(), false, 4, 1).unwrap();
    assert_eq!(view.check_resynced(began), Ok(()));
    assert!(view.check_resynced(Instant::now() + period).is_err());
}

/// A handler has received the stored objects when it has synced, except those that were deleted.
#[test]
fn objects_that_a_synced_handler_lacks() {
    let history = history();
    let joined = record(&history).objects_at(0, 4);
    let mut view = HandlerView::default();
    assert!(
        view.check_synced(record(&history), &joined, |_| false).unwrap_err().contains("has not received x/b")
    );
    view.apply(record(&history), "x/b", Received::Added(object(4))).unwrap();
    assert_eq!(view.check_synced(record(&history), &joined, |_| false), Ok(()));
    let filtered = HandlerView::new(Rules { is_filtered: true, ..Rules::default() });
    assert_eq!(filtered.check_synced(record(&history), &joined, |_| false), Ok(()), "its filter drops them");
    assert!(filtered.kept(&joined).is_empty());
}

/// A handler with a filter receives no state that the filter drops.
#[test]
fn states_that_a_filter_drops() {
    let mut view = HandlerView::new(Rules { is_filtered: true, ..Rules::default() });
    let received = view.apply(record(&history()), "x/b", Received::Added(object(4)));
    assert!(received.unwrap_err().contains("which the filter drops"));
}

/// The final state of a deletion is a state of the object, or that of its deletion.
#[test]
fn final_states() {
    let content = |value: &str| json!({"data": {"value": value}});
    let mut history = contents([content("1")]);
    history.put(key("b"), json!({}));
    history.delete(key("a"), Some(content("2")));
    let with = |value: &str| {
        let uid = state(&history, 2)["metadata"]["uid"].clone();
        json!({"metadata": {"uid": uid}, "data": {"value": value}})
    };
    assert_eq!(check_final(record(&history), "x/a", &with("1")), Ok(()));
    assert_eq!(check_final(record(&history), "x/a", &with("2")), Ok(()));
    assert!(check_final(record(&history), "x/a", &with("3")).unwrap_err().contains("never had"));
    assert!(check_final(record(&history), "x/b", &with("1")).is_err());
}

/// The content of an object that does not decode.
fn undecodable() -> Value {
    json!({"metadata": {"labels": 7}})
}

/// A store that has reached a version has the state of that version or a newer one.
#[test]
fn reached_versions() {
    let reached = |history: &History, key, version, stored: Option<u64>| {
        let stored = stored.map(|stored| state(history, stored));
        check_reached(record(history), key, version, stored.as_ref()).is_ok()
    };
    let deleted = history();
    assert!(reached(&deleted, "x/a", 3, Some(3)));
    assert!(reached(&deleted, "x/a", 2, Some(3)), "newer");
    assert!(reached(&deleted, "x/a", 3, None), "deleted later");
    assert!(reached(&deleted, "x/a", 6, None));
    assert!(!reached(&deleted, "x/a", 3, Some(2)));
    assert!(!reached(&deleted, "x/a", 6, Some(3)));
    assert!(!reached(&deleted, "x/b", 4, None));
    let kept = contents([json!({}), json!({}), undecodable()]);
    assert!(reached(&kept, "x/a", 3, Some(2)), "the state at 4 does not decode");
    let kept = contents([json!({}), undecodable()]);
    assert!(reached(&kept, "x/a", 3, Some(2)), "an older state is kept");
    assert!(reached(&kept, "x/a", 3, None));
    assert!(!reached(&kept, "x/a", 3, Some(7)), "no state of the object");
}

/// A store that has reached a version has the states of all objects of the namespace, and not only of one.
#[test]
fn reached_namespaces() {
    let mut history = History::default();
    for (namespace, name) in [("x", "a"), ("x", "b"), ("y", "a")] {
        history.put(Key::new(PLURAL, namespace, name), json!({}));
    }
    let stored = |keys: &[&str]| -> Objects {
        let objects = record(&history).newest().into_iter();
        objects.filter(|(key, _)| keys.contains(&&**key)).collect()
    };
    let reached = |version, keys: &[&str]| {
        let parts = vec![("x/".to_owned(), Some(version)), ("y/".to_owned(), Some(0))];
        check_namespace_reached(record(&history), "x", 3, &(parts, stored(keys)))
    };
    assert_eq!(reached(3, &["x/a", "x/b"]), Ok(()));
    assert!(reached(3, &["x/b", "y/a"]).unwrap_err().contains("x/a is None"));
    assert!(reached(2, &["x/b"]).is_err(), "without a restored backup the store cannot be set back");
}

/// A store has an older state of an object that does not decode, or none.
#[test]
fn objects_that_do_not_decode() {
    let history = contents([json!({}), undecodable(), json!({})]);
    let server = record(&history).objects_at(0, 3);
    let stored = |version| Objects::from([("x/a".to_owned(), state(&history, version))]);
    let kept = |stored: &Objects| as_stored(record(&history), server.clone(), stored);
    assert!(kept(&Objects::new()).is_empty());
    assert_eq!(kept(&stored(2)), stored(2));
    assert_eq!(kept(&stored(4)), server, "a newer state");
    assert_eq!(kept(&stored(9)), server);
}

/// A conversion changes content and no version, and comes after the content before it.
#[test]
fn conversions() {
    let mut history = history();
    history.convert(&json!({"data": {"value": "0"}}));
    let (before, after) = (object(4), history.object(&key("b")).cloned().unwrap());
    assert_eq!((version_of(&before), version_of(&after), history.newest()), (4, 4, 7));
    let update = |from: &State, to: &State| {
        let mut view = HandlerView::default();
        view.apply(record(&history), "x/b", Received::Added(from.clone())).unwrap();
        view.apply(record(&history), "x/b", Received::Updated(from.clone(), to.clone()))
    };
    assert_eq!(update(&before, &after), Ok(()));
    assert!(update(&after, &before).unwrap_err().contains("back"));
}
