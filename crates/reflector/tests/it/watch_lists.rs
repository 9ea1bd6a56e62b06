//! The initial list as a watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::*;
use futures::StreamExt;
use kinformer_core::{KeyRef, Object};
use kinformer_reflector::{
    DecodeError, EventType, List, ListOptions, ListerWatcher, Recovery, Reflector, ReflectorOptions,
    SourceError, VersionMatch, WatchEvent, WatchListMode, WatchListSupport, WatchOptions, WatchStream,
};
use kinformer_testing::fake_source::{Call, WatchScript};
use kinformer_testing::{Item, RecordingSink, ScriptedSource};

fn able() -> ScriptedSource<Item> {
    script().with_watch_list(WatchListSupport::new())
}

/// The events of a watch-list are gathered until the closing bookmark. The stream then continues as the watch.
// contract: L-04a, L-04d, L-04b
#[tokio::test(start_paused = true)]
async fn watch_list_is_applied_at_its_closing_bookmark() {
    let bad = DecodeError::new("bad").key("x".parse().unwrap()).event_type(EventType::Added);
    let deleted = DecodeError::new("bad").key("y".parse().unwrap()).event_type(EventType::Deleted);
    let gone = DecodeError::new("bad").key("z".parse().unwrap()).event_type(EventType::Added);
    let run = start(
        able().watch(
            WatchScript::new()
                .added(Item::new("a", 1))
                .added(Item::new("b", 2))
                .added(Item::new("c", 3))
                .added(Item::new("y", 3))
                .undecodable(bad)
                .undecodable(gone)
                .deleted(Item::new("z", 4))
                // A bookmark without the annotation ends nothing.
                .bookmark(4)
                .modified(Item::new("a", 5))
                .deleted(Item::new("b", 6))
                .undecodable(deleted)
                .added(Item::new("d", 7))
                .after(SECOND)
                .initial_events_end(8)
                .modified(Item::new("c", 9))
                .hang(),
        ),
    );
    run.source.finished().await;
    settle().await;
    assert!(run.sink.texts().is_empty(), "nothing before the list is complete");
    assert!(!run.handle.is_synced());
    assert!(run.handle.last_version().is_unset());
    run.sink.wait_for_record("update c@9").await;
    assert_eq!(run.sink.texts(), ["replace a@5 c@3 d@7 (x) @8", "update c@9"]);
    assert_eq!(run.source.texts(), ["watch-list -"]);
    assert_eq!(run.handle.last_version(), 9.into());
    let Call::Watch(options) = run.source.calls()[0].1.clone() else { panic!("a list") };
    assert_eq!(options.version_match, Some(VersionMatch::NotOlderThan));
    assert!(options.bookmarks && options.send_initial_events);
    let metrics = run.handle.metrics();
    assert_eq!((metrics.lists, metrics.watch_lists, metrics.watches), (0, 1, 0));
    run.stop().await;
}

/// After a 410, the watch-list is requested at the last version, and after another 410 at the newest.
// contract: L-04a, R-05a, R-05b
#[tokio::test(start_paused = true)]
async fn watch_list_after_410_is_at_the_last_version() {
    let run = start(
        able()
            .watch(WatchScript::new().initial_events_end(8).error(expired()))
            .watch_error(expired())
            .watch(WatchScript::new().added(Item::new("a", 11)).initial_events_end(12).hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts(), ["watch-list -", "watch-list 8", "watch-list -"]);
    assert_eq!(run.sink.texts(), ["replace @8", "replace a@11 @12"]);
    run.stop().await;
}

/// A refused watch-list falls back to a list, and the refusal is remembered for the server.
// contract: L-05a, L-05b
#[tokio::test(start_paused = true)]
async fn refused_watch_list_falls_back_to_a_list() {
    for error in [status(400, "BadRequest"), status(422, "Invalid"), status(422, "")] {
        let support = WatchListSupport::new();
        let first = script()
            .with_watch_list(support.clone())
            .watch_error(error)
            .list(list(7, &[("a", 1)]))
            .watch_error(expired())
            .list(list(8, &[]))
            .watch(hang());
        let run = start(first);
        run.finished().await;
        assert_eq!(run.source.texts(), ["watch-list -", "list 0 limit 500", "watch 7", "list 7", "watch 8"]);
        assert_eq!(run.recoveries()[0], Recovery::FallBackToList);
        run.stop().await;
        assert!(support.is_refused());

        // Another reflector of the same server requests no watch-list.
        let run = start(script().with_watch_list(support).list(list(9, &[])).watch(hang()));
        run.finished().await;
        run.stop().await;
    }
}

/// Any other answer falls back to a list at once as well, and may pass. The fifth one in a row counts as a refusal if the
/// lists succeed.
// contract: L-05a, L-05f
#[tokio::test(start_paused = true)]
async fn failed_watch_list_falls_back_to_a_list() {
    let page = || SourceError::ContentType {
        resource: "items".to_owned(),
        content_type: "text/html".to_owned(),
        start: "<html>".to_owned(),
    };
    let faults: [fn() -> SourceError; 6] = [
        || status(409, "Conflict"),
        || status(500, "InternalError"),
        || status(502, "Bad Gateway"),
        || status(503, "ServiceUnavailable"),
        page,
        || SourceError::other("damaged"),
    ];
    for fault in faults {
        let support = WatchListSupport::new();
        let failed = |source: ScriptedSource<Item>, version| {
            let watch = WatchScript::new().bookmark(version + 1).error(expired());
            source.watch_error(fault()).list(list(version, &[])).watch(watch)
        };
        let works = || WatchScript::new().initial_events_end(20).error(expired());
        let mut source = script().with_watch_list(support.clone()).watch_error(fault()).list_error(fault());
        for version in 11..15 {
            source = failed(source, version);
        }
        source = source.watch(works());
        for version in 21..26 {
            source = failed(source, version);
        }
        let run = start(source.list(list(30, &[])).watch(hang()));
        run.finished().await;
        assert_eq!(run.delays()[0], std::time::Duration::ZERO, "the list follows at once");
        let is_watch_list = |call: &&String| call.starts_with("watch-list");
        assert_eq!(run.source.texts().iter().filter(is_watch_list).count(), 1 + 4 + 1 + 5);
        assert!(support.is_refused());
        run.stop().await;
    }
}

/// A time without answers says nothing about watch-lists.
// contract: L-05f
#[tokio::test(start_paused = true)]
async fn watch_lists_without_an_answer_are_no_refusal() {
    let support = WatchListSupport::new();
    let silent = || SourceError::Timeout { after: 30 * SECOND };
    let source =
        (0..5).fold(script().with_watch_list(support.clone()), |source, _| source.watch_error(silent()));
    let run = start(source.list(list(7, &[])).watch(hang()));
    run.finished().await;
    assert!(!support.is_refused());
    run.stop().await;
}

/// A 404 says that the resource is not served yet, and nothing about watch-lists.
// contract: L-05a, R-25a
#[tokio::test(start_paused = true)]
async fn resource_that_is_not_served_yet_is_watch_listed_later() {
    let source = able()
        .watch_error(status(404, "NotFound"))
        .list(list(7, &[]))
        .watch_error(expired())
        .watch(WatchScript::new().initial_events_end(9).hang());
    let run = start(source);
    run.finished().await;
    assert_eq!(run.source.texts(), ["watch-list -", "list 0 limit 500", "watch 7", "watch-list 7"]);
    run.stop().await;
}

/// A refused connection and 429 lead to another watch-list after a delay, without a limit.
// contract: L-05c
#[tokio::test(start_paused = true)]
async fn refused_connection_and_429_always_retry() {
    let mut source = able();
    for _ in 0..6 {
        source = source.watch_error(refused()).watch_error(status(429, "TooManyRequests"));
    }
    let run = start(source.watch(WatchScript::new().initial_events_end(3).hang()));
    run.finished().await;
    assert_eq!(run.source.texts(), ["watch-list -"; 13]);
    assert!(run.delays().iter().all(|delay| *delay >= SECOND * 4 / 5));
    assert_eq!(run.sink.texts(), ["replace @3"]);
    run.stop().await;
}

/// A watch-list that ends early is retried from the beginning. After the fifth failure, a list replaces it.
// contract: L-04a, L-06
#[tokio::test(start_paused = true)]
async fn watch_list_that_ends_early_is_retried() {
    let early = || WatchScript::new().added(Item::new("half", 1));
    let support = WatchListSupport::new();
    let mut source = script().with_watch_list(support.clone());
    for _ in 0..5 {
        source = source.watch(early());
    }
    let run = start(source.list(list(7, &[("a", 1)])).watch(hang()));
    run.finished().await;
    assert_eq!(run.sink.texts(), ["replace a@1 @7"]);
    assert_eq!(run.recoveries()[3..], [Recovery::Relist, Recovery::FallBackToList]);
    assert!(support.is_refused());
    run.stop().await;
}

/// If the end bookmark does not arrive before a deadline, a list replaces the watch-list.
// contract: L-06
#[tokio::test(start_paused = true)]
async fn missing_end_bookmark_falls_back_to_a_list() {
    // One stream is silent, one sends events all the time.
    let mut busy = WatchScript::new();
    for n in 0..200 {
        busy = busy.after(SECOND).added(Item::new(&format!("i{n}"), n + 1));
    }
    let silent = WatchScript::new().added(Item::new("a", 1)).hang();
    for (script, seconds) in [(busy, 120), (silent, 30)] {
        let run = start(able().watch(script).list(list(7, &[("a", 1)])).watch(hang()));
        run.finished().await;
        assert!(run.errors()[0].contains("no bookmark that ends the list"), "{:?}", run.errors());
        let calls = run.source.calls();
        assert_eq!((calls[1].0 - calls[0].0).as_secs(), seconds);
        assert_eq!(run.sink.texts(), ["replace a@1 @7"]);
        run.stop().await;
    }
}

/// Without a fallback, a missing end bookmark is a typed error each time.
// contract: L-06
#[tokio::test(start_paused = true)]
async fn missing_end_bookmark_is_a_typed_error() {
    let silent = || WatchScript::new().added(Item::new("a", 1)).hang();
    let run = start_with(
        able().watch(silent()).watch(silent()).hang(),
        ReflectorOptions::new().watch_list(WatchListMode::Always),
    );
    run.finished().await;
    assert_eq!(run.recoveries(), [Recovery::Relist, Recovery::Relist]);
    assert!(matches!(*run.handle.last_error().unwrap(), SourceError::WatchListStalled { events: 1, .. }));
    assert_eq!(run.handle.metrics().consecutive_failures, 2);
    run.stop().await;
}

// contract: L-06
#[tokio::test(start_paused = true)]
async fn unanswered_watch_list_falls_back_to_a_list() {
    let run = start(able().hang().list(list(7, &[])).watch(hang()));
    run.finished().await;
    assert_eq!(run.source.texts(), ["watch-list -", "list 0 limit 500", "watch 7"]);
    assert!(run.errors()[0].contains("no bookmark"));
    run.stop().await;
}

// contract: L-05e
#[tokio::test(start_paused = true)]
async fn mode_off_requests_no_watch_list() {
    let options = ReflectorOptions::new().watch_list(WatchListMode::Off);
    let run = start_with(able().list(list(7, &[])).watch(hang()), options);
    run.finished().await;
    run.stop().await;
}

/// Counts the objects that are alive.
struct Counted(String, Arc<AtomicUsize>);

impl Counted {
    fn new(name: String, alive: &Arc<AtomicUsize>) -> Arc<Self> {
        alive.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self(name, alive.clone()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Object for Counted {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(&self.0)
    }
}

/// A watch-list with many events of three keys: only additions, or events of all types. Records how many objects were
/// alive at most.
struct Repeating {
    only_added: bool,
    most: Arc<AtomicUsize>,
    support: WatchListSupport,
}

const EVENTS: usize = 30_000;

#[async_trait::async_trait]
impl ListerWatcher<Counted> for Repeating {
    async fn list(&self, _: ListOptions<Counted>) -> Result<List<Counted>, SourceError> {
        Err(SourceError::other("there is only a watch-list"))
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<Counted>, SourceError> {
        let (alive, most, only_added) = (Arc::new(AtomicUsize::new(0)), self.most.clone(), self.only_added);
        let events = futures::stream::iter(0..EVENTS).map(move |n| {
            most.fetch_max(alive.load(Ordering::Relaxed), Ordering::Relaxed);
            let object = Counted::new((n % 3).to_string(), &alive);
            Ok(match n / 3 % 3 {
                _ if only_added => WatchEvent::Added(object),
                0 => WatchEvent::Added(object),
                1 => WatchEvent::Modified(object),
                _ if n + 6 < EVENTS => WatchEvent::Deleted(object),
                _ => WatchEvent::Added(object),
            })
        });
        let end = futures::stream::iter([Ok(WatchEvent::initial_events_end(9))]);
        Ok(events.chain(end).chain(futures::stream::pending()).boxed())
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        Some(&self.support)
    }
}

// contract: L-18
#[tokio::test(start_paused = true)]
async fn repeated_key_replaces_its_object() {
    for only_added in [true, false] {
        let most = Arc::new(AtomicUsize::new(0));
        let sink = Arc::new(RecordingSink::new());
        let source = Repeating { only_added, most: most.clone(), support: WatchListSupport::new() };
        let reflector = Reflector::new("test", source, sink.clone());
        let handle = reflector.handle();
        let task = tokio::spawn(reflector.run(Default::default()));
        handle.wait_for_sync().await.unwrap();
        assert_eq!(sink.keys(), ["0", "1", "2"]);
        assert!(most.load(Ordering::Relaxed) <= 4, "{most:?} objects of three keys were alive");
        task.abort();
    }
}

/// An unidentified event fails the watch-list. The second time, a list replaces the watch-list.
// contract: R-14g
#[tokio::test(start_paused = true)]
async fn unidentified_event_fails_the_watch_list() {
    let key = || "x".parse().unwrap();
    let events: [WatchEvent<Item>; 3] = [
        WatchEvent::Undecodable(DecodeError::new("no key").event_type(EventType::Added)),
        WatchEvent::Undecodable(DecodeError::new("no type").key(key())),
        WatchEvent::Added(Item::new("ns/", 3)),
    ];
    for event in events {
        let support = WatchListSupport::new();
        let unidentified = || {
            WatchScript::new()
                .added(Item::new("a", 1))
                .event(event.clone())
                .added(Item::new("b", 2))
                .initial_events_end(8)
        };
        let run = start_with(
            script()
                .with_watch_list(support.clone())
                .watch(unidentified())
                .watch(unidentified())
                .list(list(9, &[("a", 1), ("b", 2)]))
                .watch_error(expired())
                .watch(WatchScript::new().added(Item::new("c", 1)).initial_events_end(10).hang()),
            steady(),
        );
        run.finished().await;
        let texts = ["watch-list -", "watch-list -", "list 0 limit 500", "watch 9", "watch-list 9"];
        assert_eq!(run.source.texts(), texts, "{event:?}");
        assert_eq!(run.sink.texts(), ["replace a@1 b@2 @9", "replace c@1 @10"]);
        assert_eq!(run.recoveries()[..2], [Recovery::Relist, Recovery::FallBackToList]);
        assert!(!support.is_refused(), "the server can send watch-lists");
        run.stop().await;
    }
}

/// A watch-list without a version is requested once more.
// contract: R-16a, R-16b
#[tokio::test(start_paused = true)]
async fn watch_list_that_lost_its_version_is_rejected() {
    let without = || WatchEvent::Bookmark { version: "".into(), initial_events_end: true };
    let run = start_with(
        able()
            .watch(WatchScript::new().added(Item::new("a", 1)).initial_events_end(8).error(expired()))
            .watch(WatchScript::new().event(without()))
            .watch(WatchScript::new().added(Item::new("a", 1)).initial_events_end(9).error(expired()))
            .watch(WatchScript::new().event(without()))
            .watch(WatchScript::new().event(without()).hang()),
        steady(),
    );
    run.finished().await;
    assert_eq!(run.sink.texts(), ["replace a@1 @8", "replace a@1 @9", "replace @"]);
    assert_eq!(run.source.texts()[1..], ["watch-list 8", "watch-list -", "watch-list 9", "watch-list -"]);
    assert_eq!(run.errors()[1], "the list has no resource version; the last version was 8");
    run.stop().await;
}

// contract: L-05d
#[tokio::test(start_paused = true)]
async fn watch_list_needs_support_or_mode_always() {
    let run = start(script().list(list(7, &[])).watch(WatchScript::new().hang()));
    run.finished().await;
    assert_eq!(run.source.texts(), ["list 0 limit 500", "watch 7"]);
    run.stop().await;

    let initial = WatchScript::new().initial_events_end(7).hang();
    let options = ReflectorOptions::new().watch_list(WatchListMode::Always);
    let run = start_with(script().watch(initial), options);
    run.finished().await;
    assert_eq!(run.source.texts(), ["watch-list -"]);
    run.stop().await;
}
