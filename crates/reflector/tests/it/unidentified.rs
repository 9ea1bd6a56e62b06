//! Unidentified events and incomplete lists.

use std::sync::Arc;

use crate::common::*;
use kinformer_core::{Delta, Deltas, Error, KeyError, KeyProblem, KeyRef, Object, PartialErrors, Sink};
use kinformer_reflector::{
    ApiStatus, Backoff, DecodeError, EventType, List, Recovery, Reflector, ReflectorOptions, ReflectorState,
    SourceError, WatchEvent, WatchListSupport,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{Item, RecordingSink, ScriptedSource};

fn listed() -> ScriptedSource<Item> {
    script().list(list(7, &[("a", 1), ("b", 2), ("c", 3)]))
}

fn nameless(index: usize) -> DecodeError {
    DecodeError::new("no such field").index(index)
}

/// Every kind of event that may concern any object.
fn unidentified_events() -> [Result<WatchEvent<Item>, SourceError>; 5] {
    let added = |error: DecodeError| Ok(WatchEvent::Undecodable(error.event_type(EventType::Added)));
    [
        added(DecodeError::new("no key").resource_version(8)),
        Ok(WatchEvent::Undecodable(
            DecodeError::new("no type").key("a".parse().unwrap()).resource_version(8),
        )),
        Ok(WatchEvent::Modified(Item::new("ns/", 8))),
        Ok(WatchEvent::Deleted(Item::new("", 8))),
        Err(SourceError::UnidentifiedEvent { source: "no event at all".into() }),
    ]
}

fn after(script: WatchScript<Item>, item: Result<WatchEvent<Item>, SourceError>) -> WatchScript<Item> {
    match item {
        Ok(event) => script.event(event),
        Err(error) => script.error(error),
    }
}

/// An unidentified event ends the watch, and the next watch starts before the event.
// contract: R-14a, R-14c, R-14d, R-14e
#[tokio::test(start_paused = true)]
async fn watch_restarts_before_an_unidentified_event() {
    for event in unidentified_events() {
        let what = format!("{event:?}");
        let watch = after(WatchScript::new().bookmark(8), event).added(Item::new("d", 10));
        let run = start_with(
            listed().watch(watch).watch(WatchScript::new().modified(Item::new("a", 9)).hang()),
            steady(),
        );
        run.finished().await;
        assert_eq!(run.source.texts()[1..], ["watch 7", "watch 8"], "{what}");
        assert_eq!(
            run.sink.texts()[1..],
            ["bookmark @8", "update a@9"],
            "{what}: nothing after it is applied"
        );
        assert_eq!(run.recoveries(), [Recovery::Rewatch]);
        assert!(run.errors()[0].starts_with("the watch delivered an unidentified event: "));
        assert_eq!(run.delays(), [SECOND]);
        run.stop().await;
    }
}

/// A second unidentified event after the same version leads to a list.
// contract: R-14f
#[tokio::test(start_paused = true)]
async fn second_unidentified_event_leads_to_a_list() {
    for (first, second) in unidentified_events().into_iter().zip(unidentified_events()) {
        let run = start_with(
            listed()
                .watch(after(WatchScript::new(), first))
                // A failure in between is no progress.
                .watch_error(refused())
                .watch(after(WatchScript::new(), second))
                .list(list(9, &[("a", 8)]))
                .watch(hang()),
            steady(),
        );
        run.finished().await;
        assert_eq!(run.source.texts()[1..], ["watch 7", "watch 7", "watch 7", "list 7", "watch 9"]);
        assert_eq!(run.sink.keys(), ["a"]);
        use Recovery::{Relist, Rewatch};
        assert_eq!(run.recoveries(), [Rewatch, Rewatch, Relist]);
        run.stop().await;
    }
}

// contract: R-14f
#[tokio::test(start_paused = true)]
async fn progress_forgets_an_unidentified_event() {
    let unidentified = |version| {
        let [event, ..] = unidentified_events();
        after(WatchScript::new().bookmark(version), event)
    };
    let run = start_with(
        listed()
            .watch(unidentified(8))
            .watch(unidentified(9))
            .watch(unidentified(10))
            .watch(unidentified(10))
            .list(list(11, &[]))
            .watch(hang()),
        steady(),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[1..], ["watch 7", "watch 8", "watch 9", "watch 10", "list 10", "watch 11"]);
    run.stop().await;
}

/// Reports two errors of each added object: a failed index, then a missing key.
struct TwoErrors;

impl Sink<Item> for TwoErrors {
    fn apply(&self, deltas: Deltas<Item>) -> Result<PartialErrors, Error> {
        let mut errors = PartialErrors::default();
        for delta in deltas {
            if matches!(delta, Delta::Added(_)) {
                errors.push_applied(Error::other("an index failed"));
                errors.push(KeyError::new("", KeyProblem::EmptyName));
            }
        }
        Ok(errors)
    }
}

/// An object without a key breaks the watch, even if the sink reports another error of the object as well.
// contract: R-14a, R-14e
#[tokio::test(start_paused = true)]
async fn object_without_a_key_ends_the_watch() {
    let source = Arc::new(
        listed().watch(WatchScript::new().bookmark(8).added(Item::new("d", 9)).hang()).watch(hang()),
    );
    let (failed, mut failures) = tokio::sync::mpsc::channel(8);
    let options = steady().error_hook(move |failure| {
        let unidentified = matches!(failure.error, SourceError::UnidentifiedEvent { .. });
        failed.try_send((unidentified, failure.recovery)).unwrap();
    });
    let reflector = Reflector::with_options("test", source.clone(), TwoErrors, options);
    let task = tokio::spawn(reflector.run(Default::default()));
    source.finished().await;
    settle().await;
    assert_eq!(source.texts()[1..], ["watch 7", "watch 8"]);
    assert_eq!(failures.try_recv().unwrap(), (true, Recovery::Rewatch));
    assert!(failures.try_recv().is_err());
    task.abort();
}

/// Both kinds of lists with an unidentified object.
fn incomplete(version: u64) -> [List<Item>; 2] {
    [
        list(version, &[("a", 1), ("d", 4)]).undecodable([nameless(1)]),
        List::new([Item::new("a", 1), Item::new("ns/", 2), Item::new("d", 4)], version),
    ]
}

/// An incomplete list is applied. Missing objects are deleted once a list is complete.
// contract: R-15a, R-15b, R-15c, R-15d, R-15e, R-15f, R-15g
#[tokio::test(start_paused = true)]
async fn incomplete_list_deletes_nothing() {
    for kind in [0, 1] {
        let of = |version| incomplete(version).into_iter().nth(kind).unwrap();
        let run = start_with(
            listed()
                .watch_error(expired())
                .list(of(9))
                // Deletions that the watch reports are applied.
                .watch(WatchScript::new().deleted(Item::new("b", 10)).hang())
                // Incomplete again, and not applied: the watch continues from its version.
                .list(of(20))
                .watch(WatchScript::new().modified(Item::new("a", 11)).hang())
                .list(list(30, &[("a", 11), ("d", 4)]))
                .watch(hang()),
            steady(),
        );
        run.sink.wait_for_record("delete b@10").await;
        assert_eq!(run.sink.texts()[1], "replace a@1 d@4 (1 unidentified) @9");
        assert_eq!(run.sink.keys(), ["a", "c", "d"]);
        let error = run.handle.incomplete_list().unwrap();
        let SourceError::IncompleteList { unidentified: 1, first } = &*error else { panic!("{error}") };
        assert_eq!(first[0].index, Some(1));
        assert!(error.to_string().contains("item 1, with an unknown key, could not be decoded: "), "{error}");
        assert_eq!(run.handle.metrics().unidentified_objects, 1);
        assert!(run.handle.is_synced());

        run.sink.wait_for_record("update a@11").await;
        assert_eq!(run.sink.keys(), ["a", "c", "d"]);
        assert!(run.handle.incomplete_list().is_some());

        run.finished().await;
        assert_eq!(run.sink.keys(), ["a", "d"]);
        assert!(run.handle.incomplete_list().is_none());
        assert_eq!(run.handle.metrics().unidentified_objects, 0);
        let texts = ["list 7", "watch 9", "list 10", "watch 10", "list 11", "watch 30"];
        assert_eq!(run.source.texts()[2..], texts);
        assert_eq!(run.recoveries(), [Recovery::Relist; 3]);
        assert_eq!(run.delays()[1..], [SECOND; 2]);
        run.stop().await;
    }
}

// contract: R-15b, R-15h
#[tokio::test(start_paused = true)]
async fn incomplete_first_list_counts_as_the_first() {
    for kind in [0, 1] {
        let source = script().with_watch_list(WatchListSupport::new());
        let bad = || {
            let error = DecodeError::new("no key").event_type(EventType::Added);
            WatchScript::new().added(Item::new("a", 1)).undecodable(error)
        };
        let run = start_with(
            source
                .watch(bad())
                .watch(bad())
                .list(incomplete(9).into_iter().nth(kind).unwrap())
                .watch(hang())
                .list(list(10, &[("a", 1), ("b", 2), ("d", 4)]))
                .watch(hang()),
            steady(),
        );
        run.handle.wait_for_sync().await.unwrap();
        assert!(run.handle.incomplete_list().is_some());
        assert_eq!(run.sink.keys(), ["a", "d"]);
        run.finished().await;
        assert_eq!(run.sink.keys(), ["a", "b", "d"]);
        // No watch-list, because the unidentified items would break it.
        let texts = ["watch-list -", "watch-list -", "list 0 limit 500", "watch 9", "list 9", "watch 10"];
        assert_eq!(run.source.texts(), texts);
        run.stop().await;
    }
}

// contract: R-15a, R-15e
#[tokio::test(start_paused = true)]
async fn repeated_incomplete_lists_back_off() {
    let mut source = listed().watch_error(expired());
    for _ in 0..8 {
        source = source.list(list(9, &[]).undecodable([nameless(0)])).watch(hang());
    }
    let run = start_with(source, ReflectorOptions::new());
    run.finished().await;
    let times: Vec<_> =
        run.source.calls().iter().filter(|(_, call)| call.text() == "list 9").map(|(at, _)| *at).collect();
    let mut shortest = 0.8;
    for pair in times.windows(2) {
        let waited = (pair[1] - pair[0]).as_secs_f64();
        shortest = f64::min(shortest * 1.5, 15.0);
        assert!(waited >= shortest - 0.01 && waited <= 2.0 * shortest + 0.01, "{waited} {shortest}");
    }
    assert_eq!(times.len(), 7);
    assert_eq!(run.sink.keys(), ["a", "b", "c"]);
    run.stop().await;
}

// contract: R-15d, R-15e, R-15f
#[tokio::test(start_paused = true)]
async fn watch_resumes_after_a_failed_repeated_list() {
    let run = start_with(
        listed()
            .watch_error(expired())
            .list(list(9, &[]).undecodable([nameless(0)]))
            .watch(hang())
            .list_error(status(500, "InternalError"))
            .watch(WatchScript::new().deleted(Item::new("b", 10)).hang())
            .list(list(12, &[("a", 1)]))
            .watch(hang()),
        steady(),
    );
    run.sink.wait_for_record("delete b@10").await;
    assert_eq!(run.sink.keys(), ["a", "c"]);
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["watch 9", "list 9", "watch 9", "list 10", "watch 12"]);
    assert_eq!(run.sink.keys(), ["a"]);
    run.stop().await;
}

/// A refused repetition of a list delays the next one, and no watch.
// contract: R-20f
#[tokio::test(start_paused = true)]
async fn refused_repeated_list_delays_no_watch() {
    let too_many = ApiStatus::new(429, "TooManyRequests", "x").retry_after(77 * SECOND);
    let run = start_with(
        listed()
            .watch_error(expired())
            .list(list(9, &[]).undecodable([nameless(0)]))
            .watch(hang())
            .list_error(too_many.into())
            .watch(hang())
            .list(list(12, &[("a", 1)]))
            .watch(hang()),
        steady(),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["watch 9", "list 9", "watch 9", "list 9", "watch 12"]);
    let calls = run.source.calls();
    assert!(calls[5].0 - calls[4].0 < SECOND && calls[6].0 - calls[4].0 >= 77 * SECOND);
    run.stop().await;
}

/// A watch that expires meanwhile does not shorten the time that the source has asked for.
// contract: R-20f
#[tokio::test(start_paused = true)]
async fn expired_watch_keeps_the_retry_after_of_a_repeated_list() {
    let busy = ApiStatus::new(503, "ServiceUnavailable", "x").retry_after(77 * SECOND);
    let run = start_with(
        listed()
            .watch_error(expired())
            .list(list(9, &[]).undecodable([nameless(0)]))
            .watch(hang())
            .list_error(busy.into())
            .watch_error(expired())
            .list(list(12, &[("a", 1)]))
            .watch(hang()),
        steady(),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["watch 9", "list 9", "watch 9", "list 9", "watch 12"]);
    let calls = run.source.calls();
    assert!(calls[5].0 - calls[4].0 < SECOND && calls[6].0 - calls[4].0 >= 77 * SECOND);
    run.stop().await;
}

/// While a list is to be repeated, neither a failed nor an unanswered watch delays the next list.
// contract: R-15e
#[tokio::test(start_paused = true)]
async fn failed_watch_does_not_delay_a_repeated_list() {
    let incomplete_list = || listed().watch_error(expired()).list(list(9, &[]).undecodable([nameless(0)]));
    let slow = || {
        ReflectorOptions::new().backoff(Backoff::from_delays(|| [SECOND, 60 * SECOND, SECOND].into_iter()))
    };
    for source in [incomplete_list().hang(), incomplete_list().watch_error(expired())] {
        let run = start_with(source.list(list(12, &[("a", 1)])).watch(hang()), slow());
        run.finished().await;
        assert_eq!(run.source.texts()[3..], ["watch 9", "list 9", "watch 12"]);
        assert!(run.handle.incomplete_list().is_none());
        assert!(matches!(run.handle.state(), ReflectorState::Watching { .. }));
        run.stop().await;
    }
}

/// An object that may panic when its key is read.
struct MayPanic(Option<&'static str>);

impl Object for MayPanic {
    fn key(&self) -> KeyRef<'_> {
        match self.0 {
            Some(name) => KeyRef::named(name),
            None => panic!("no key today"),
        }
    }
}

// contract: R-15a, R-15b, R-15c, I-11d
#[tokio::test(start_paused = true)]
async fn object_whose_key_panics_is_unidentified() {
    let objects = |names: &[Option<&'static str>]| {
        names.iter().map(|name| Arc::new(MayPanic(*name))).collect::<Vec<_>>()
    };
    let source = ScriptedSource::new()
        .list(List::new(objects(&[Some("a"), Some("b")]), 7))
        .watch_error(expired())
        .list(List::new(objects(&[Some("a"), None, Some("c")]), 8))
        .hang();
    let (source, sink) = (Arc::new(source), Arc::new(RecordingSink::new()));
    let reflector = Reflector::with_options("test", source.clone(), sink.clone(), steady());
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(Default::default()));
    source.finished().await;
    settle().await;
    assert_eq!(sink.keys(), ["a", "b", "c"]);
    let error = handle.incomplete_list().unwrap().to_string();
    assert!(error.contains("item 1, ") && error.contains("no key today"), "{error}");
    task.abort();
}

/// A source without versions is listed again, and its incomplete list is applied.
// contract: R-15e, R-15g
#[tokio::test(start_paused = true)]
async fn incomplete_unversioned_list_is_applied() {
    let run = start_with(
        script()
            .list(unversioned(&[("a", 1)]))
            .watch_error(expired())
            .list(unversioned(&[("b", 1)]).undecodable([nameless(0)]))
            .watch(hang())
            .list(unversioned(&[("c", 1)]).undecodable([nameless(0)]))
            .watch(hang())
            .list(unversioned(&[("c", 1)]))
            .watch(hang()),
        steady(),
    );
    run.finished().await;
    let texts = [
        "replace a@1 @",
        "replace b@1 (1 unidentified) @",
        "replace c@1 (1 unidentified) @",
        "replace c@1 @",
    ];
    assert_eq!(run.sink.texts(), texts);
    assert_eq!(run.sink.keys(), ["c"]);
    run.stop().await;
}
