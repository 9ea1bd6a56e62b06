//! A resource that the source does not serve (404).

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use kinformer_core::{Delta, Deltas, Error, PartialErrors, Sink};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, Recovery, Reflector, ReflectorHandle, SourceError, WatchListSupport,
    WatchOptions, WatchStream,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{Item, RecordingSink};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::common::{broken, list, listed, start, status};

const MINUTE: Duration = Duration::from_secs(60);

/// A source that serves the resource except during some times, and fails otherwise at one time.
struct Outage {
    start: Instant,
    /// From when to when the resource is not served.
    not_served: std::ops::Range<Duration>,
    /// During this time requests fail with a broken connection.
    broken: std::ops::Range<Duration>,
    support: WatchListSupport,
    /// The time of each request, and whether it was a watch.
    requests: Mutex<Vec<(Duration, bool)>>,
}

impl Outage {
    fn new(not_served: std::ops::Range<Duration>) -> Self {
        Self {
            start: Instant::now(),
            not_served,
            broken: Duration::ZERO..Duration::ZERO,
            support: WatchListSupport::new(),
            requests: Mutex::default(),
        }
    }

    fn request(&self, is_watch: bool) -> Result<(), SourceError> {
        let time = self.start.elapsed();
        self.requests.lock().push((time, is_watch));
        if self.broken.contains(&time) {
            return Err(broken());
        }
        if self.not_served.contains(&time) { Err(status(404, "NotFound")) } else { Ok(()) }
    }

    /// The times of the requests while the resource was not served, and whether each was a watch.
    fn requests(&self) -> Vec<(Duration, bool)> {
        let requests = self.requests.lock();
        requests.iter().copied().filter(|(time, _)| self.not_served.contains(time)).collect()
    }
}

#[async_trait::async_trait]
impl ListerWatcher<Item> for Outage {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        self.request(false)?;
        let is_new = self.start.elapsed() >= self.not_served.end;
        Ok(if is_new { list(20, &[("new", 20)]) } else { list(10, &[("old", 10)]) })
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        self.request(true)?;
        if options.send_initial_events {
            return Err(status(400, "BadRequest"));
        }
        let ends = match self.start.elapsed() < self.not_served.start {
            true => self.start + self.not_served.start,
            false => Instant::now() + 100 * MINUTE,
        };
        Ok(stream::once(async move { sleep_until(ends).await }).filter_map(|()| async { None }).boxed())
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        Some(&self.support)
    }
}

struct Run {
    source: Arc<Outage>,
    sink: Arc<RecordingSink<Item>>,
    handle: ReflectorHandle,
    start: Instant,
    cancel: CancellationToken,
}

impl Run {
    fn new(source: Outage) -> Self {
        let (start, source) = (source.start, Arc::new(source));
        let sink = Arc::new(RecordingSink::new());
        let reflector = Reflector::new("test", source.clone(), sink.clone());
        let (handle, cancel) = (reflector.handle(), CancellationToken::new());
        tokio::spawn(reflector.run(cancel.clone()));
        Self { source, sink, handle, start, cancel }
    }

    /// Waits until this time after the start.
    async fn until(&self, time: Duration) {
        sleep_until(self.start + time).await;
    }
}

/// The resource is not installed yet. Requests are frequent at first, and then at most one a minute.
// contract: R-25a, R-25b, R-25c
#[tokio::test(start_paused = true)]
async fn requests_of_a_resource_that_is_not_served_are_a_minute_apart() {
    let run = Run::new(Outage::new(Duration::ZERO..30 * MINUTE));
    run.until(10 * MINUTE).await;
    assert!(!run.handle.is_synced());
    let error = run.handle.wait_for_sync().until(Instant::now()).await.unwrap_err();
    assert!(error.to_string().contains("not served"), "{error}");
    let error = run.handle.not_served().unwrap();
    let SourceError::NotServed { lasted, status } = &*error else { panic!("{error}") };
    assert_eq!(status.code, 404);
    assert!(*lasted > 8 * MINUTE, "{lasted:?}");

    run.until(32 * MINUTE).await;
    assert_eq!(run.sink.keys(), ["new"]);
    assert!(run.handle.not_served().is_none() && run.handle.is_synced());
    let requests = run.source.requests();
    let watches = requests.iter().filter(|(_, is_watch)| *is_watch).count();
    assert_eq!(watches, 1, "only the first request is a watch-list: {requests:?}");
    let early = requests.iter().filter(|(time, _)| *time < Duration::from_secs(30)).count();
    assert!(early >= 4, "a resource that is installed soon is found soon: {requests:?}");
    let late: Vec<_> = requests.iter().filter(|(time, _)| *time > Duration::from_secs(30)).collect();
    assert!(late.len() >= 19, "{requests:?}");
    for pair in late.windows(2) {
        let gap = pair[1].0 - pair[0].0;
        assert!(gap >= MINUTE && gap <= MINUTE * 3 / 2, "{gap:?}");
    }
    run.cancel.cancel();
}

/// The definition of a resource is deleted and returns.
// contract: R-25d, R-25e
#[tokio::test(start_paused = true)]
async fn objects_of_a_resource_that_is_not_served_are_deleted_after_ten_minutes() {
    let run = Run::new(Outage::new(MINUTE..31 * MINUTE));
    run.until(Duration::from_secs(59)).await;
    assert!(run.handle.not_served().is_none());
    run.until(11 * MINUTE).await;
    assert!(run.handle.not_served().is_some());
    assert_eq!(run.sink.keys(), ["old"]);
    run.until(13 * MINUTE).await;
    assert_eq!(run.sink.keys(), [""; 0]);
    assert!(run.handle.not_served().is_some() && run.handle.is_synced());
    run.until(30 * MINUTE).await;
    assert_eq!(run.handle.metrics().replaces, 2, "deleted once");
    run.until(33 * MINUTE).await;
    assert_eq!(run.sink.keys(), ["new"]);
    assert!(run.handle.not_served().is_none());
    assert_eq!(run.handle.metrics().replaces, 3);
    run.cancel.cancel();
}

/// A proxy answers 404 for less than ten minutes at a time, with another error in between.
// contract: R-25d
#[tokio::test(start_paused = true)]
async fn objects_stay_if_an_answer_was_not_a_404() {
    let broken = 9 * MINUTE..11 * MINUTE;
    let run = Run::new(Outage { broken, ..Outage::new(MINUTE..19 * MINUTE) });
    run.until(18 * MINUTE).await;
    assert!(run.handle.not_served().is_some());
    run.until(21 * MINUTE).await;
    assert_eq!(run.sink.keys(), ["new"]);
    assert_eq!(run.handle.metrics().replaces, 2, "the objects were never deleted");
    run.cancel.cancel();
}

/// A sink that fails to become empty, once.
struct FailsToEmpty {
    inner: RecordingSink<Item>,
    failures: Mutex<u32>,
}

impl Sink<Item> for FailsToEmpty {
    fn apply(&self, deltas: Deltas<Item>) -> Result<PartialErrors, Error> {
        let is_empty =
            |delta: &Delta<Item>| matches!(delta, Delta::ReplacedAll(list) if list.objects.is_empty());
        if deltas.iter().any(is_empty) && *self.failures.lock() == 0 {
            *self.failures.lock() += 1;
            return Err(Error::other(std::io::Error::other("refused by a test")));
        }
        self.inner.apply(deltas)
    }
}

/// A sink that refuses the deletion receives it again.
#[tokio::test(start_paused = true)]
async fn refused_deletion_is_repeated() {
    let source = Outage::new(MINUTE..60 * MINUTE);
    let sink = Arc::new(FailsToEmpty { inner: RecordingSink::new(), failures: Mutex::new(0) });
    let cancel = CancellationToken::new();
    tokio::spawn(Reflector::new("test", source, sink.clone()).run(cancel.clone()));
    sleep(13 * MINUTE).await;
    assert_eq!((*sink.failures.lock(), sink.inner.keys()), (1, vec!["old".to_owned()]));
    sleep(20 * MINUTE).await;
    assert_eq!(sink.inner.keys(), [""; 0]);
    cancel.cancel();
}

/// A request that is asked for ends the delay. Many of them are one request a second.
// contract: R-25h
#[tokio::test(start_paused = true)]
async fn requests_can_be_asked_for() {
    let run = Run::new(Outage::new(Duration::ZERO..30 * MINUTE));
    run.until(10 * MINUTE).await;
    let before = run.source.requests().len();
    run.handle.retry_if_not_served();
    run.until(10 * MINUTE + Duration::from_secs(2)).await;
    assert_eq!(run.source.requests().len(), before + 1);
    // It is only one: the next ones are a minute apart again.
    run.until(10 * MINUTE + Duration::from_secs(50)).await;
    assert_eq!(run.source.requests().len(), before + 1);
    for _ in 0..100 {
        run.handle.retry_if_not_served();
        sleep(Duration::from_millis(100)).await;
    }
    let requests = run.source.requests().len() - before - 1;
    assert!((5..=11).contains(&requests), "{requests} in 10 s");

    run.until(30 * MINUTE).await;
    run.handle.retry_if_not_served();
    sleep(Duration::from_secs(2)).await;
    assert!(run.handle.not_served().is_none() && run.handle.is_synced(), "at once");
    // No effect while it is served.
    run.handle.retry_if_not_served();
    run.cancel.cancel();
    run.handle.stopped().await;
}

/// A resource with another scope than the requests is one that is not served, with an error of its own.
// contract: R-25j
#[tokio::test(start_paused = true)]
async fn other_scope_is_a_resource_that_is_not_served() {
    let other = || SourceError::OtherScope { resource: "items".to_owned(), namespace: Some("a".to_owned()) };
    let mut source = listed().watch_error(status(404, "NotFound")).list_error(other()).list_error(other());
    // An event of a watch says it as well.
    source = source.list(list(9, &[("b", 9)])).watch(WatchScript::new().error(other())).list_error(other());
    let run = start(source.hang());
    let is_other = || matches!(run.handle.not_served().as_deref(), Some(SourceError::OtherScope { .. }));
    run.finished().await;
    assert!(is_other());
    assert_eq!(run.sink.keys(), ["b"], "the objects stay for a time");
    assert_eq!(run.source.texts()[1..6], ["watch 7", "list 7", "list 7", "list 7", "watch 9"]);
    assert_eq!(run.recoveries(), [Recovery::Relist; 5]);
    assert!(run.errors()[1].contains("items are cluster-scoped"), "{:?}", run.errors());
    run.stop().await;
}
