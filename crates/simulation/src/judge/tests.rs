//! Each check fails.

use serde_json::json;

use tokio::time::{Duration, Instant};

use super::*;

fn object(version: u64) -> Value {
    json!({"metadata": {"resourceVersion": version.to_string()}})
}

/// `a` is created, updated and deleted; `b` is created.
fn history() -> Vec<Change> {
    let change = |version, key: &str, exists| Change {
        version,
        key: key.into(),
        state: if exists { Some(object(version)) } else { None },
        last: None,
    };
    vec![change(1, "a", true), change(2, "a", true), change(3, "b", true), change(4, "a", false)]
}

/// Applies events, and returns the error of the last one.
fn error(events: impl IntoIterator<Item = (&'static str, Received)>) -> String {
    let mut view = HandlerView::default();
    let mut last = Ok(());
    for (key, event) in events {
        assert_eq!(last, Ok(()));
        last = view.apply(&history(), key, event);
    }
    last.err().unwrap_or_default()
}

/// Events that follow from the history are accepted, also if states are left out.
#[test]
fn explained_events() {
    let updated = Received::Updated(object(1), object(2));
    assert_eq!(error([("a", Received::Added(object(1))), ("a", updated), ("a", Received::Deleted)]), "");
    assert_eq!(error([("a", Received::Added(object(1))), ("a", Received::Deleted)]), "");
    assert_eq!(
        error([("b", Received::Added(object(3))), ("b", Received::Updated(object(3), object(3)))]),
        ""
    );
}

/// Each event that does not follow from the history is an error.
#[test]
fn unexplained_events() {
    let added = || ("a", Received::Added(object(2)));
    let last = |event| error([added(), ("a", event)]);
    assert!(last(Received::Added(object(2))).contains("which it has"));
    assert!(last(Received::Updated(object(1), object(2))).contains("but it has"));
    assert!(last(Received::Updated(object(2), object(1))).contains("back"));
    assert!(last(Received::Updated(object(2), object(9))).contains("never had the state"));
    assert!(error([("a", Received::Deleted)]).contains("does not have"));
    assert!(error([("a", Received::Updated(object(1), object(2)))]).contains("does not have"));
    assert!(error([("b", Received::Added(object(1)))]).contains("never had the state"));
    assert!(error([("b", Received::Added(object(3))), ("b", Received::Deleted)]).contains("has not deleted"));
}

/// A store is at a version of the server, and at no earlier one than before.
#[test]
fn states_of_the_store() {
    let history = history();
    let mut view = StoreView::default();
    let at = |version| [(String::new(), version)];
    assert_eq!(view.check(&history, &at(None), &Objects::new(), false), Ok(()));
    assert_eq!(view.check(&history, &at(Some(3)), &objects_at(&history, 3), false), Ok(()));
    assert!(
        view.check(&history, &at(Some(3)), &objects_at(&history, 4), false).unwrap_err().contains("[\"a\"]")
    );
    assert!(
        view.check(&history, &at(Some(2)), &objects_at(&history, 2), false).unwrap_err().contains("back")
    );
    assert!(view.check(&history, &at(None), &Objects::new(), false).is_err());
}

/// Checks the place of events, and returns the error of the last one. An event has a revision.
fn misplaced(rules: Rules, events: impl IntoIterator<Item = (Received, bool, u64)>) -> String {
    let mut view = HandlerView::new(rules);
    let mut last = Ok(());
    for (event, initial, revision) in events {
        assert_eq!(last, Ok(()));
        last = view.check_place("a", &event, initial, 3, revision);
    }
    last.err().unwrap_or_default()
}

fn added() -> Received {
    Received::Added(object(1))
}

/// An event before an earlier revision, or of the initial list at the wrong place, is an error.
#[tokio::test(start_paused = true)]
async fn places_of_events() {
    let in_order = Rules { in_order: true, is_before_start: true, ..Rules::default() };
    assert_eq!(misplaced(in_order, [(added(), true, 1), (added(), false, 2)]), "");
    assert!(misplaced(in_order, [(added(), false, 2), (added(), false, 1)]).contains("goes back"));
    assert_eq!(misplaced(Rules::default(), [(added(), false, 2), (added(), false, 1)]), "");
    let newer = || Received::Added(object(4));
    assert!(misplaced(in_order, [(newer(), true, 1)]).contains("newer than all lists"));
    assert_eq!(misplaced(in_order, [(newer(), false, 1)]), "");
    let late = Rules { is_late: true, ..in_order };
    assert!(misplaced(late, [(added(), false, 1), (added(), true, 1)]).contains("after a live event"));
    let mut view = HandlerView::new(in_order);
    view.synced();
    assert!(view.check_place("a", &added(), true, 3, 1).unwrap_err().contains("has synced"));
    assert_eq!(view.check_place("a", &added(), false, 3, 1), Ok(()));
    view.removed();
    assert!(view.check_place("a", &added(), false, 3, 1).unwrap_err().contains("after its removal"));
}

/// A resync without a period, or before it is due, is an error, and so is a missing one.
#[tokio::test(start_paused = true)]
async fn resyncs_at_the_wrong_time() {
    let resync = || Received::Updated(object(3), object(3));
    assert!(misplaced(Rules::default(), [(resync(), false, 1)]).contains("without a period"));
    let (began, period) = (Instant::now(), Duration::from_secs(10));
    let rules = Rules { resyncs: Some((period, began)), ..Rules::default() };
    assert!(misplaced(rules, [(resync(), false, 1)]).contains("1 times"));
    tokio::time::advance(period).await;
    assert_eq!(misplaced(rules, [(resync(), false, 1)]), "");
    assert!(misplaced(rules, [(resync(), false, 1), (resync(), false, 1)]).contains("2 times"));
    let mut view = HandlerView::new(rules);
    view.apply(&history(), "b", Received::Added(object(3))).unwrap();
    assert!(view.check_resynced(began).unwrap_err().contains("b was not resynced"));
    view.check_place("b", &resync(), false, 3, 1).unwrap();
    assert_eq!(view.check_resynced(began), Ok(()));
    assert!(view.check_resynced(Instant::now() + period).is_err());
}

/// A handler has received the stored objects when it has synced, except those that were deleted.
#[test]
fn objects_that_a_synced_handler_lacks() {
    let joined = objects_at(&history(), 3);
    let mut view = HandlerView::default();
    assert!(view.check_synced(&history(), &joined).unwrap_err().contains("has not received b"));
    view.apply(&history(), "b", Received::Added(object(3))).unwrap();
    assert_eq!(view.check_synced(&history(), &joined), Ok(()));
    let filtered = HandlerView::new(Rules { is_filtered: true, ..Rules::default() });
    assert_eq!(filtered.check_synced(&history(), &joined), Ok(()), "its filter drops them");
    assert!(filtered.kept(&joined).is_empty());
}

/// A handler with a filter receives no state that the filter drops.
#[test]
fn states_that_a_filter_drops() {
    let mut view = HandlerView::new(Rules { is_filtered: true, ..Rules::default() });
    let received = view.apply(&history(), "b", Received::Added(object(3)));
    assert!(received.unwrap_err().contains("which the filter drops"));
}

/// The final state of a deletion is a state of the object, or that of its deletion.
#[test]
fn final_states() {
    let with = |value: &str| json!({"metadata": {"uid": "u"}, "data": {"value": value}});
    let mut history = history();
    history[1].state = Some(with("1"));
    history[3].last = Some(with("2"));
    assert_eq!(check_final(&history, "a", &with("1")), Ok(()));
    assert_eq!(check_final(&history, "a", &with("2")), Ok(()));
    assert!(check_final(&history, "a", &with("3")).unwrap_err().contains("never had"));
    assert!(check_final(&history, "b", &with("1")).is_err());
}

/// A store that has reached a version has the state of that version or a newer one.
#[test]
fn reached_versions() {
    let mut history = history();
    let reached = |history: &[Change], key, version, stored| {
        let stored: Option<u64> = stored;
        check_reached(history, key, version, stored.map(object).as_ref()).is_ok()
    };
    assert!(reached(&history, "a", 2, Some(2)));
    assert!(reached(&history, "a", 1, Some(2)), "newer");
    assert!(reached(&history, "a", 2, None), "deleted later");
    assert!(reached(&history, "a", 4, None));
    assert!(!reached(&history, "a", 2, Some(1)));
    assert!(!reached(&history, "a", 4, Some(2)));
    assert!(!reached(&history, "b", 3, None));
    history[3].state = Some(undecodable(4));
    assert!(reached(&history, "a", 2, Some(1)), "the state at 4 does not decode");
    history[1].state = Some(undecodable(2));
    assert!(reached(&history, "a", 2, Some(1)), "an older state is kept");
    assert!(reached(&history, "a", 2, None));
    assert!(!reached(&history, "a", 2, Some(7)), "no state of the object");
}

fn undecodable(version: u64) -> Value {
    json!({"metadata": {"resourceVersion": version.to_string(), "labels": 7}})
}

/// A store has an older state of an object that does not decode, or none.
#[test]
fn objects_that_do_not_decode() {
    let mut history = history();
    history[1].state = Some(undecodable(2));
    let server = objects_at(&history, 2);
    let stored = |version| Objects::from([("a".to_owned(), object(version))]);
    assert!(as_stored(&history, server.clone(), &Objects::new()).is_empty());
    assert_eq!(as_stored(&history, server.clone(), &stored(1)), stored(1));
    assert_eq!(as_stored(&history, server.clone(), &stored(9)), server);
}
