//! The retry watcher: the cases of client-go's tests (`tools/watch/retrywatcher_test.go`, `TestRetryWatcher`), and ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::*;
use async_trait::async_trait;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use kinformer_core::{KeyRef, Object, ObjectKey, ResourceVersion};
use kinformer_reflector::{
    ApiStatus, Backoff, DecodeError, EventType, List, ListOptions, ListerWatcher, RequestLimit, RetryWatcher,
    SourceError, WatchEvent, WatchOptions, WatchStream,
};
use kinformer_testing::fake_source::{Call, WatchScript};
use kinformer_testing::{FakeSource, Item, ScriptedSource};
use tokio::time::timeout;

/// What upstream's test source sends: an event at a version, or an error.
#[derive(Clone, Copy)]
enum Sent {
    Event(u64),
    Error(fn() -> SourceError),
}
use Sent::{Error, Event};

/// The source of upstream's tests. Each watch sends the events after its version; an error only after an event.
struct Upstream {
    /// The answer to the first request.
    first: Option<fn() -> SourceError>,
    sent: &'static [Sent],
    /// The number of events after which a watch is closed, if there are as many; it stays open otherwise.
    close_after: Option<usize>,
    watches: AtomicUsize,
}

#[async_trait]
impl ListerWatcher<Item> for Upstream {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        panic!("a retry watcher never lists")
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        assert!(options.bookmarks && !options.send_initial_events);
        if self.watches.fetch_add(1, Ordering::Relaxed) == 0
            && let Some(first) = self.first
        {
            return Err(first());
        }
        let from = options.resource_version.to_string().parse::<u64>().unwrap();
        let mut events = Vec::new();
        for sent in self.sent {
            match sent {
                Event(version) if *version > from => {
                    events.push(Ok(WatchEvent::Added(Item::new("a", *version))));
                }
                Error(error) if !events.is_empty() => events.push(Err(error())),
                _ => {}
            }
        }
        let closes = self.close_after.is_some_and(|number| events.len() >= number);
        events.truncate(self.close_after.unwrap_or(usize::MAX));
        let events = stream::iter(events);
        Ok(if closes { events.boxed() } else { events.chain(stream::pending()).boxed() })
    }
}

struct Case {
    name: &'static str,
    version: u64,
    first: Option<fn() -> SourceError>,
    sent: &'static [Sent],
    close_after: Option<usize>,
    watches: usize,
    /// The versions of the delivered events.
    events: &'static [u64],
    /// The code of the status that ends the stream.
    ends_with: Option<u16>,
}

/// A case without errors and closed watches.
const PLAIN: Case = Case {
    name: "",
    version: 1,
    first: None,
    sent: &[Event(2)],
    close_after: None,
    watches: 1,
    events: &[2],
    ends_with: None,
};

fn forbidden() -> SourceError {
    status(403, "Forbidden")
}

fn unauthorized() -> SourceError {
    status(401, "Unauthorized")
}

/// Each has the name of the upstream case. "recovers if watchClient returns nil watcher" has no counterpart: the type of
/// the source excludes it.
const UPSTREAM: &[Case] = &[
    Case {
        name: "recovers if watchClient returns error",
        first: Some(|| SourceError::other("test error")),
        watches: 2,
        ..PLAIN
    },
    // Ours: no later watch from this version can succeed, so upstream would retry forever.
    Case {
        name: "recovers from 410 Gone error on watch establishment",
        first: Some(expired),
        events: &[],
        ends_with: Some(410),
        ..PLAIN
    },
    Case { name: "works with empty initialRV", ..PLAIN },
    Case {
        name: "works with initialRV set, skipping the preceding items but reading those directly following",
        sent: &[Event(1), Event(2)],
        ..PLAIN
    },
    Case {
        name: "works with initialRV set, skipping the preceding items with none following",
        version: 3,
        events: &[],
        ..PLAIN
    },
    Case {
        name: "fails on Gone (RV too old error)",
        version: 5,
        sent: &[Event(5), Event(6), Error(expired), Event(7), Event(8)],
        events: &[6],
        ends_with: Some(410),
        ..PLAIN
    },
    Case {
        name: "fails on Forbidden",
        version: 5,
        first: Some(forbidden),
        events: &[],
        ends_with: Some(403),
        ..PLAIN
    },
    Case {
        name: "fails on Unauthorized",
        version: 5,
        first: Some(unauthorized),
        events: &[],
        ends_with: Some(401),
        ..PLAIN
    },
    Case {
        name: "recovers from timeout error",
        version: 5,
        sent: &[Event(6), Error(|| status(504, "Timeout")), Event(7)],
        watches: 2,
        events: &[6, 7],
        ..PLAIN
    },
    Case {
        name: "recovers from internal server error",
        version: 5,
        sent: &[Event(6), Error(|| status(500, "InternalError")), Event(7)],
        watches: 2,
        events: &[6, 7],
        ..PLAIN
    },
    Case {
        name: "recovers from unexpected error code",
        version: 5,
        sent: &[Event(6), Error(|| status(666, "")), Event(7)],
        watches: 2,
        events: &[6, 7],
        ..PLAIN
    },
    Case {
        name: "recovers from unexpected error type",
        version: 5,
        sent: &[Event(6), Error(|| SourceError::Decode { source: "no status".into() }), Event(7)],
        watches: 2,
        events: &[6, 7],
        ..PLAIN
    },
    Case {
        name: "survives 1 closed watch and reads 1 item",
        version: 5,
        sent: &[Event(6)],
        close_after: Some(1),
        watches: 2,
        events: &[6],
        ..PLAIN
    },
    Case {
        name: "survives 2 closed watches and reads 2 items",
        version: 4,
        sent: &[Event(5), Event(6)],
        close_after: Some(1),
        watches: 3,
        events: &[5, 6],
        ..PLAIN
    },
    Case {
        name: "survives 2 closed watches and reads 2 items for nonconsecutive RVs",
        version: 4,
        sent: &[Event(5), Event(7)],
        close_after: Some(1),
        watches: 3,
        events: &[5, 7],
        ..PLAIN
    },
    Case {
        name: "survives 2 closed watches and reads 2 items for nonconsecutive RVs starting at much lower RV",
        version: 2,
        sent: &[Event(5), Event(7)],
        close_after: Some(1),
        watches: 3,
        events: &[5, 7],
        ..PLAIN
    },
    Case {
        name: "survives 4 closed watches and reads 4 items for nonconsecutive, spread RVs",
        version: 2,
        sent: &[Event(5), Event(6), Event(7), Event(11)],
        close_after: Some(1),
        watches: 5,
        events: &[5, 6, 7, 11],
        ..PLAIN
    },
    Case {
        name: "survives 4 closed watches and reads 4 items for nonconsecutive, spread RVs and skips those with lower \
               or equal RV",
        version: 2,
        sent: &[Event(1), Event(2), Event(5), Event(6), Event(7), Event(11)],
        close_after: Some(1),
        watches: 5,
        events: &[5, 6, 7, 11],
        ..PLAIN
    },
    Case {
        name: "survives 2 closed watches and reads 2+2+1 items skipping those with equal RV",
        sent: &[Event(1), Event(2), Event(5), Event(6), Event(7), Event(11)],
        close_after: Some(2),
        watches: 3,
        events: &[2, 5, 6, 7, 11],
        ..PLAIN
    },
];

// contract: R-24a, R-24b, R-24d
#[tokio::test(start_paused = true)]
async fn upstream_cases() {
    for case in UPSTREAM {
        let Case { name, first, sent, close_after, .. } = *case;
        let source = Arc::new(Upstream { first, sent, close_after, watches: AtomicUsize::new(0) });
        let mut events = RetryWatcher::new(source.clone(), case.version).unwrap().events();
        for version in case.events {
            let event = events.try_next().await.unwrap().unwrap();
            assert!(matches!(event, WatchEvent::Added(item) if item.version == *version), "{name}");
        }
        if let Some(code) = case.ends_with {
            let error = events.next().await.unwrap().unwrap_err();
            assert_eq!(error.status().unwrap().code, code, "{name}");
            assert!(events.next().await.is_none(), "{name}");
        } else {
            // Longer than all delays, and shorter than a watch.
            assert!(timeout(100 * SECOND, events.next()).await.is_err(), "{name}");
        }
        assert_eq!(source.watches.load(Ordering::Relaxed), case.watches, "{name}");
    }
}

/// Upstream's `TestNewRetryWatcher`.
// contract: R-24c
#[test]
fn upstream_refused_versions() {
    for version in ["", "0"] {
        let error = RetryWatcher::new(script(), version).unwrap_err();
        assert!(matches!(error, SourceError::NoWatchVersion { version: found } if found == version.into()));
    }
}

/// Upstream's `TestRetryWatcherToFinishWithUnreadEvents`.
// contract: R-24a
#[tokio::test(start_paused = true)]
async fn dropping_the_stream_closes_the_watch() {
    let source = Arc::new(script().watch(WatchScript::new().added(Item::new("a", 2)).hang()));
    let mut events = RetryWatcher::new(source.clone(), 1).unwrap().events();
    assert_eq!(source.texts(), [""; 0], "nothing is requested before the first poll");
    assert!(events.try_next().await.unwrap().is_some());
    assert!(events.next().now_or_never().is_none());
    assert_eq!(source.open_watches(), 1);
    drop(events);
    assert_eq!(source.open_watches(), 0);
}

// contract: R-24e
#[tokio::test(start_paused = true)]
async fn bookmarks_move_the_version_and_are_delivered_on_request() {
    let source = || {
        let bookmark = WatchScript::new().bookmark(9).error(broken());
        Arc::new(script().watch(bookmark).watch(WatchScript::new().added(Item::new("a", 12)).hang()))
    };
    let hidden = source();
    let mut events = RetryWatcher::new(hidden.clone(), 7).unwrap().events();
    assert!(matches!(events.try_next().await.unwrap().unwrap(), WatchEvent::Added(_)));
    assert_eq!(hidden.texts(), ["watch 7", "watch 9"]);
    let mut events = RetryWatcher::new(source(), 7).unwrap().bookmarks().events();
    let event = events.try_next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Bookmark { version, .. } if version == 9.into()));
    assert!(matches!(events.try_next().await.unwrap().unwrap(), WatchEvent::Added(_)));
}

/// Reads to the end of the stream, which is an error. Returns it and the number of events before.
async fn end(source: &Arc<ScriptedSource<Item>>) -> (usize, SourceError) {
    let mut events = RetryWatcher::new(source.clone(), 7).unwrap().events();
    let mut number = 0;
    loop {
        match events.next().await.unwrap() {
            Ok(_) => number += 1,
            Err(error) => {
                assert!(events.next().await.is_none(), "the stream is fused");
                assert_eq!(source.violation(), None);
                assert_eq!(source.open_watches(), 0);
                return (number, error);
            }
        }
    }
}

/// After these errors, events may be missing in any later watch. Upstream retries after most of them.
// contract: R-24b
#[tokio::test(start_paused = true)]
async fn error_that_no_watch_repairs_ends_the_stream() {
    let too_large = || {
        let status = ApiStatus::new(504, "Timeout", "Too large resource version: 7, current: 3");
        SourceError::from(status)
    };
    let errors: [fn() -> SourceError; 6] = [
        expired,
        || status(404, "NotFound"),
        || status(500, "StoreReadError"),
        forbidden,
        unauthorized,
        too_large,
    ];
    for error in errors {
        let source = Arc::new(script().watch_error(error()));
        assert_eq!(end(&source).await.1.to_string(), error().to_string());
        let script = WatchScript::new().added(Item::new("a", 8)).error(error());
        let source = Arc::new(self::script().watch(script));
        let (events, found) = end(&source).await;
        assert_eq!((events, found.to_string()), (1, error().to_string()));
    }
}

// contract: R-24b
#[tokio::test(start_paused = true)]
async fn version_that_goes_back_ends_the_stream() {
    let source = Arc::new(script().watch(WatchScript::new().added(Item::new("a", 3))));
    let (events, error) = end(&source).await;
    assert_eq!(events, 0);
    assert!(matches!(error, SourceError::VersionsWentBack { .. }), "{error}");
}

/// Upstream's `resourceVersion == ""`: the next watch could skip events or repeat them.
// contract: R-24b
#[tokio::test(start_paused = true)]
async fn event_without_a_version_ends_the_stream() {
    let unversioned = || WatchEvent::Added(Item::new("a", 0));
    for event in [unversioned(), WatchEvent::bookmark("")] {
        let script = WatchScript::new().added(Item::new("a", 8)).event(event).added(Item::new("a", 9));
        let source = Arc::new(self::script().watch(script));
        let (events, error) = end(&source).await;
        assert_eq!(events, 1);
        assert!(matches!(error, SourceError::EventWithoutVersion { last } if last == 8.into()));
    }
}

/// An event that may concern any object is requested once more: it may have been damaged in transit.
// contract: R-24f
#[tokio::test(start_paused = true)]
async fn unidentified_event_is_requested_again_once() {
    let damaged = || WatchScript::new().undecodable(DecodeError::new("damaged"));
    let source = Arc::new(
        script()
            .watch(damaged())
            .watch(WatchScript::new().added(Item::new("a", 8)).undecodable(DecodeError::new("damaged")))
            .watch(damaged()),
    );
    let (events, error) = end(&source).await;
    assert_eq!(events, 1);
    assert!(matches!(error, SourceError::UnidentifiedEvent { .. }), "{error}");
    assert_eq!(source.texts(), ["watch 7", "watch 7", "watch 8"]);
}

/// An object with a key, and an event that does not belong in the watch, are delivered as they are.
// contract: R-24f
#[tokio::test(start_paused = true)]
async fn undecodable_object_with_a_key_is_delivered() {
    let key = ObjectKey::named("a").unwrap();
    let error = DecodeError::new("damaged").key(key).event_type(EventType::Modified).resource_version(8);
    let watch = WatchScript::new().undecodable(error).event(WatchEvent::unexpected("a status", ""));
    let source = Arc::new(script().watch(watch).watch_error(expired()));
    let (events, _) = end(&source).await;
    assert_eq!(events, 2);
    assert_eq!(source.texts(), ["watch 7", "watch 8"]);
}

/// An object whose version cannot be read.
#[derive(Debug)]
struct NoVersion;

impl Object for NoVersion {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named("a")
    }

    fn resource_version(&self) -> ResourceVersion {
        std::panic::resume_unwind(Box::new("no version"))
    }
}

// contract: R-24b
#[tokio::test(start_paused = true)]
async fn panic_of_the_accessor_ends_the_stream() {
    let source = ScriptedSource::new().watch(WatchScript::new().added(Arc::new(NoVersion)).hang());
    let mut events = RetryWatcher::new(source, 7).unwrap().events();
    let error = events.next().await.unwrap().unwrap_err();
    assert!(matches!(error, SourceError::Panic { operation: "resource_version", .. }), "{error}");
}

/// The delays are those of the reflector: the backoff, or the `Retry-After` if that is longer, and the limit on requests.
// contract: R-24g
#[tokio::test(start_paused = true)]
async fn delays_are_those_of_the_reflector() {
    let retry_after: SourceError =
        ApiStatus::new(429, "TooManyRequests", "later").retry_after(60 * SECOND).into();
    let source = Arc::new(
        script()
            .watch_error(broken())
            .watch_error(retry_after)
            .watch(WatchScript::new().panic())
            .watch(WatchScript::new())
            .watch(WatchScript::new().added(Item::new("a", 8)))
            .watch_error(expired()),
    );
    let steady = Backoff::from_delays(|| std::iter::repeat(SECOND));
    let watcher = RetryWatcher::new(source.clone(), 7).unwrap().backoff(steady);
    let events: Vec<_> = watcher.events().collect().await;
    assert_eq!((events.len(), source.texts().len()), (2, 6));
    let times: Vec<_> = source.calls().into_iter().map(|(time, _)| time).collect();
    let delays: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(delays[0] >= SECOND && delays[0] < 2 * SECOND);
    assert!(delays[1] >= 60 * SECOND && delays[1] <= 91 * SECOND, "{delays:?}");
    assert!(delays[2] >= SECOND && delays[2] < 2 * SECOND, "a panic of the source");
    assert!(delays[3] >= SECOND && delays[3] < 2 * SECOND, "a watch that ends at once and delivers nothing");
    assert!(delays[4] <= SECOND / 2, "a watch that delivered something: {delays:?}");
}

// contract: R-24g
#[tokio::test(start_paused = true)]
async fn requests_are_limited() {
    let quick = || Backoff::from_delays(|| std::iter::repeat(SECOND / 100));
    let source = (0..31).fold(script(), |source, _| source.watch_error(broken())).watch_error(expired());
    let source = Arc::new(source);
    let watcher = RetryWatcher::new(source.clone(), 7).unwrap().backoff(quick());
    assert!(watcher.events().next().await.unwrap().is_err());
    let calls = source.calls();
    assert!(calls[10].0 - calls[0].0 >= 10 * SECOND && calls[30].0 - calls[0].0 >= 60 * SECOND);

    let source = (0..31).fold(script(), |source, _| source.watch_error(broken())).watch_error(expired());
    let source = Arc::new(source);
    let watcher = RetryWatcher::new(source.clone(), 7).unwrap().backoff(quick());
    assert!(watcher.request_limit(RequestLimit::Off).events().next().await.unwrap().is_err());
    let calls = source.calls();
    assert!(calls[31].0 - calls[0].0 < SECOND);
}

/// A dead connection: the source neither sends nor closes.
// contract: R-24a
#[tokio::test(start_paused = true)]
async fn silent_watch_is_opened_again() {
    for silent in [script().watch(hang()), script().hang()] {
        let source = Arc::new(silent.watch(WatchScript::new().added(Item::new("a", 8)).hang()));
        let mut events = RetryWatcher::new(source.clone(), 7).unwrap().events();
        assert!(events.try_next().await.unwrap().is_some());
        assert_eq!(source.texts(), ["watch 7", "watch 7"]);
        assert_eq!(source.open_watches(), 1);
    }
}

/// A source that sends bookmarks and never ends a watch.
// contract: R-24a
#[tokio::test(start_paused = true)]
async fn endless_watch_is_ended_and_opened_again() {
    let mut endless = WatchScript::new();
    for version in 8..50 {
        endless = endless.after(25 * SECOND).bookmark(version);
    }
    let source =
        Arc::new(script().watch(endless.hang()).watch(WatchScript::new().added(Item::new("a", 60)).hang()));
    let mut events = RetryWatcher::new(source.clone(), 7).unwrap().bookmarks().events();
    let mut bookmarks = 0;
    while let WatchEvent::Bookmark { .. } = events.try_next().await.unwrap().unwrap() {
        bookmarks += 1;
        // The time without a poll does not count.
        tokio::time::advance(60 * SECOND).await;
    }
    let calls = source.calls();
    let Call::Watch(options) = &calls[0].1 else { panic!("{calls:?}") };
    let without_bookmark = options.timeout + 30 * SECOND - bookmarks * 25 * SECOND;
    assert!(calls.len() == 2 && without_bookmark < 26 * SECOND, "{bookmarks} {calls:?}");
}

/// Against a source with history: broken connections lose and repeat nothing, until the history is gone.
// contract: R-24a, R-24b
#[tokio::test(start_paused = true)]
async fn every_change_is_delivered_once() {
    let source = FakeSource::new();
    let first = source.apply(Item::of("a", 0, 0));
    let mut events = RetryWatcher::new(source.clone(), first).unwrap().events();
    for value in 1..=50 {
        source.apply(Item::of("a", 0, value));
        if value % 3 == 0 {
            source.disconnect();
        }
        if value % 7 == 0 {
            source.break_watches(broken);
        }
        if value % 2 == 0 {
            for value in [value - 1, value] {
                let event = events.try_next().await.unwrap().unwrap();
                assert!(matches!(event, WatchEvent::Modified(item) if item.value == value));
            }
        }
    }
    source.disconnect();
    assert!(events.next().now_or_never().is_none());
    source.apply(Item::of("a", 0, 51));
    source.compact();
    assert!(events.next().await.unwrap().unwrap_err().is_expired());
}
