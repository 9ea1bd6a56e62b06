//! Versions that go back: of a restored server, of a restarted server, and after a wrong version.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use kinformer_core::{KeyRef, ObjectKey, ResourceVersion};
use kinformer_reflector::{
    ApiStatus, DecodeError, EventType, List, ListOptions, ListerWatcher, ProbeBudget, Recovery, Reflector,
    ReflectorHandle, ReflectorOptions, ReflectorState, SourceError, StopReason, WatchListMode,
    WatchListSupport, WatchOptions, WatchStream,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{FakeSource, Item, RecordingSink, ScriptedSource};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_secs(60);

/// A watch that moves the version to 20 and ends without an error.
fn to_twenty() -> WatchScript<Item> {
    WatchScript::new().bookmark(20).after(2 * SECOND)
}

/// An event below the requested version proves that the versions have gone back.
// contract: R-17a, R-17c, R-17d, R-17e
#[tokio::test(start_paused = true)]
async fn outdated_event_leads_to_a_list_of_the_newest() {
    let bad = || DecodeError::new("bad").key("a".parse().unwrap()).event_type(EventType::Modified);
    let proofs: [WatchScript<Item>; 5] = [
        WatchScript::new().added(Item::new("b", 12)),
        WatchScript::new().modified(Item::new("a", 12)),
        WatchScript::new().deleted(Item::new("a", 19)),
        WatchScript::new().bookmark(12),
        WatchScript::new().undecodable(bad().resource_version(12)),
    ];
    for proof in proofs {
        let run = start(
            listed()
                .watch(to_twenty())
                .watch(proof.added(Item::new("never", 30)).hang())
                .list(list(13, &[("b", 12)]))
                .watch(hang()),
        );
        run.finished().await;
        assert_eq!(run.source.texts()[2..], ["watch 20", "list - limit 500", "watch 13"]);
        assert_eq!(run.sink.texts()[1..], ["bookmark @20", "replace b@12 @13"]);
        assert_eq!(run.handle.last_version(), 13.into());
        assert_eq!(run.recoveries(), [Recovery::Relist]);
        assert!(run.delays()[0] >= SECOND * 4 / 5);
        assert_eq!(run.handle.metrics().versions_went_back, 1);
        let error = run.handle.last_error().unwrap();
        let SourceError::VersionsWentBack { requested, found } = &*error else { panic!("{error}") };
        assert_eq!(*requested, 20.into());
        assert!(*found == 12.into() || *found == 19.into());
        run.stop().await;
    }
}

/// A list that is not below the last version disproves an alarm. After two such lists the versions of events are ignored,
/// until a list is below the last version.
// contract: R-17c, R-17h, R-17i, R-17k
#[tokio::test(start_paused = true)]
async fn events_are_ignored_as_a_sign_after_two_false_alarms() {
    let event = |version| WatchScript::new().added(Item::new("b", version));
    let run = start(
        listed()
            .watch(event(3).hang())
            .list(list(7, &[("a", 1), ("b", 3)]))
            .watch(event(4).hang())
            .list(list(8, &[("a", 1), ("b", 4)]))
            .watch(event(5).after(SECOND).added(Item::new("c", 9)).bookmark(20).bookmark(5))
            // Confirmed by a list.
            .list(list(6, &[]))
            .watch(event(5).hang())
            .list(list(6, &[]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(
        run.sink.texts()[1..],
        [
            "replace a@1 b@3 @7",
            "replace a@1 b@4 @8",
            "add b@5",
            "add c@9",
            "bookmark @20",
            "replace @6",
            "replace @6"
        ]
    );
    assert_eq!(run.handle.metrics().versions_went_back, 4);
    assert!(!run.handle.ignores_versions());
    run.stop().await;
}

/// An event about the known version of its object is applied.
// contract: R-17g
#[tokio::test(start_paused = true)]
async fn event_of_the_known_state_is_no_sign() {
    let source = Arc::new(
        listed().watch(
            WatchScript::new()
                .added(Item::new("a", 1))
                .deleted(Item::new("unknown", 2))
                .deleted(Item::new("a", 1))
                .hang(),
        ),
    );
    let sink = Arc::new(RecordingSink::new());
    let reflector = Reflector::new("test", source.clone(), sink.clone()).known_objects(sink.clone());
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let task = tokio::spawn(reflector.run(cancel.clone()));
    source.finished().await;
    settle().await;
    assert_eq!(sink.texts(), ["replace a@1 @7", "add a@1", "delete unknown@2", "delete a@1"]);
    assert_eq!((handle.metrics().versions_went_back, handle.last_version()), (0, 7.into()));
    cancel.cancel();
    assert_eq!(task.await.unwrap(), StopReason::Cancelled);
}

/// A reflector on a server in memory.
struct Follower {
    sink: Arc<RecordingSink<Item>>,
    handle: ReflectorHandle,
    cancel: CancellationToken,
    task: JoinHandle<StopReason>,
}

impl Follower {
    async fn start(source: &FakeSource<Item>, options: ReflectorOptions) -> Self {
        let sink = Arc::new(RecordingSink::new());
        let reflector = Reflector::with_options("test", source.clone(), sink.clone(), options);
        let (handle, cancel) = (reflector.handle(), CancellationToken::new());
        let task = tokio::spawn(reflector.run(cancel.clone()));
        handle.wait_for_sync().await.unwrap();
        Self { sink, handle, cancel, task }
    }

    async fn pass(&self, time: Duration) {
        assert_eq!(timeout(time, self.handle.stopped()).await.ok(), None);
    }

    fn assert_equals(&self, source: &FakeSource<Item>) {
        assert_eq!(self.sink.objects(), source.decodable());
    }

    async fn stop(self) {
        self.cancel.cancel();
        assert_eq!(self.task.await.unwrap(), StopReason::Cancelled);
    }
}

fn server(mode: WatchListMode) -> (FakeSource<Item>, ReflectorOptions) {
    let source = FakeSource::new().accept_future_versions();
    for name in ["a", "b", "c"] {
        source.apply(Item::of(name, 0, 1));
    }
    (source, ReflectorOptions::new().watch_list(mode))
}

/// One absurd version is found within two minutes of silence.
// contract: R-17e, R-18b, R-18e, I-03
#[tokio::test(start_paused = true)]
async fn absurd_version_is_found_after_silence() {
    for mode in [WatchListMode::Auto, WatchListMode::Off] {
        let (source, options) = server(mode);
        let follower = Follower::start(&source, options).await;
        source.misreport_next_version(99_999_999_999);
        source.apply(Item::of("a", 0, 2));
        source.apply(Item::of("b", 0, 2));
        follower.sink.wait_until(|objects| objects[&ObjectKey::named("b").unwrap()].value == 2).await;
        // The next watch starts at the absurd version, so the server sends nothing.
        source.disconnect();
        follower.pass(Duration::from_millis(10)).await;
        source.delete(KeyRef::named("c"));
        source.apply(Item::of("d", 0, 1));
        follower.pass(2 * MINUTE + 5 * SECOND).await;
        follower.assert_equals(&source);
        assert_eq!(follower.handle.last_version(), source.version().into());
        follower.stop().await;
    }
}

// contract: R-17e, R-18e, I-03
#[tokio::test(start_paused = true)]
async fn restored_server_is_relisted() {
    for mode in [WatchListMode::Auto, WatchListMode::Off] {
        let (source, options) = server(mode);
        let follower = Follower::start(&source, options).await;
        let backup = source.backup();
        source.apply(Item::of("a", 0, 2));
        source.apply(Item::of("after-the-backup", 0, 1));
        source.delete(KeyRef::named("b"));
        follower.sink.wait_until(|objects| !objects.contains_key(&ObjectKey::named("b").unwrap())).await;
        source.restore(&backup);
        follower.pass(MINUTE).await;
        follower.assert_equals(&source);
        source.apply(Item::of("new", 0, 1));
        follower.pass(SECOND).await;
        follower.assert_equals(&source);
        follower.stop().await;
    }
}

// contract: R-17f
#[tokio::test(start_paused = true)]
async fn versions_that_prove_nothing_lead_to_no_list() {
    let text = |version: &str| {
        let bad = DecodeError::new("bad").key("x".parse().unwrap()).event_type(EventType::Modified);
        bad.resource_version(version)
    };
    let run = start(
        listed().watch(
            WatchScript::new()
                // Not comparable.
                .undecodable(text("2-opaque"))
                .undecodable(text("006"))
                // Like an event that the server sends twice.
                .bookmark(7)
                .modified(Item::new("a", 7))
                .modified(Item::new("a", 15))
                // Below the last version, but not below the requested one.
                .modified(Item::new("a", 9))
                .added(Item::new("no-version", 0))
                .hang(),
        ),
    );
    run.finished().await;
    assert_eq!(run.source.texts().len(), 2);
    assert_eq!(run.handle.last_version(), 15.into());
    assert_eq!(run.handle.metrics().versions_went_back, 0);
    assert_eq!(run.sink.keys(), ["a", "no-version"]);
    run.stop().await;
}

/// A list below the requested version is not stored.
// contract: R-08c, R-08d, R-17b, R-17c, R-17e
#[tokio::test(start_paused = true)]
async fn outdated_list_is_replaced_by_the_newest() {
    let run = start(
        listed()
            .watch(WatchScript::new().bookmark(20).error(expired()))
            .list(list(13, &[("stale", 12)]))
            .list(list(14, &[("b", 12)]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[2..], ["list 20", "list - limit 500", "watch 14"]);
    assert_eq!(run.sink.texts()[2..], ["replace b@12 @14"]);
    assert_eq!(run.handle.metrics().versions_went_back, 1);
    run.stop().await;
}

/// A watch-list below the requested version is not stored.
// contract: R-08c, R-08d, R-17b, R-17c, R-17e
#[tokio::test(start_paused = true)]
async fn outdated_watch_list_is_replaced_by_the_newest() {
    let initial =
        |name: &str, version: u64| WatchScript::new().added(Item::new(name, 3)).initial_events_end(version);
    let run = start(
        script()
            .with_watch_list(WatchListSupport::new())
            .watch(initial("a", 7).bookmark(20).error(expired()))
            .watch(initial("stale", 13))
            // The initial events are older than the list. The watch continues from the bookmark.
            .watch(initial("b", 14).modified(Item::new("b", 15)).hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts(), ["watch-list -", "watch-list 20", "watch-list -"]);
    assert_eq!(run.sink.texts()[2..], ["replace b@3 @14", "update b@15"]);
    assert_eq!(run.handle.metrics().versions_went_back, 1);
    run.stop().await;
}

fn newest(version: u64) -> Result<Option<ResourceVersion>, SourceError> {
    Ok(Some(version.into()))
}

/// Returns the times of the requests for the newest version, since the first call.
fn probed(run: &Run) -> Vec<Duration> {
    let calls = run.source.calls();
    let probes = calls.iter().filter(|(_, call)| call.text() == "newest");
    probes.map(|(at, _)| *at - calls[0].0).collect()
}

async fn pass(run: &Run, time: Duration) {
    assert_eq!(timeout(time, run.handle.stopped()).await.ok(), None);
}

/// After 90 seconds of silence, the newest version is requested. The watch stays open.
// contract: R-18b, R-18c
#[tokio::test(start_paused = true)]
async fn silent_watch_is_probed_after_90_seconds() {
    let script = WatchScript::new()
        .after(80 * SECOND)
        .bookmark(8)
        .after(80 * SECOND)
        .added(Item::new("b", 9))
        .after(125 * SECOND)
        .added(Item::new("c", 10));
    let source = listed().watch(script.hang()).newest_version(newest(9)).newest_version(newest(10));
    let run = start_with(source, ReflectorOptions::new().min_watch_timeout_unbounded(600 * SECOND));
    pass(&run, 160 * SECOND + 89 * SECOND).await;
    assert_eq!(probed(&run), Vec::<Duration>::new());
    pass(&run, 31 * SECOND).await;
    assert_eq!(probed(&run).len(), 1);
    pass(&run, 125 * SECOND).await;
    assert_eq!(probed(&run).len(), 2, "again after as long a silence");
    assert_eq!(run.source.texts(), ["list 0 limit 500", "watch 7", "newest", "newest"]);
    assert_eq!(run.sink.keys(), ["a", "b", "c"]);
    assert_eq!(run.handle.state(), ReflectorState::Watching { resource_version: 7.into() });
    assert_eq!(run.handle.metrics().version_probes, 2);
    assert!(run.failures.lock().is_empty());
    run.stop().await;
}

// contract: R-18b
#[tokio::test(start_paused = true)]
async fn silence_includes_watches_that_end_in_time() {
    let options = ReflectorOptions::new().min_watch_timeout_unbounded(10 * SECOND).stall_margin(20 * SECOND);
    let mut source = listed().newest_version(newest(7));
    for _ in 0..20 {
        source = source.watch(WatchScript::new().after(20 * SECOND));
    }
    let run = start_with(source, options);
    // At most 120 seconds, and the pause between two watches.
    pass(&run, 125 * SECOND).await;
    let probed = probed(&run);
    assert!(probed.len() == 1 && probed[0] >= 90 * SECOND, "{probed:?}");
    assert_eq!(run.source.texts()[1..6], ["watch 7"; 5]);
    run.stop().await;
}

/// A sink that is full for a second after each resync does not restart the silence.
// contract: R-18b
#[tokio::test(start_paused = true)]
async fn silence_continues_after_a_wait_for_the_sink() {
    let options = ReflectorOptions::new().resync_period(20 * SECOND);
    let run = start_with(listed().watch(hang()).newest_version(newest(7)), options);
    run.sink.wait_for_record("replace a@1 @7").await;
    for _ in 0..8 {
        run.sink.set_room(1);
        run.handle
            .state_where(|state| *state == ReflectorState::Watching { resource_version: 7.into() })
            .await;
        run.handle.state_where(|state| *state == ReflectorState::WaitingForSink).await;
        pass(&run, SECOND).await;
    }
    let probed = probed(&run);
    assert!(probed.len() == 1 && (90 * SECOND..130 * SECOND).contains(&probed[0]), "{probed:?}");
    run.stop().await;
}

// contract: R-18b
#[tokio::test(start_paused = true)]
async fn probes_of_silent_watches_are_spread_out() {
    let mut ends = Vec::new();
    for _ in 0..20 {
        let run = start(listed().watch(hang()).newest_version(newest(7)));
        pass(&run, 121 * SECOND).await;
        ends.extend(probed(&run));
        run.stop().await;
    }
    assert_eq!(ends.len(), 20);
    assert!(ends.iter().all(|end| (90 * SECOND..121 * SECOND).contains(end)), "{ends:?}");
    ends.sort_unstable();
    assert!(ends[19] - ends[0] > 5 * SECOND, "not random: {ends:?}");
}

/// After a watch that ended early, the newest version is requested once the next watch is open.
// contract: R-18a, R-18c
#[tokio::test(start_paused = true)]
async fn watch_that_ended_early_leads_to_a_probe() {
    let after = |time: Duration| WatchScript::new().bookmark(8).after(time);
    let early: [WatchScript<Item>; 4] = [
        after(30 * SECOND).error(broken()),
        after(30 * SECOND).error(status(500, "InternalError")),
        after(30 * SECOND),
        WatchScript::new(),
    ];
    for end in early {
        let run = start(listed().watch(end).watch(hang()).newest_version(newest(8)));
        run.finished().await;
        pass(&run, 60 * SECOND).await;
        let texts = run.source.texts();
        assert!(texts[2].starts_with("watch") && texts[3] == "newest" && texts.len() == 4, "{texts:?}");
        run.stop().await;
    }

    // At most 80 seconds were requested, so this end is not early.
    let options = ReflectorOptions::new().min_watch_timeout_unbounded(40 * SECOND).stall_margin(60 * SECOND);
    let run = start_with(listed().watch(after(80 * SECOND)).watch(hang()).newest_version(newest(8)), options);
    run.finished().await;
    pass(&run, 5 * SECOND).await;
    assert_eq!(run.source.texts(), ["list 0 limit 500", "watch 7", "watch 8"]);
    run.stop().await;
}

/// A newest version below the last one ends the watch, and the newest state is listed.
// contract: R-18a, R-18e
#[tokio::test(start_paused = true)]
async fn lower_newest_version_leads_to_a_list() {
    let run = start(
        listed()
            .watch(WatchScript::new().bookmark(20).error(broken()))
            .watch(hang())
            .newest_version(newest(19))
            .list(list(19, &[("b", 12)]))
            .watch(hang()),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[2..], ["watch 20", "newest", "list - limit 500", "watch 19"]);
    assert_eq!(run.recoveries(), [Recovery::Rewatch, Recovery::Relist]);
    assert!(run.errors()[1].contains("versions of the source went back"), "{:?}", run.errors());
    assert_eq!(run.handle.metrics().versions_went_back, 1);
    // After the list there is no reason for another probe.
    pass(&run, 80 * SECOND).await;
    assert_eq!(probed(&run).len(), 1);
    run.stop().await;
}

/// A probe that fails or times out does not end the watch.
// contract: R-18c, R-18f
#[tokio::test(start_paused = true)]
async fn failed_probe_is_reported_and_repeated() {
    let too_many: SourceError = ApiStatus::new(429, "TooManyRequests", "x").retry_after(77 * SECOND).into();
    let events = WatchScript::new().after(SECOND).added(Item::new("b", 9));
    let run = start(
        listed()
            .watch(WatchScript::new().bookmark(8).error(broken()))
            .watch(events.after(20 * SECOND).added(Item::new("c", 10)).hang())
            .newest_version(Err(too_many))
            .newest_version(Err(broken())),
    );
    run.finished().await;
    // Events arrive while the third probe hangs. It times out after 30 seconds.
    pass(&run, 200 * SECOND).await;
    assert_eq!(run.sink.keys(), ["a", "b", "c"]);
    assert_eq!(run.source.texts()[2..6], ["watch 8", "newest", "newest", "newest"]);
    let probed = probed(&run);
    assert!(probed[1] - probed[0] >= 77 * SECOND, "{probed:?}");
    assert_eq!(run.recoveries()[1..4], [Recovery::Skip; 3]);
    assert!(run.errors()[3].contains("no answer within"), "{:?}", run.errors());
    assert!(run.handle.metrics().version_probe_errors >= 3);
    assert_eq!(run.handle.state(), ReflectorState::Watching { resource_version: 8.into() });
    run.stop().await;
}

/// A refused question for the newest version delays the next one, and no watch.
// contract: R-20f
#[tokio::test(start_paused = true)]
async fn refused_probe_delays_no_watch() {
    let too_many: SourceError = ApiStatus::new(429, "TooManyRequests", "x").retry_after(77 * SECOND).into();
    let run = start(
        listed()
            .watch(WatchScript::new().bookmark(8).error(broken()))
            .watch(WatchScript::new().after(5 * SECOND).bookmark(9))
            .watch(hang())
            .newest_version(Err(too_many)),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[2..], ["watch 8", "newest", "watch 9"]);
    let (calls, probed) = (run.source.calls(), probed(&run));
    let opened = calls[4].0 - calls[0].0;
    assert!(opened - probed[0] < 10 * SECOND, "{opened:?} {probed:?}");
    run.stop().await;
}

/// A list between two questions does not shorten the time that the source has asked for.
// contract: R-20f
#[tokio::test(start_paused = true)]
async fn list_keeps_the_retry_after_of_a_probe() {
    let too_many: SourceError = ApiStatus::new(429, "TooManyRequests", "x").retry_after(77 * SECOND).into();
    let run = start_with(
        listed()
            .watch(WatchScript::new().bookmark(8).error(broken()))
            .watch(WatchScript::new().after(SECOND).bookmark(9).error(expired()))
            .list(list(13, &[("b", 12)]))
            .watch(WatchScript::new().after(SECOND).bookmark(14).error(broken()))
            .watch(hang())
            .newest_version(Err(too_many))
            .newest_version(newest(14)),
        steady(),
    );
    run.finished().await;
    pass(&run, 80 * SECOND).await;
    let probed = probed(&run);
    assert_eq!(probed.len(), 2, "{:?}", run.source.texts());
    assert!(probed[1] - probed[0] >= 77 * SECOND, "{probed:?}");
    run.stop().await;
}

// contract: R-18c
#[tokio::test(start_paused = true)]
async fn hanging_probe_does_not_stop_the_watch() {
    let events = WatchScript::new().after(SECOND).added(Item::new("b", 9)).after(SECOND).error(broken());
    let run = start_with(
        listed()
            .watch(WatchScript::new().bookmark(8).error(broken()))
            .watch(events)
            .watch(hang())
            .newest_version(newest(8))
            .newest_version(newest(9)),
        steady(),
    );
    run.finished().await;
    assert_eq!(run.source.texts()[2..5], ["watch 8", "newest", "watch 9"]);
    assert_eq!(run.sink.keys(), ["a", "b"]);
    run.stop().await;

    // A probe without an answer: the next watch probes again.
    let events = WatchScript::new().after(SECOND).added(Item::new("b", 9)).after(SECOND).error(broken());
    let source = listed().watch(WatchScript::new().bookmark(8).error(broken())).watch(events).watch(hang());
    let hanging = SlowAnswers::new(source, None);
    let sink = Arc::new(RecordingSink::new());
    let reflector = Reflector::with_options("test", hanging.clone(), sink.clone(), steady());
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let task = tokio::spawn(reflector.run(cancel.clone()));
    hanging.source.finished().await;
    assert_eq!(timeout(SECOND, handle.stopped()).await.ok(), None);
    assert_eq!(hanging.source.texts()[1..], ["watch 7", "watch 8", "watch 9"]);
    assert_eq!(sink.keys(), ["a", "b"]);
    assert_eq!(hanging.probes.load(Ordering::Relaxed), 2);
    cancel.cancel();
    assert_eq!(task.await.unwrap(), StopReason::Cancelled);
}

/// A source that answers requests for its newest version after a time, or never.
struct SlowAnswers {
    source: Arc<ScriptedSource<Item>>,
    after: Option<Duration>,
    probes: AtomicUsize,
}

impl SlowAnswers {
    fn new(source: ScriptedSource<Item>, after: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { source: Arc::new(source), after, probes: AtomicUsize::new(0) })
    }
}

#[async_trait::async_trait]
impl ListerWatcher<Item> for SlowAnswers {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        self.source.list(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        self.source.watch(options).await
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        match self.after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
        self.source.newest_version().await
    }
}

/// An answer that arrives while the sink is full counts, although the watch has ended before the sink has room again.
// contract: R-18j, R-20f
#[tokio::test(start_paused = true)]
async fn answer_while_the_sink_is_full_counts() {
    let too_many: SourceError = ApiStatus::new(429, "TooManyRequests", "x").retry_after(77 * SECOND).into();
    for (answer, then) in [(Err(too_many), "watch 9"), (newest(5), "list - limit 500")] {
        let events = WatchScript::new().after(SECOND).added(Item::new("b", 9)).error(broken());
        let source = listed().watch(WatchScript::new().bookmark(8).error(broken())).watch(events);
        let source = match answer {
            Ok(_) => source.list(list(5, &[("c", 5)])),
            Err(_) => source,
        };
        let slow = SlowAnswers::new(source.watch(hang()).newest_version(answer), Some(3 * SECOND));
        let sink = Arc::new(RecordingSink::new());
        let reflector = Reflector::with_options("test", slow.clone(), sink.clone(), steady());
        let (handle, cancel) = (reflector.handle(), CancellationToken::new());
        let task = tokio::spawn(reflector.run(cancel.clone()));
        handle.state_where(|state| *state == ReflectorState::Watching { resource_version: 8.into() }).await;
        sink.set_room(1);
        handle.state_where(|state| *state == ReflectorState::WaitingForSink).await;
        tokio::time::sleep(5 * SECOND).await;
        sink.set_room(100);
        slow.source.finished().await;
        tokio::time::sleep(60 * SECOND).await;
        let texts = slow.source.texts().into_iter().filter(|text| text != "newest");
        assert_eq!(texts.collect::<Vec<_>>()[3], then);
        assert_eq!(slow.probes.load(Ordering::Relaxed), 1);
        cancel.cancel();
        assert_eq!(task.await.unwrap(), StopReason::Cancelled);
    }
}

/// An answer without a version is no reason to stop asking: the next one may have a version.
// contract: R-18g
#[tokio::test(start_paused = true)]
async fn source_is_probed_again_after_an_answer_without_a_version() {
    let watch = || WatchScript::new().after(30 * SECOND).error(broken());
    let source = listed().watch(watch()).watch(hang()).newest_version(Ok(None)).newest_version(newest(5));
    let run = start(source.list(list(5, &[("b", 5)])).watch(hang()));
    run.finished().await;
    assert_eq!(run.sink.keys(), ["b"]);
    assert_eq!(run.handle.metrics().versions_went_back, 1);
    let probed = probed(&run);
    assert!(probed.len() == 2 && probed[1] - probed[0] >= 90 * SECOND, "{probed:?}");
    run.stop().await;
}

/// A source whose versions do not compare is not probed.
// contract: R-18i
#[tokio::test(start_paused = true)]
async fn source_without_comparable_versions_is_not_probed() {
    let watch = || WatchScript::new().after(30 * SECOND).error(broken());
    // The last version does not compare.
    let opaque: [ResourceVersion; 3] = [ResourceVersion::UNSET, 0.into(), "opaque".into()];
    for version in opaque {
        let first = List::new([Item::new("a", 0)], version.clone());
        let mut source = script().list(first).newest_version(newest(1));
        for _ in 0..2 {
            source = source.watch(WatchScript::new().after(30 * SECOND));
        }
        let run = start(source.watch(hang()));
        run.finished().await;
        pass(&run, 280 * SECOND).await;
        assert_eq!(probed(&run), Vec::<Duration>::new(), "{version:?}");
        run.stop().await;
    }

    // Answers that do not compare prove nothing.
    for version in [ResourceVersion::UNSET, "opaque".into()] {
        let source = listed().watch(watch()).watch(hang()).newest_version(Ok(Some(version)));
        let run = start(source);
        run.finished().await;
        pass(&run, 30 * SECOND).await;
        assert_eq!(probed(&run).len(), 1);
        assert_eq!(run.handle.metrics().versions_went_back, 0);
        run.stop().await;
    }
}

/// The servers of many reflectors, and the times of all requests for a newest version.
struct Many {
    sources: Vec<FakeSource<Item>>,
    probe_log: Arc<Mutex<Vec<Instant>>>,
}

struct OfMany {
    source: FakeSource<Item>,
    budget: ProbeBudget,
    probe_log: Arc<Mutex<Vec<Instant>>>,
}

#[async_trait::async_trait]
impl ListerWatcher<Item> for OfMany {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        self.source.list(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        self.source.watch(options).await
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.probe_log.lock().push(Instant::now());
        self.source.newest_version().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        Some(&self.budget)
    }
}

/// If they lose their connections together, ten of them probe at once and then five a second.
// contract: R-19a
#[tokio::test(start_paused = true)]
async fn probe_budget_limits_a_thousand_reflectors() {
    let many = Many { sources: (0..1000).map(|_| FakeSource::new()).collect(), probe_log: Arc::default() };
    let (budget, cancel) = (ProbeBudget::new(), CancellationToken::new());
    let mut handles = Vec::new();
    for source in &many.sources {
        source.apply(Item::of("a", 0, 1));
        let of_many =
            OfMany { source: source.clone(), budget: budget.clone(), probe_log: many.probe_log.clone() };
        let reflector = Reflector::new("one", of_many, RecordingSink::new());
        handles.push(reflector.handle());
        drop(tokio::spawn(reflector.run(cancel.clone())));
    }
    for handle in &handles {
        handle.wait_for_sync().await.unwrap();
        handle.state_where(|state| matches!(state, ReflectorState::Watching { .. })).await;
    }
    for source in &many.sources {
        source.break_watches(broken);
    }
    let started = Instant::now();
    tokio::time::sleep(210 * SECOND).await;
    let mut probe_log = many.probe_log.lock().clone();
    probe_log.sort_unstable();
    // None is dropped: each broken watch has led to a probe.
    assert!(many.sources.iter().all(|source| source.probes() > 0));
    for (n, at) in probe_log.iter().enumerate() {
        // From each probe on, at most 10 + 5 per second.
        let in_a_second = probe_log[n..].iter().take_while(|other| **other - *at < SECOND).count();
        assert!(in_a_second <= 15, "{in_a_second} after {:?}", *at - started);
        let in_ten = probe_log[n..].iter().take_while(|other| **other - *at < 10 * SECOND).count();
        assert!(in_ten <= 60, "{in_ten} after {:?}", *at - started);
    }
    cancel.cancel();
    for handle in handles {
        handle.stopped().await;
    }
}

// contract: R-18f
#[tokio::test(start_paused = true)]
async fn status_429_for_a_consistent_read_is_retried() {
    // kube-apiserver 1.37 with `ConsistentListFromCacheSkipTimeoutFallback`.
    let busy = || -> SourceError {
        let message = "Timeout: Too large resource version: 21, current: 19";
        ApiStatus::new(429, "TooManyRequests", message).retry_after(SECOND).into()
    };
    let run = start(
        listed()
            .watch(WatchScript::new().bookmark(20).error(broken()))
            .watch(WatchScript::new().after(60 * SECOND).bookmark(12).hang())
            .newest_version(Err(busy()))
            .newest_version(Err(busy()))
            .list_error(busy())
            .list_error(busy())
            .list(list(13, &[("b", 12)]))
            .watch(hang()),
    );
    run.finished().await;
    let lists: Vec<_> = run.source.texts().into_iter().filter(|text| text.starts_with("list")).collect();
    assert_eq!(lists[1..], ["list - limit 500"; 3]);
    assert_eq!(run.sink.texts()[1..], ["bookmark @20", "replace b@12 @13"]);
    assert_eq!(run.handle.metrics().version_probe_errors, 2);
    run.stop().await;

    let initial = WatchScript::new().initial_events_end(7).hang();
    let support = WatchListSupport::new();
    let run = start(
        script().with_watch_list(support.clone()).watch_error(busy()).watch_error(busy()).watch(initial),
    );
    run.finished().await;
    assert_eq!(run.source.texts(), ["watch-list -"; 3]);
    assert!(!support.is_refused());
    run.stop().await;
}

/// A deletion between two watches of a source without versions is in neither, so there is no time between them.
// contract: R-20a
#[tokio::test(start_paused = true)]
async fn closed_watch_without_versions_is_reopened_at_once() {
    let source = script().list(unversioned(&[("a", 0)])).watch(WatchScript::new().after(MINUTE));
    let run = start(source.watch(hang()));
    run.finished().await;
    let calls = run.source.calls();
    assert_eq!(calls[2].0 - calls[1].0, MINUTE);
    assert!(run.errors().is_empty());
    run.stop().await;
}
