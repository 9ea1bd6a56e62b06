//! The rate of requests to a source, for any sequence of answers.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use futures::{StreamExt, stream};
use kinformer_core::ResourceVersion;
use kinformer_reflector::{
    ApiStatus, Backoff, List, ListOptions, ListerWatcher, NextRequest, Recovery, Reflector, ReflectorOptions,
    ReflectorState, RequestLimit, SourceError, StopReason, WatchEvent, WatchListSupport, WatchOptions,
    WatchStream,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{Item, RecordingSink};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// More requests than any test makes. A loop without delays ends there.
const MAX_REQUESTS: usize = 2000;

/// A source whose answers are chosen by a repeating sequence of bytes. Records the times of its requests.
struct ByteSource {
    bytes: Vec<u8>,
    inner: Mutex<Inner>,
    support: Option<WatchListSupport>,
}

#[derive(Default)]
struct Inner {
    read: usize,
    version: u64,
    requests: Vec<Instant>,
}

impl ByteSource {
    fn new(bytes: Vec<u8>, support: Option<WatchListSupport>) -> Arc<Self> {
        let inner = Mutex::new(Inner { version: 100, ..Inner::default() });
        Arc::new(Self { bytes, inner, support })
    }

    fn read(&self) -> u8 {
        let mut inner = self.inner.lock();
        inner.read += 1;
        self.bytes[inner.read % self.bytes.len()]
    }

    fn next_version(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.version += 1;
        inner.version
    }

    /// Counts a request.
    async fn count_request(&self) {
        let requests = {
            let mut inner = self.inner.lock();
            inner.requests.push(Instant::now());
            inner.requests.len()
        };
        if requests >= MAX_REQUESTS {
            std::future::pending().await
        }
    }

    fn error(&self) -> SourceError {
        match self.read() % 9 {
            0 => expired(),
            1 => refused(),
            2 => broken(),
            3 => ApiStatus::new(429, "TooManyRequests", "x").retry_after(Duration::ZERO).into(),
            4 => ApiStatus::new(429, "TooManyRequests", "x").retry_after(SECOND).into(),
            5 => status(500, "InternalError"),
            6 => status(500, "StoreReadError"),
            7 => ApiStatus::new(504, "Timeout", "Too large resource version").into(),
            _ => status(403, "Forbidden"),
        }
    }

    fn version(&self) -> ResourceVersion {
        match self.read() % 8 {
            0 => ResourceVersion::UNSET,
            1 => "opaque".into(),
            2 => 50.into(),
            3 => 1_000_000.into(),
            _ => self.next_version().into(),
        }
    }
}

#[async_trait::async_trait]
impl ListerWatcher<Item> for ByteSource {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        let is_part = options.continue_token.is_some();
        if !is_part {
            self.count_request().await;
        }
        let list = List::new([Item::new("a", 0)], self.version());
        match self.read() % 4 {
            0 if is_part => Err(expired()),
            0 => Err(self.error()),
            // At most two pages.
            1 if options.limit.is_some() && !is_part => {
                Ok(list.continue_token(self.next_version().to_string()))
            }
            _ => Ok(list),
        }
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        self.count_request().await;
        if self.read().is_multiple_of(5) {
            return Err(self.error());
        }
        let mut events = Vec::new();
        if options.send_initial_events && !self.read().is_multiple_of(4) {
            let version = self.version();
            events.push(Ok(WatchEvent::initial_events_end(version)));
        }
        for _ in 0..self.read() % 3 {
            let version = self.next_version();
            events.push(Ok(match self.read() % 4 {
                0 => WatchEvent::bookmark(self.version()),
                1 => WatchEvent::Added(Item::new("b", 0)),
                2 => WatchEvent::Modified(Item::new("b", version)),
                _ => WatchEvent::bookmark(version),
            }));
        }
        if self.read().is_multiple_of(3) {
            events.push(Err(self.error()));
        }
        let pause = Duration::from_millis(match self.read() % 6 {
            0 => 700,
            1 => 1100,
            2 => 4000,
            _ => 0,
        });
        let end =
            stream::once(async move { tokio::time::sleep(pause).await }).filter_map(|()| async { None });
        Ok(stream::iter(events).chain(end).boxed())
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.count_request().await;
        if self.read().is_multiple_of(3) { Err(self.error()) } else { Ok(Some(self.version())) }
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.support.as_ref()
    }
}

/// Checks the limit: at most ten requests in any ten seconds, and at most thirty in any minute.
fn within_the_limit(requests: &[Instant]) -> Result<(), String> {
    for (limit, span) in [(10, 10 * SECOND), (30, 60 * SECOND)] {
        for window in requests.windows(limit + 1) {
            let took = window[limit] - window[0];
            if took <= span {
                return Err(format!("{} requests in {took:?}", limit + 1));
            }
        }
    }
    Ok(())
}

/// Runs a reflector for this time, and returns the times of its requests.
async fn run_for(source: &Arc<ByteSource>, options: ReflectorOptions, time: Duration) -> Vec<Instant> {
    let reflector = Reflector::with_options("test", source.clone(), RecordingSink::new(), options);
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let task = tokio::spawn(reflector.run(cancel.clone()));
    assert_eq!(timeout(time, handle.stopped()).await.ok(), None);
    cancel.cancel();
    assert_eq!(task.await.unwrap(), StopReason::Cancelled);
    source.inner.lock().requests.clone()
}

fn eager() -> ReflectorOptions {
    ReflectorOptions::new().backoff(Backoff::from_delays(|| std::iter::repeat(Duration::ZERO)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    // contract: R-21a, R-21c
    #[test]
    fn request_limit_holds_for_all_answers(
        bytes in prop::collection::vec(any::<u8>(), 1..60),
        watch_lists in any::<bool>(),
        without_delays in any::<bool>(),
        checks in any::<bool>(),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let requests = runtime.block_on(async {
            let source = ByteSource::new(bytes, watch_lists.then(WatchListSupport::new));
            let mut options = if without_delays { eager() } else { ReflectorOptions::new() };
            if checks {
                options = options.check_consistency();
            }
            run_for(&source, options, Duration::from_secs(300)).await
        });
        prop_assert_eq!(within_the_limit(&requests), Ok(()));
        prop_assert!(!requests.is_empty());
    }
}

/// The list in one piece that follows an expired page is delayed as any other.
// contract: R-21a, R-21b
#[tokio::test(start_paused = true)]
async fn list_in_one_piece_counts_as_another_list() {
    let mut source = script();
    for _ in 0..10 {
        source = source.list(list(7, &[("a", 1)]).continue_token("b"));
        source = source.list_error(expired()).list_error(status(403, "Forbidden"));
    }
    let run = start_with(source.list(list(7, &[])).watch(hang()), eager());
    run.finished().await;
    let calls = run.source.calls().into_iter().zip(run.source.texts());
    let lists: Vec<_> =
        calls.filter(|(_, text)| !text.contains("continue")).map(|((time, _), _)| time).collect();
    within_the_limit(&lists).unwrap();
    assert_eq!(lists.len(), 22);
    run.stop().await;
}

/// A source whose watches deliver one event and end without an error.
struct OneEvent<F> {
    event: F,
    bytes: Arc<ByteSource>,
    version: ResourceVersion,
}

#[async_trait::async_trait]
impl<F: Fn(u64) -> WatchEvent<Item> + Send + Sync> ListerWatcher<Item> for OneEvent<F> {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        self.bytes.count_request().await;
        Ok(List::new([], self.version.clone()))
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        self.bytes.count_request().await;
        let event = (self.event)(self.bytes.next_version());
        Ok(stream::iter([Ok(event)]).boxed())
    }
}

async fn one_event<F>(event: F, version: ResourceVersion) -> (Vec<Instant>, u64, u64)
where
    F: Fn(u64) -> WatchEvent<Item> + Send + Sync + 'static,
{
    let bytes = ByteSource::new(vec![1], None);
    let source = OneEvent { event, bytes: bytes.clone(), version };
    let reflector = Reflector::new("test", source, RecordingSink::new());
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(CancellationToken::new()));
    _ = timeout(Duration::from_secs(300), handle.stopped()).await;
    task.abort();
    let (requests, metrics) = (bytes.inner.lock().requests.clone(), handle.metrics());
    (requests, metrics.lists, metrics.very_short_watches)
}

// contract: R-21a, R-06
#[tokio::test(start_paused = true)]
async fn watches_with_one_event_cause_no_tight_loop() {
    let bookmark = |version| WatchEvent::bookmark(version);
    let added = |_| WatchEvent::Added(Item::new("a", 0));
    let modified = |version| WatchEvent::Modified(Item::new("a", version));
    let ways = [
        one_event(bookmark, 7.into()).await,
        one_event(added, ResourceVersion::UNSET).await,
        one_event(modified, 7.into()).await,
    ];
    for (requests, lists, very_short) in ways {
        within_the_limit(&requests).unwrap();
        // After the fifth watch, the delays are those after failures, up to a minute each.
        assert!((10..60).contains(&requests.len()), "{}", requests.len());
        assert_eq!(very_short, requests.len() as u64 - 1 - 4);
        assert_eq!(lists, 1, "each watch delivered an event, so there is no relist");
    }
}

/// A delay follows five very short watches in a row, even if they delivered events.
// contract: R-20b
#[tokio::test(start_paused = true)]
async fn five_very_short_watches_cause_a_delay() {
    let short = |version: u64| WatchScript::new().bookmark(version);
    let mut source = script().list(list(7, &[]));
    for version in 8..12 {
        source = source.watch(short(version));
    }
    // A longer watch in between restarts the count.
    source = source.watch(short(12).after(SECOND));
    for version in 13..18 {
        source = source.watch(short(version));
    }
    let run = start(source.watch(WatchScript::new().hang()));
    run.finished().await;
    assert_eq!(run.recoveries(), [Recovery::Rewatch]);
    assert!(run.errors()[0].ends_with("1 events"), "{:?}", run.errors());
    let calls = run.source.calls();
    assert!(calls[11].0 - calls[10].0 >= run.delays()[0]);
    assert_eq!(run.source.texts()[11], "watch 17");
    run.stop().await;
}

/// A request that the limit delays is visible as a state, is counted, and does not stop resyncs.
// contract: R-21a, R-21d
#[tokio::test(start_paused = true)]
async fn delayed_request_is_visible_and_keeps_resyncs() {
    let options = eager().resync_period(3 * SECOND);
    let source = (0..40).fold(script().list(list(7, &[])), |source, _| source.watch_error(refused()));
    let run = start_with(source, options);
    let is_delayed = |state: &ReflectorState| matches!(state, ReflectorState::BackingOff { next: NextRequest::Watch, delay, .. } if *delay > SECOND);
    run.handle.state_where(is_delayed).await;
    assert_eq!(run.source.texts().len(), 10);
    assert_eq!(run.handle.metrics().requests_throttled, 1);
    let before = Instant::now();
    run.sink.wait_for_record("resync").await;
    assert_eq!(run.source.texts().len(), 10);
    assert!(Instant::now() - before <= 3 * SECOND);
    run.stop().await;
}

// contract: R-21a
#[tokio::test(start_paused = true)]
async fn request_limit_can_be_switched_off() {
    let mut source = script().list(list(7, &[]));
    for _ in 0..200 {
        source = source.watch_error(refused());
    }
    let options = eager().request_limit(RequestLimit::Off);
    let before = Instant::now();
    let run = start_with(source.watch(WatchScript::new().hang()), options);
    run.finished().await;
    assert_eq!(Instant::now(), before);
    assert_eq!(run.handle.metrics().requests_throttled, 0);
    run.stop().await;
}

// contract: R-20a
#[tokio::test(start_paused = true)]
async fn watches_ended_together_reopen_at_random_times() {
    let mut pauses = Vec::new();
    for _ in 0..20 {
        let source = script().list(list(7, &[])).watch(WatchScript::new().after(200 * SECOND));
        let run = start(source.watch(WatchScript::new().hang()));
        run.finished().await;
        let calls = run.source.calls();
        pauses.push(calls[2].0 - calls[1].0 - 200 * SECOND);
        run.stop().await;
    }
    assert!(pauses.iter().all(|pause| *pause < SECOND / 2 + Duration::from_millis(1)), "{pauses:?}");
    pauses.sort_unstable();
    assert!(pauses[19] - pauses[0] > SECOND / 20, "not random: {pauses:?}");
}

/// Reflectors with default options that fail at the same time retry at different times.
// contract: R-20c
#[tokio::test(start_paused = true)]
async fn default_delays_are_random() {
    let mut delays = Vec::new();
    for _ in 0..20 {
        let source = script().list(list(7, &[])).watch_error(refused()).watch_error(refused());
        let source = source.watch(WatchScript::new().hang());
        let run = start_with(source, ReflectorOptions::new());
        run.finished().await;
        delays.push(run.delays());
        run.stop().await;
    }
    for failure in 0..2 {
        let mut of_failure: Vec<_> = delays.iter().map(|delays| delays[failure]).collect();
        of_failure.sort_unstable();
        assert!(of_failure[19] - of_failure[0] > of_failure[0] / 10, "not random: {of_failure:?}");
    }
}

// contract: R-01c
#[tokio::test(start_paused = true)]
async fn clock_jump_during_a_delay_causes_one_request() {
    let run = start(
        script()
            .list(list(7, &[]))
            .watch_error(refused())
            .watch_error(refused())
            .watch(WatchScript::new().hang()),
    );
    run.handle.state_where(|state| matches!(state, ReflectorState::BackingOff { failures: 1, .. })).await;
    assert_eq!(run.source.texts().len(), 2);
    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    settle().await;
    // One request, followed by the usual delay after a failure; the delays have started over.
    assert_eq!(run.source.texts().len(), 3);
    assert!((SECOND * 4 / 5..=SECOND * 8 / 5).contains(&run.delays()[1]), "{:?}", run.delays());
    run.finished().await;
    run.stop().await;
}
