//! Watches, and the recovery after their end, in which a list is the last resort.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use kinformer_core::ResourceVersion;
use kinformer_reflector::{
    ApiStatus, DecodeError, EventType, List, ListOptions, ListerWatcher, NextRequest, Recovery, Reflector,
    ReflectorOptions, ReflectorState, SourceError, WatchEvent, WatchOptions, WatchStream,
};
use kinformer_testing::fake_source::{Call, WatchScript};
use kinformer_testing::{Item, RecordingSink, ScriptedSource};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

fn options_of(call: &Call) -> kinformer_reflector::WatchOptions {
    match call {
        Call::Watch(options) => options.clone(),
        _ => panic!("not a watch"),
    }
}

/// Every event reaches the sink in order and moves the last version.
// contract: R-08a, R-08c
#[tokio::test(start_paused = true)]
async fn events_reach_the_sink_in_order() {
    let run = start(
        listed().watch(
            WatchScript::new()
                .added(Item::new("ns/b", 8))
                .modified(Item::new("a", 9))
                .deleted(Item::new("ns/b", 10))
                .bookmark(15)
                // No server should do this. The version stays.
                .modified(Item::new("a", 12))
                .hang(),
        ),
    );
    run.finished().await;
    assert_eq!(
        run.sink.texts()[1..],
        ["add ns/b@8", "update a@9", "delete ns/b@10", "bookmark @15", "update a@12"]
    );
    assert_eq!(run.handle.last_version(), 15.into());
    let metrics = run.handle.metrics();
    assert_eq!((metrics.events, metrics.bookmarks, metrics.watches), (5, 1, 1));
    run.stop().await;
}

/// Initial events do not move the last version until another event arrives.
// contract: R-08b
#[tokio::test(start_paused = true)]
async fn initial_events_do_not_move_the_version() {
    for version in [0_u64, 5] {
        let first = match version {
            0 => kinformer_reflector::List::new([], 0),
            _ => kinformer_reflector::List::new([], ResourceVersion::UNSET),
        };
        let bad = DecodeError::new("bad")
            .key("x".parse().unwrap())
            .resource_version(40)
            .event_type(EventType::Added);
        let run = start(
            script().list(first).watch(
                WatchScript::new()
                    .added(Item::new("z", 90))
                    .undecodable(bad)
                    .added(Item::new("a", 20))
                    // Before the object that was left out is requested again.
                    .after(Duration::from_millis(100))
                    .modified(Item::new("a", 91))
                    .added(Item::new("b", 92))
                    .hang(),
            ),
        );
        run.finished().await;
        assert_eq!(run.sink.keys(), ["a", "z"]);
        assert!(!run.handle.last_version().reaches(&1.into()), "{:?}", run.handle.last_version());
        run.sink.wait_for_record("update a@91").await;
        settle().await;
        assert_eq!(run.handle.last_version(), 92.into());
        run.stop().await;
    }
}

/// A watch requests bookmarks and a random timeout between the minimum and twice the minimum.
// contract: L-03a, L-03b, L-03c
#[tokio::test(start_paused = true)]
async fn watch_requests_bookmarks_and_a_random_timeout() {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    for (requested, least) in [(None, 5), (Some(minutes(1)), 5), (Some(minutes(30)), 30)] {
        let mut options = ReflectorOptions::new();
        if let Some(requested) = requested {
            options = options.min_watch_timeout(requested);
        }
        let mut source = listed();
        for version in 8..28 {
            source = source.watch(WatchScript::new().bookmark(version));
        }
        let run = start_with(source.watch(hang()), options);
        run.finished().await;
        let mut timeouts = Vec::new();
        for (n, (_, call)) in run.source.calls().iter().skip(1).enumerate() {
            let watch = options_of(call);
            assert_eq!(watch.resource_version, (7 + n as u64).into());
            assert!(watch.bookmarks && !watch.send_initial_events && watch.version_match.is_none());
            assert!(watch.timeout >= minutes(least) && watch.timeout <= minutes(2 * least));
            timeouts.push(watch.timeout);
        }
        timeouts.dedup();
        assert!(timeouts.len() > 1, "not random");
        run.stop().await;
    }
}

// contract: L-03c
#[tokio::test(start_paused = true)]
async fn unbounded_watch_timeout_may_be_shorter() {
    let options = ReflectorOptions::new().min_watch_timeout_unbounded(SECOND);
    let run = start_with(listed().watch(hang()), options);
    run.finished().await;
    assert!(options_of(&run.source.calls()[1].1).timeout <= 2 * SECOND);
    run.stop().await;
}

/// A watch that ends without an error is reopened within half a second, without a list.
// contract: R-01a, R-20a
#[tokio::test(start_paused = true)]
async fn ended_watch_is_reopened_without_a_list() {
    let run = start(
        listed()
            .watch(WatchScript::new().added(Item::new("b", 8)))
            .watch(WatchScript::new().after(2 * SECOND))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[1..], ["watch 7", "watch 8", "watch 8"]);
    let calls = run.source.calls();
    assert!(calls[2].0 - calls[1].0 < SECOND / 2);
    assert!(run.failures.lock().is_empty());
    assert_eq!(run.handle.metrics().watch_restarts, 2);
    run.stop().await;
}

/// A refused connection and 429 lead to another watch at the same version, without a limit.
// contract: R-03
#[tokio::test(start_paused = true)]
async fn refused_connection_and_429_are_always_retried() {
    let mut source = listed();
    for _ in 0..10 {
        source = source
            .watch_error(refused())
            .watch_error(status(429, "TooManyRequests"))
            .watch(WatchScript::new().error(status(429, "")));
    }
    let run = start(source.watch(WatchScript::new().bookmark(8).hang()));
    run.finished().await;
    assert_eq!(run.handle.metrics().lists, 1);
    assert!(run.source.texts()[1..].iter().all(|call| call == "watch 7"));
    assert_eq!(run.recoveries(), [Recovery::Rewatch; 30]);
    assert!(run.delays().iter().all(|delay| *delay >= SECOND * 4 / 5));
    run.stop().await;
}

/// A watch whose answer has an unknown content type is followed by a list after a delay.
// contract: L-16b, L-16c
#[tokio::test(start_paused = true)]
async fn unknown_content_type_delays_the_relist() {
    let page = SourceError::ContentType {
        resource: "items".into(),
        content_type: "text/html".into(),
        start: "<html>".into(),
    };
    let source = listed_then(page).list(list(8, &[])).watch(WatchScript::new().hang());
    let run = start_with(source, steady());
    run.finished().await;
    assert_eq!((run.recoveries(), run.delays()), (vec![Recovery::Relist], vec![SECOND]));
    let calls = run.source.calls();
    assert_eq!(calls[2].0 - calls[1].0, SECOND);
    assert!(calls[2].1.text().starts_with("list"), "{:?}", run.source.texts());
    run.stop().await;
}

fn listed_then(error: SourceError) -> ScriptedSource<Item> {
    script().list(list(7, &[])).watch_error(error)
}

// contract: R-03, R-20d, R-26g
#[tokio::test(start_paused = true)]
async fn retry_after_is_honored() {
    let requested: SourceError =
        ApiStatus::new(429, "TooManyRequests", "x").retry_after(Duration::from_secs(77)).into();
    let too_long: SourceError = ApiStatus::new(503, "", "x").retry_after(Duration::MAX).into();
    let run = start_with(listed().watch_error(requested).watch_error(too_long).watch(hang()), steady());
    run.finished().await;
    // At least this long, plus a random time, because all clients of the server received the same value.
    let (delays, calls) = (run.delays(), run.source.calls());
    for (delay, requested, jitter) in [(delays[0], 77, 30), (delays[1], 600, 30)] {
        assert!(
            delay >= Duration::from_secs(requested) && delay < Duration::from_secs(requested + jitter),
            "{delay:?}"
        );
    }
    assert_eq!((calls[2].0 - calls[1].0).as_secs(), delays[0].as_secs());
    run.stop().await;
}

/// Whatever the code is: the fifth answer in a row leads to a list.
// contract: R-26g
#[tokio::test(start_paused = true)]
async fn watch_with_retry_after_is_requested_again() {
    for (code, reason) in [(409, "Conflict"), (500, "InternalError"), (503, "ServiceUnavailable")] {
        let busy = || ApiStatus::new(code, reason, "x").retry_after(20 * SECOND).into();
        let source = (0..5).fold(listed(), |source, _| source.watch_error(busy()));
        let run = start_with(source.list(list(9, &[])).watch(hang()), steady());
        run.finished().await;
        use Recovery::{Relist, Rewatch};
        assert_eq!(run.recoveries(), [Rewatch, Rewatch, Rewatch, Rewatch, Relist], "{code}");
        assert!(run.handle.not_watchable().is_none(), "{code}");
        run.stop().await;
    }
}

/// Failures are over when a watch delivers something, not when it ends.
// contract: R-01h
#[tokio::test(start_paused = true)]
async fn failures_are_over_with_the_first_event() {
    let busy = || status(429, "TooManyRequests");
    let silent = listed().watch_error(busy()).watch_error(busy()).watch(hang());
    let delivering = listed().watch_error(busy()).watch_error(busy());
    let delivering = delivering.watch(WatchScript::new().bookmark(9).hang());
    for (source, expected) in [(silent, 2), (delivering, 0)] {
        let run = start_with(source, steady());
        run.finished().await;
        assert_eq!(run.handle.metrics().consecutive_failures, expected);
        run.stop().await;
    }
}

// contract: R-04
#[tokio::test(start_paused = true)]
async fn internal_errors_relist_after_their_window() {
    let internal = || status(500, "InternalError");
    let mut source = listed();
    // One error a second: at 0 to 3 seconds it is within the window, at 4 seconds it is not.
    for _ in 0..5 {
        source = source.watch(WatchScript::new().error(internal()));
    }
    let run = start_with(
        source.list(list(9, &[])).watch_error(internal()).watch(hang()),
        steady().internal_error_window(3 * SECOND + SECOND / 2),
    );
    run.finished().await;
    use Recovery::{Relist, Rewatch};
    assert_eq!(run.recoveries(), [Rewatch, Rewatch, Rewatch, Rewatch, Relist, Rewatch]);
    run.stop().await;

    let run = start_with(
        listed().watch_error(internal()).list(list(9, &[])).watch(hang()),
        steady().internal_error_window(Duration::ZERO),
    );
    run.finished().await;
    run.stop().await;
}

/// A 410 at the start of a watch or in its stream leads to a list after a delay.
// contract: R-05a
#[tokio::test(start_paused = true)]
async fn status_410_leads_to_a_list_after_a_delay() {
    let run = start(
        listed()
            .watch_error(expired())
            .list(list(8, &[]))
            .watch(WatchScript::new().bookmark(9).error(status(410, "Gone")))
            .list(list(10, &[]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[1..], ["watch 7", "list 7", "watch 8", "list 9", "watch 10"]);
    assert_eq!(run.recoveries(), [Recovery::Relist; 2]);
    assert!(run.delays().iter().all(|delay| *delay >= SECOND * 4 / 5));
    run.stop().await;
}

// contract: R-05b
#[tokio::test(start_paused = true)]
async fn version_expired_twice_is_not_listed_again() {
    let run = start(
        listed()
            .watch_error(expired())
            .list(list(7, &[("a", 1)]))
            .watch_error(expired())
            .list(list(9, &[("a", 1)]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["watch 7", "list - limit 500", "watch 9"]);
    run.stop().await;
}

/// A server that has the state of each version, as kube-apiserver for lists in pages, returns the requested one. Where its
/// watch cache begins later, no watch can continue from there.
// contract: R-05b
#[tokio::test(start_paused = true)]
async fn version_that_a_list_returns_on_request_expires_once() {
    let run = start(
        listed()
            .watch_error(status(404, "NotFound"))
            .list(list(7, &[("a", 1)]))
            .watch_error(expired())
            .list(list(9, &[("a", 1)]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[1..], ["watch 7", "list 7", "watch 7", "list - limit 500", "watch 9"]);
    run.stop().await;
}

// contract: R-05b, R-08d, R-17d
#[tokio::test(start_paused = true)]
async fn version_too_large_for_watch_lists_the_newest() {
    let error = || {
        let cause = kinformer_reflector::StatusCause::new("ResourceVersionTooLarge", "");
        ApiStatus::new(504, "Timeout", "Too large resource version").cause(cause).into()
    };
    let run = start(listed().watch_error(error()).list(list(3, &[("a", 2)])).watch(hang()));
    run.finished().await;
    assert_eq!(run.source.texts()[1..], ["watch 7", "list - limit 500", "watch 3"]);
    // The last version goes back with the list, as the server has.
    assert_eq!(run.handle.last_version(), 3.into());
    assert_eq!(run.handle.metrics().versions_went_back, 1);
    assert!(matches!(*run.handle.last_error().unwrap(), SourceError::VersionsWentBack { .. }));
    run.stop().await;
}

/// Each very short watch is reported and followed by a delay. The fifth in a row leads to a list.
// contract: R-06
#[tokio::test(start_paused = true)]
async fn fifth_very_short_watch_leads_to_a_list() {
    let mut source = listed();
    for n in 0..5 {
        // An event with nothing new changes nothing.
        let script = WatchScript::new();
        source = source.watch(if n % 2 == 0 { script } else { script.bookmark(7) });
    }
    let run = start(source.list(list(8, &[])).watch(hang()));
    run.finished().await;
    use Recovery::{Relist, Rewatch};
    assert_eq!(run.recoveries(), [Rewatch, Rewatch, Rewatch, Rewatch, Relist]);
    assert!(run.errors().iter().all(|error| error.starts_with("very short watch")));
    assert!(run.delays().iter().all(|delay| *delay >= SECOND * 4 / 5));
    assert_eq!(run.handle.metrics().very_short_watches, 5);
    run.stop().await;
}

// contract: R-07a, R-07b
#[tokio::test(start_paused = true)]
async fn unexpected_events_are_reported_and_skipped() {
    let run = start(
        listed()
            .watch(
                WatchScript::new()
                    .event(WatchEvent::unexpected("a v1/Secret", ResourceVersion::UNSET))
                    .added(Item::new("b", 8))
                    .event(WatchEvent::unexpected("an event of the type SURPRISE", 9)),
            )
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.sink.texts()[1..], ["add b@8", "bookmark @9"]);
    assert_eq!(run.source.texts()[2], "watch 9", "it is not delivered again");
    assert_eq!(run.recoveries(), [Recovery::Skip; 2]);
    assert!(run.errors()[1].ends_with("an event of the type SURPRISE"));
    assert_eq!(run.handle.metrics().unexpected_events, 2);
    run.stop().await;
}

/// Undecodable events are reported, counted and skipped, but deletions are applied.
// contract: L-08a, L-08b, L-08d
#[tokio::test(start_paused = true)]
async fn only_deletions_of_undecodable_events_apply() {
    let bad = |key: &str, event_type, version: u64| {
        let error = DecodeError::new("bad").event_type(event_type).resource_version(version);
        error.key(key.parse().unwrap())
    };
    let run = start(
        listed()
            .watch(
                WatchScript::new()
                    .undecodable(bad("b", EventType::Added, 8))
                    .undecodable(bad("a", EventType::Modified, 9))
                    .added(Item::new("c", 10))
                    .undecodable(bad("a", EventType::Deleted, 11)),
            )
            .watch(hang()),
    );
    run.finished().await;
    let expected_records = ["bookmark @8", "bookmark @9", "add c@10", "delete a", "bookmark @11"];
    assert_eq!(run.sink.texts()[1..], expected_records);
    assert_eq!(run.handle.metrics().decode_errors, 3);
    assert_eq!(run.recoveries(), [Recovery::Skip; 3]);
    // The watch continues after them.
    assert_eq!(run.source.texts()[2], "watch 11");
    run.stop().await;
}

/// A half-open watch is abandoned when it has gone on for longer than its requested duration.
// contract: L-09a
#[tokio::test(start_paused = true)]
async fn half_open_watch_is_abandoned() {
    let minute = Duration::from_secs(60);
    let options = || steady().min_watch_timeout_unbounded(minute).stall_margin(10 * SECOND);
    // In the stream (whose last event came after a minute), and before any answer.
    let stream = || listed().watch(WatchScript::new().after(minute).bookmark(8).hang());
    for (source, from) in [(stream(), 8), (listed().hang(), 7)] {
        let run = start_with(source.watch(hang()), options());
        run.finished().await;
        assert_eq!(run.source.texts()[2], format!("watch {from}"));
        assert!(run.errors()[0].contains("silent"), "{:?}", run.errors());
        let calls = run.source.calls();
        let requested = options_of(&calls[1].1).timeout;
        let lasted = calls[2].0 - calls[1].0 - SECOND;
        assert_eq!(lasted.as_secs(), (requested + 10 * SECOND).as_secs());
        assert_eq!(run.handle.metrics().stalled_watches, 1);
        assert_eq!(run.recoveries(), [Recovery::Rewatch]);
        run.stop().await;
    }
}

/// A source that sends bookmarks and never ends a watch.
// contract: L-09b
#[tokio::test(start_paused = true)]
async fn endless_watch_is_ended_and_opened_again() {
    let options = steady().min_watch_timeout_unbounded(60 * SECOND).stall_margin(10 * SECOND);
    let mut script = WatchScript::new();
    for version in 8..25 {
        script = script.after(9 * SECOND).bookmark(version);
    }
    let run = start_with(listed().watch(script.hang()).watch(hang()), options);
    run.finished().await;
    let calls = run.source.calls();
    assert!(matches!(calls[2].1, Call::Watch(_)), "{:?}", run.source.texts());
    let lasted = calls[2].0 - calls[1].0;
    let requested = options_of(&calls[1].1).timeout + 10 * SECOND;
    assert!((requested..requested + SECOND).contains(&lasted), "{lasted:?} {requested:?}");
    assert_eq!(run.handle.metrics().stalled_watches, 0);
    assert!(run.failures.lock().is_empty(), "{:?}", run.errors());
    run.stop().await;
}

/// No other watch would deliver what is deleted between the two: the versions of this source prove nothing.
// contract: L-09c
#[tokio::test(start_paused = true)]
async fn endless_watch_stays_open_if_another_would_lack_deletions() {
    let options = steady().min_watch_timeout_unbounded(60 * SECOND).stall_margin(10 * SECOND);
    let mut script = WatchScript::new().added(Item::new("b", 7));
    for _ in 0..6 {
        script = script.after(50 * SECOND).bookmark(7);
    }
    let run = start_with(
        listed().watch(script.deleted(Item::new("b", 7)).hang()).list(list(9, &[])).watch(hang()),
        options,
    );
    run.finished().await;
    assert!(run.sink.texts().iter().any(|text| text.starts_with("delete b")), "{:?}", run.sink.texts());
    let calls = run.source.calls();
    let requested = options_of(&calls[1].1).timeout + 10 * SECOND;
    let silent = calls[2].0 - calls[1].0 - 300 * SECOND;
    assert!((requested..requested + 2 * SECOND).contains(&silent), "{silent:?}");
    assert_eq!(run.recoveries(), [Recovery::Relist]);
    run.stop().await;
}

// contract: L-10, R-10a
#[tokio::test(start_paused = true)]
async fn status_in_the_stream_is_a_typed_error() {
    let run = start(
        listed().watch(WatchScript::new().error(status(403, "Forbidden")).added(Item::new("b", 9))).hang(),
    );
    run.finished().await;
    let error = run.handle.last_error().unwrap();
    let status = error.status().unwrap();
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(run.errors(), ["status 403 (Forbidden): sent by a test"]);
    assert_eq!(run.sink.texts().len(), 1, "nothing after an error is read");
    run.stop().await;
}

/// Any other error leads to another watch; the fifth in a row leads to a list.
// contract: R-10a
#[tokio::test(start_paused = true)]
async fn fifth_failed_watch_leads_to_a_list() {
    let run = start(
        listed()
            .watch_error(broken())
            .panic()
            .watch(WatchScript::new().panic())
            .watch(WatchScript::new().error(status(503, "ServiceUnavailable")))
            .watch_error(status(409, "Conflict"))
            .list(list(8, &[]))
            .watch_error(broken())
            // An event in between restarts the count.
            .watch(WatchScript::new().bookmark(9).error(broken()))
            .watch(hang()),
    );
    run.finished().await;
    use Recovery::{Relist, Rewatch};
    assert_eq!(run.recoveries(), [Rewatch, Rewatch, Rewatch, Rewatch, Relist, Rewatch, Rewatch]);
    assert!(run.errors()[1].contains("scripted panic") && run.errors()[2].contains("scripted panic"));
    run.stop().await;
}

/// A store read error leads to a list, which removes the corrupt object.
// contract: R-11
#[tokio::test(start_paused = true)]
async fn store_read_error_leads_to_a_list() {
    let run = start(
        listed()
            .watch(WatchScript::new().added(Item::new("corrupt", 8)).error(status(500, "StoreReadError")))
            .list(list(9, &[("a", 1)]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[2..], ["list 8", "watch 9"]);
    assert_eq!(run.sink.keys(), ["a"]);
    run.stop().await;
}

/// Delays grow with jitter up to a bound, and start over after a watch that was open for some time.
// contract: R-01b, R-01c
#[tokio::test(start_paused = true)]
async fn delays_grow_with_jitter_up_to_a_bound() {
    let mut source = listed();
    for _ in 0..9 {
        source = source.watch_error(refused());
    }
    source = source.watch(WatchScript::new().bookmark(8).after(31 * SECOND).error(refused())).watch(hang());
    let run = start(source);
    run.sink.wait_for_record("bookmark @8").await;
    assert!(matches!(run.handle.state(), ReflectorState::Watching { .. }));
    run.finished().await;
    let mut expected = 0.8;
    let delays = run.delays();
    for delay in &delays[..9] {
        let seconds = delay.as_secs_f64();
        assert!(seconds >= expected - 1e-6 && seconds <= 2.0 * expected + 1e-6, "{seconds} {expected}");
        expected = f64::min(expected * 1.5, 15.0);
    }
    assert!(delays[9] <= SECOND * 8 / 5, "{delays:?}");
    run.stop().await;
}

/// Two minutes after they began, the delays start over, whatever happened meanwhile.
// contract: R-01c
#[tokio::test(start_paused = true)]
async fn delays_start_over_in_a_long_outage() {
    let source = (0..20).fold(listed(), |source, _| source.watch_error(refused()));
    let run = start(source.watch(hang()));
    run.finished().await;
    let mut passed = Duration::ZERO;
    let delays = run.delays().into_iter();
    let is_before = |delay: &Duration| {
        let is_before = passed < Duration::from_secs(120);
        passed += *delay;
        is_before
    };
    let before: Vec<_> = delays.take_while(is_before).collect();
    assert!(before.last().is_some_and(|delay| *delay >= 15 * SECOND), "{before:?}");
    assert!(run.delays()[before.len()] <= SECOND * 8 / 5, "{:?}", run.delays());
    run.stop().await;
}

/// A source whose requests for a watch fail after a time.
struct SlowToFail(Mutex<Vec<(Duration, SourceError)>>);

#[async_trait::async_trait]
impl ListerWatcher<Item> for SlowToFail {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        Ok(list(7, &[]))
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        let Some((time, error)) = self.0.lock().pop() else { return std::future::pending().await };
        tokio::time::sleep(time).await;
        Err(error)
    }
}

/// The time in which a request for a watch gets no answer is a part of the delay after it.
// contract: R-01g
#[tokio::test(start_paused = true)]
async fn time_without_an_answer_is_a_part_of_the_delay() {
    let unavailable = status(503, "ServiceUnavailable");
    let failures = vec![(10 * SECOND, unavailable), (30 * SECOND, broken()), (10 * SECOND, broken())];
    let delays = Arc::new(Mutex::new(Vec::new()));
    let seen = delays.clone();
    let options = ReflectorOptions::new()
        .backoff(kinformer_reflector::Backoff::from_delays(|| std::iter::repeat(15 * SECOND)))
        .error_hook(move |failure| seen.lock().push(failure.delay));
    let source = SlowToFail(Mutex::new(failures));
    let reflector = Reflector::with_options("test", source, RecordingSink::new(), options);
    let task = tokio::spawn(reflector.run(CancellationToken::new()));
    tokio::time::sleep(120 * SECOND).await;
    task.abort();
    let delays = delays.lock().clone();
    assert_eq!((delays[0], delays[2]), (5 * SECOND, 15 * SECOND));
    assert!((SECOND * 4 / 5..=SECOND * 8 / 5).contains(&delays[1]), "{delays:?}");
}

// contract: R-01d
#[tokio::test(start_paused = true)]
async fn custom_backoff_repeats_its_last_delay() {
    let backoff = kinformer_reflector::Backoff::from_delays(|| [2 * SECOND, 3 * SECOND].into_iter());
    let mut source = listed();
    for _ in 0..4 {
        source = source.watch_error(refused());
    }
    let run = start_with(source.watch(hang()), ReflectorOptions::new().backoff(backoff));
    run.finished().await;
    assert_eq!(run.delays(), [2 * SECOND, 3 * SECOND, 3 * SECOND, 3 * SECOND]);
    run.stop().await;
}

// contract: R-01a, R-03
#[tokio::test(start_paused = true)]
async fn delay_between_attempts_is_a_visible_state() {
    let run = start_with(listed().watch_error(refused()).watch(hang()), steady());
    let state = run.handle.state_where(|s| matches!(s, ReflectorState::BackingOff { .. })).await;
    assert_eq!(state, ReflectorState::BackingOff { next: NextRequest::Watch, delay: SECOND, failures: 1 });
    run.finished().await;
    assert_eq!(run.handle.state(), ReflectorState::Watching { resource_version: 7.into() });
    run.stop().await;
}
