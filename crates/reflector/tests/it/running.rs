//! Start, stop, resyncs, the sink, and waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use futures::{FutureExt, StreamExt, stream};
use kinformer_core::{Deltas, Error, ObjectKey, PartialErrors, ResourceVersion, Sink};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, Recovery, Reflector, ReflectorOptions, ReflectorState, SourceError,
    StopReason, WatchEvent, WatchListSupport, WatchOptions, WatchStream,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{Item, RecordingSink, ScriptedSource};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

// contract: R-02a
#[tokio::test(start_paused = true)]
async fn cancel_before_the_start_sends_no_request() {
    let (source, sink) = (Arc::new(listed()), Arc::new(RecordingSink::<Item>::new()));
    let cancel = CancellationToken::new();
    cancel.cancel();
    let reflector = Reflector::new("test", source.clone(), sink);
    let handle = reflector.handle();
    assert_eq!(reflector.run(cancel).await, StopReason::Cancelled);
    assert!(source.texts().is_empty());
    assert_eq!(handle.state(), ReflectorState::Stopped(StopReason::Cancelled));
}

// contract: R-01e, R-02b
#[tokio::test(start_paused = true)]
async fn cancel_ends_every_wait_and_closes_the_watch() {
    use kinformer_reflector::WatchListSupport;
    let listing = |s: &ReflectorState| matches!(s, ReflectorState::Listing { .. });
    let connecting = |s: &ReflectorState| matches!(s, ReflectorState::Connecting { .. });
    let watching = |s: &ReflectorState| matches!(s, ReflectorState::Watching { .. });
    let watch_listing = |s: &ReflectorState| matches!(s, ReflectorState::WatchListing { .. });
    let backing_off = |s: &ReflectorState| matches!(s, ReflectorState::BackingOff { .. });
    let able = || script().with_watch_list(WatchListSupport::new());
    type State = fn(&ReflectorState) -> bool;
    let waits: [(ScriptedSource<Item>, State); 7] = [
        (script().hang(), listing),
        (listed().hang(), connecting),
        (listed().watch(hang()), watching),
        (listed().watch(WatchScript::new().after(Duration::from_secs(9)).bookmark(9)), watching),
        (able().hang(), watch_listing),
        (able().watch(hang()), watch_listing),
        (script().list_error(refused()), backing_off),
    ];
    for (source, state) in waits {
        let run = start(source);
        run.finished().await;
        run.handle.state_where(state).await;
        let before = Instant::now();
        run.stop().await;
        assert_eq!(Instant::now(), before, "no time has passed");
    }
}

// contract: R-02b
#[tokio::test(start_paused = true)]
async fn dropped_run_closes_watch_and_notifies_handles() {
    let run = start(listed().watch(hang()));
    run.finished().await;
    assert_eq!(run.source.open_watches(), 1);
    run.task.abort();
    assert_eq!(run.handle.stopped().await, StopReason::Dropped);
    settle().await;
    assert_eq!(run.source.open_watches(), 0);

    let idle = Reflector::new("idle", Arc::new(listed()), RecordingSink::new());
    let handle = idle.handle();
    drop(idle);
    assert_eq!(timeout(SECOND, handle.stopped()).await, Ok(StopReason::Dropped));
}

// contract: R-01a
#[tokio::test(start_paused = true)]
async fn dropped_waits_lose_nothing() {
    let reflector = Reflector::new("test", Arc::new(listed().watch(hang())), RecordingSink::new());
    let handle = reflector.handle();
    assert!(handle.wait_for_sync().now_or_never().is_none());
    assert!(handle.stopped().now_or_never().is_none());
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reflector.run(cancel.clone()));
    handle.wait_for_sync().await.unwrap();
    handle.wait_for_sync().now_or_never().unwrap().unwrap();
    cancel.cancel();
    assert_eq!(running.await.unwrap(), StopReason::Cancelled);
    assert_eq!(handle.stopped().now_or_never(), Some(StopReason::Cancelled));
}

/// The sink keeps what it was given before the run is dropped, including the events of an open watch.
// contract: R-22a
#[tokio::test(start_paused = true)]
async fn dropped_run_keeps_deltas_of_the_sink() {
    let watch = WatchScript::new().added(Item::new("b", 8)).added(Item::new("c", 9)).hang();
    let run = start(listed().watch(watch));
    run.finished().await;
    run.task.abort();
    assert_eq!(run.handle.stopped().await, StopReason::Dropped);
    assert_eq!(run.sink.texts(), ["replace a@1 @7", "add b@8", "add c@9"]);
}

/// Without a complete list, a dropped run has given nothing to the sink: pages and initial events are lost.
// contract: R-22b
#[tokio::test(start_paused = true)]
async fn dropped_run_loses_unfinished_lists() {
    let pages = script().list(list(7, &[("a", 1)]).continue_token("more")).hang();
    let support = WatchListSupport::new();
    let events = WatchScript::new().added(Item::new("a", 1)).added(Item::new("b", 2)).hang();
    let initial_events = script().with_watch_list(support).watch(events);
    for source in [pages, initial_events] {
        let run = start(source);
        run.finished().await;
        run.task.abort();
        assert_eq!(run.handle.stopped().await, StopReason::Dropped);
        assert_eq!(run.sink.texts(), [""; 0]);
        assert_eq!(run.source.open_watches(), 0);
        assert!(run.handle.wait_for_sync().await.is_err());
    }
}

/// A complete list that waits for room in the sink is lost as well.
// contract: R-22e
#[tokio::test(start_paused = true)]
async fn dropped_run_loses_list_without_room() {
    let (source, sink) = (Arc::new(listed()), Arc::new(RecordingSink::new()));
    sink.set_room(0);
    let reflector = Reflector::new("test", source.clone(), sink.clone());
    let handle = reflector.handle();
    let running = tokio::spawn(reflector.run(CancellationToken::new()));
    source.finished().await;
    settle().await;
    assert!(!handle.is_synced());
    running.abort();
    assert_eq!(handle.stopped().await, StopReason::Dropped);
    sink.set_room(9);
    assert_eq!(sink.texts(), [""; 0]);
}

/// A call of `state_where` sees the current state and later ones, not those between two calls.
// contract: R-22c
#[tokio::test(start_paused = true)]
async fn states_between_two_waits_are_missed() {
    let run = start_with(listed().watch_error(refused()).watch(hang()), steady());
    let backing_off = |state: &ReflectorState| matches!(state, ReflectorState::BackingOff { .. });
    assert!(run.handle.state_where(backing_off).now_or_never().is_none());
    run.finished().await;
    run.handle.state_where(|state| matches!(state, ReflectorState::Watching { .. })).await;
    assert!(run.handle.state_where(backing_off).now_or_never().is_none(), "it has passed");
    assert_eq!(run.recoveries().len(), 1);
    run.stop().await;
}

/// The timer checks for due resyncs, then resyncs. The watch stays open.
// contract: R-09a, R-09b
#[tokio::test(start_paused = true)]
async fn due_resync_keeps_the_watch_open() {
    let checks = Arc::new(AtomicUsize::new(0));
    let counter = checks.clone();
    let options = steady().resync_period(10 * SECOND).mark_due_resyncs(move || {
        match counter.fetch_add(1, Ordering::Relaxed) {
            1 => false,
            2 => std::panic::resume_unwind(Box::new("too many checks")),
            _ => true,
        }
    });
    let script = WatchScript::new().after(45 * SECOND).added(Item::new("b", 8)).hang();
    let run = start_with(listed().watch(script), options);
    run.sink.wait_for_record("add b@8").await;
    assert_eq!(checks.load(Ordering::Relaxed), 4);
    assert_eq!(run.sink.texts(), ["replace a@1 @7", "resync", "resync", "add b@8"]);
    assert_eq!(run.recoveries(), [Recovery::Skip]);
    assert!(run.errors()[0].contains("too many checks"));
    assert_eq!(run.handle.metrics().resyncs, 2);
    run.stop().await;
}

// contract: R-09c
#[tokio::test(start_paused = true)]
async fn failed_resync_reopens_watch_without_a_list() {
    let run = start_with(listed().watch(hang()).watch(hang()), steady().resync_period(10 * SECOND));
    run.handle.wait_for_sync().await.unwrap();
    run.sink.fail_next(Error::Full { key: None, limit: 9 });
    run.finished().await;
    assert_eq!(run.source.texts()[1..], ["watch 7", "watch 7"]);
    assert_eq!(run.recoveries(), [Recovery::Rewatch]);
    assert!(run.errors()[0].contains("failed to resync"));
    run.stop().await;
}

/// Resyncs continue while no watch can be opened, and under a flood of events.
// contract: R-09b
#[tokio::test(start_paused = true)]
async fn resyncs_continue_without_watch_and_under_load() {
    let minute = Duration::from_secs(60);
    let backoff = kinformer_reflector::Backoff::from_delays(move || std::iter::repeat(minute));
    let options = ReflectorOptions::new().backoff(backoff).resync_period(25 * SECOND);
    let run = start_with(listed().watch_error(refused()).watch(hang()), options);
    run.finished().await;
    assert_eq!(run.sink.texts()[1..], ["resync", "resync"]);
    run.stop().await;

    let mut flood = WatchScript::new();
    for version in 0..400 {
        flood = flood.bookmark(version + 8);
    }
    flood = flood.after(26 * SECOND);
    for version in 400..800 {
        flood = flood.bookmark(version + 8);
    }
    let options = ReflectorOptions::new().resync_period(25 * SECOND);
    let run = start_with(listed().watch(flood.hang()), options);
    run.sink.wait_for_record("bookmark @807").await;
    let position = run.sink.texts().iter().position(|text| text == "resync").unwrap();
    assert_eq!(position, 401);
    run.stop().await;
}

// contract: Q-16b
#[tokio::test(start_paused = true)]
async fn full_sink_pauses_the_watch_without_loss() {
    let mut script = WatchScript::new();
    for version in 8..28 {
        script = script.modified(Item::new("a", version));
    }
    let options = steady().min_watch_timeout_unbounded(10 * SECOND).stall_margin(SECOND);
    let run = start_with(listed().watch(script.after(SECOND).bookmark(28)).watch(hang()), options);
    run.sink.set_room(4);
    run.handle.state_where(|s| *s == ReflectorState::WaitingForSink).await;
    settle().await;
    assert_eq!(run.sink.texts().len(), 4);
    assert_eq!(run.handle.metrics().events, 3);
    // The time in which the sink had no room is not the source's silence.
    tokio::time::advance(Duration::from_secs(1000)).await;
    settle().await;
    run.sink.set_room(usize::MAX);
    run.finished().await;
    assert_eq!(run.sink.texts().len(), 22);
    assert_eq!(run.handle.last_version(), 28.into());
    assert!(run.failures.lock().is_empty());
    run.stop().await;
}

// contract: Q-16b
#[tokio::test(start_paused = true)]
async fn event_rejected_by_a_full_sink_is_repeated() {
    let run = start_with(
        listed()
            .watch(WatchScript::new().added(Item::new("b", 8)).after(SECOND).added(Item::new("c", 9)).hang())
            .watch(WatchScript::new().added(Item::new("c", 9)).hang()),
        steady(),
    );
    run.sink.wait_for_record("add b@8").await;
    run.sink.fail_next(Error::Full { key: ObjectKey::named("c").ok(), limit: 1 });
    run.finished().await;
    assert_eq!(run.source.texts()[1..], ["watch 7", "watch 8"]);
    assert_eq!(run.sink.texts()[1..], ["add b@8", "add c@9"]);
    assert!(run.errors()[0].contains("c rejected: full (limit 1)"), "{:?}", run.errors());
    run.stop().await;
}

// contract: R-10a
#[tokio::test(start_paused = true)]
async fn sink_errors_are_reported_and_not_fatal() {
    let run = start_with(
        listed()
            .watch(WatchScript::new().after(SECOND).added(Item::new("c", 8)).added(Item::new("b", 9)).hang()),
        steady(),
    );
    run.sink.wait_for_record("replace a@1 @7").await;
    let key = "c".parse().unwrap();
    run.sink.fail_next(Error::Transform { key, source: "no".into() });
    run.sink.wait_for_record("add b@9").await;
    assert_eq!(run.sink.keys(), ["a", "b"]);
    assert_eq!(run.recoveries(), [Recovery::Skip]);
    assert!(run.errors()[0].contains("failed to add: transform of c failed"), "{:?}", run.errors());
    assert_eq!(run.handle.metrics().sink_errors, 1);
    assert_eq!(run.handle.last_version(), 9.into());
    run.stop().await;
}

// contract: R-10a
#[tokio::test(start_paused = true)]
async fn failed_or_panicked_sink_gets_a_new_list() {
    let run = start_with(
        listed()
            .list(list(8, &[("a", 1)]))
            .watch(WatchScript::new().after(SECOND).added(Item::new("b", 9)))
            .list(list(10, &[("b", 9)]))
            .list(list(11, &[("c", 9)]))
            .watch(hang()),
        steady(),
    );
    run.sink.fail_next(Error::Full { key: None, limit: 1 });
    run.sink.wait_for_record("replace a@1 @8").await;
    run.sink.panic_next();
    run.handle.state_where(|s| matches!(s, ReflectorState::BackingOff { .. })).await;
    run.sink.panic_next();
    run.finished().await;
    assert_eq!(run.recoveries(), [Recovery::Relist; 3]);
    assert!(run.errors()[1].contains("add panicked: panicked: "), "{:?}", run.errors());
    assert_eq!(run.sink.keys(), ["c"]);
    run.stop().await;
}

// contract: R-01a
#[tokio::test(start_paused = true)]
async fn closed_sink_stops_the_reflector() {
    for close_first in [true, false] {
        let run = start(listed().watch(WatchScript::new().after(SECOND).bookmark(9).hang()));
        if close_first {
            run.sink.close();
        } else {
            run.handle.wait_for_sync().await.unwrap();
            run.sink.close();
        }
        assert_eq!(run.task.await.unwrap(), StopReason::SinkClosed);
        assert_eq!(run.handle.state(), ReflectorState::Stopped(StopReason::SinkClosed));
        assert_eq!(run.source.open_watches(), 0);
        assert!(run.failures.lock().is_empty());
    }
}

// contract: I-08a, I-08b
#[tokio::test(start_paused = true)]
async fn first_list_wakes_all_waits() {
    let run = start_with(script().list_error(refused()).list(list(7, &[])).watch(hang()), steady());
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let handle = run.handle.clone();
            tokio::spawn(async move { handle.wait_for_sync().await })
        })
        .collect();
    settle().await;
    let late = run.handle.wait_for_sync().until(Instant::now() + SECOND / 2).await.unwrap_err();
    assert_eq!(late.to_string(), "test is not synced; its last error: connection refused: no listener");
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }
    run.handle.wait_for_sync().await.unwrap();
    run.stop().await;
}

// contract: I-08c
#[tokio::test(start_paused = true)]
async fn wait_for_first_list_ends_with_the_reflector() {
    let run = start(script().hang());
    let handle = run.handle.clone();
    let waiting = tokio::spawn(async move { handle.wait_for_sync().await });
    run.finished().await;
    run.stop().await;
    assert!(matches!(waiting.await.unwrap(), Err(SourceError::NotSynced { last_error: None, .. })));
}

// contract: R-10a
#[tokio::test(start_paused = true)]
async fn panicking_hook_does_not_stop_the_reflector() {
    let source = Arc::new(script().list_error(refused()).list(list(7, &[])).watch(hang()));
    let options = steady().error_hook(|_| std::panic::resume_unwind(Box::new("hook")));
    let reflector = Reflector::with_options("test", source.clone(), RecordingSink::new(), options);
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(CancellationToken::new()));
    source.finished().await;
    assert!(handle.is_synced());
    task.abort();
}

/// A source that can only be listed.
struct OnlyList;

#[async_trait::async_trait]
impl ListerWatcher<Item> for OnlyList {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        Ok(List::new([Item::new("a", 0)], ResourceVersion::UNSET))
    }
}

// contract: L-03b, R-05a
#[tokio::test(start_paused = true)]
async fn list_only_source_is_listed_per_watch_timeout() {
    let options = steady().min_watch_timeout_unbounded(Duration::from_secs(60));
    let sink = Arc::new(RecordingSink::new());
    let reflector = Reflector::with_options("test", OnlyList, sink.clone(), options);
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(CancellationToken::new()));
    _ = timeout(Duration::from_secs(1000), handle.stopped()).await;
    let lists = handle.metrics().lists;
    // Each takes 60 to 120 seconds and one of delay.
    assert!((9..=17).contains(&lists), "{lists}");
    assert_eq!(sink.keys(), ["a"]);
    task.abort();
}

/// A watch that always has another event.
struct Flood;

#[async_trait::async_trait]
impl ListerWatcher<Item> for Flood {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        Ok(List::new([], 1))
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        Ok(stream::iter((2_u64..).map(|version| Ok(WatchEvent::bookmark(version)))).boxed())
    }
}

/// A sink that discards everything.
struct Drain;

impl Sink<Item> for Drain {
    fn apply(&self, _: Deltas<Item>) -> Result<PartialErrors, Error> {
        Ok(PartialErrors::default())
    }
}

/// A source that always has another event does not block other tasks, and can be cancelled.
// contract: R-01a
#[tokio::test(start_paused = true)]
async fn busy_source_yields_and_can_be_cancelled() {
    let reflector = Reflector::new("test", Flood, Drain);
    let handle = reflector.handle();
    let cancel = CancellationToken::new();
    let task = tokio::spawn(reflector.run(cancel.clone()));
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    // The reflector yields every 128 events. The runtime polls it at most 100 times between two polls of this test.
    let events = handle.metrics().events;
    assert!(events > 0 && events < 20 * 100 * 128, "{events}");
    cancel.cancel();
    assert_eq!(task.await.unwrap(), StopReason::Cancelled);
}
