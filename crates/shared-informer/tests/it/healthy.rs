//! Healthy servers that are not kube-apiserver, each a row of the second table in `docs/reliability.md`: an informer
//! receives each change when client-go's informer does.

use std::time::Duration;

use crate::common::{QUEUES, Running, Seen, server, stored};
use kinformer_core::KeyRef;
use kinformer_reflector::{ApiStatus, ReflectorMetrics, SourceError};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_testing::fake_source::Versions;
use kinformer_testing::{FakeSource, Item};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Time for the tasks to run, without any delay of the reflector.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Longer than the first two delays of the backoff.
const TWO_DELAYS: Duration = Duration::from_secs(6);

struct Run {
    source: FakeSource<Item>,
    running: Running,
    seen: Seen,
    queue: QueueKind,
    changes: u64,
}

impl Run {
    /// Starts an informer of three objects, `a`, `b` and `c`.
    async fn start(versions: Versions, queue: QueueKind) -> Self {
        let source = FakeSource::new().without_watch_list().versions(versions);
        for name in ["a", "b", "c"] {
            source.apply(Item::of(name, 0, 1));
        }
        let informer = SharedIndexInformer::builder(source.clone()).queue(queue).build().unwrap();
        let seen = Seen::default();
        let recorder = seen.clone();
        informer.handler().inline().for_each(move |event| recorder.record(event)).unwrap();
        let running = Running::start(informer).await;
        let run = Self { source, running, seen, queue, changes: 0 };
        run.follows_within(AT_ONCE).await;
        run
    }

    /// Asserts that the store and the handler are equal to the server after this time.
    #[track_caller]
    fn follows_within(&self, time: Duration) -> impl Future<Output = ()> + '_ {
        let caller = std::panic::Location::caller();
        async move {
            let deadline = Instant::now() + time;
            let is_equal = || {
                let server = server(&self.source);
                stored(&self.running.informer) == server && self.seen.view().map == server
            };
            while !is_equal() && Instant::now() < deadline {
                sleep(AT_ONCE).await;
            }
            let server = server(&self.source);
            assert_eq!(stored(&self.running.informer), server, "{:?}, {caller}", self.queue);
            assert_eq!(self.seen.view().map, server, "{:?}, {caller}", self.queue);
        }
    }

    /// Adds, updates and deletes an object. The informer must receive each change at once.
    async fn change(&mut self) {
        self.changes += 1;
        let name = format!("x{}", self.changes);
        for value in [1, 2] {
            self.source.apply(Item::of(&name, 0, value));
            self.follows_within(AT_ONCE).await;
        }
        self.source.apply(Item::of("a", 0, self.changes + 1));
        self.follows_within(AT_ONCE).await;
        self.source.delete(KeyRef::named(&name));
        self.follows_within(AT_ONCE).await;
        sleep(SECOND).await;
    }

    fn metrics(&self) -> ReflectorMetrics {
        self.running.informer.metrics().reflector
    }

    async fn stop(self) {
        self.running.stop().await.unwrap();
    }
}

fn broken() -> SourceError {
    SourceError::Transport { source: "reset by peer".into() }
}

/// Antrea: neither lists nor objects have versions, but the bookmarks have. The server answers watches with 503 for a while.
// contract: R-16c, R-17j, I-03
#[tokio::test(start_paused = true)]
async fn lists_without_versions() {
    for queue in QUEUES {
        let mut run = Run::start(Versions::None, queue).await;
        run.change().await;
        for _ in 0..6 {
            run.source.fail_next_watch(ApiStatus::new(503, "ServiceUnavailable", "upgrade").into());
        }
        run.source.break_watches(broken);
        run.source.delete(KeyRef::named("b"));
        run.source.apply(Item::of("d", 0, 1));
        run.follows_within(3 * MINUTE).await;
        sleep(3 * MINUTE).await;
        run.change().await;
        run.stop().await;
    }
}

/// Antrea: the server is overloaded, or down, when the watch after a list is opened. The next watch lacks what is deleted
/// before it.
// contract: R-16c, R-17j, I-03
#[tokio::test(start_paused = true)]
async fn refused_watches_without_versions() {
    let refused = || SourceError::ConnectionRefused { source: "refused".into() };
    let busy = || ApiStatus::new(429, "TooManyRequests", "busy").into();
    for error in [refused, busy] {
        for queue in QUEUES {
            let mut run = Run::start(Versions::None, queue).await;
            run.change().await;
            let watches = run.source.requests().1;
            run.source.fail_next_watch(error());
            run.source.break_watches(broken);
            while run.source.requests().1 == watches {
                sleep(AT_ONCE).await;
            }
            run.source.delete(KeyRef::named("b"));
            run.follows_within(TWO_DELAYS).await;
            run.change().await;
            run.stop().await;
        }
    }
}

/// Antrea: the process restarts, and its bookmarks count from 1 again.
// contract: R-16c, R-17a, R-17j, I-03
#[tokio::test(start_paused = true)]
async fn versions_that_restart_with_the_process() {
    for queue in QUEUES {
        let mut run = Run::start(Versions::None, queue).await;
        for value in 2..5 {
            run.change().await;
            run.source.disconnect();
            sleep(SECOND).await;
            run.source.restart();
            run.source.apply(Item::of("b", 0, value));
            run.follows_within(2 * TWO_DELAYS).await;
            run.change().await;
        }
        run.stop().await;
    }
}

/// An aggregated server with a counter for each object, below the version of each list.
// contract: R-17h, R-17i, R-17j, I-03
#[tokio::test(start_paused = true)]
async fn versions_of_objects() {
    for queue in QUEUES {
        let mut run = Run::start(Versions::PerObject, queue).await;
        for value in [2, 3] {
            assert_eq!(run.metrics().ignored_version_signs, 0);
            run.source.apply(Item::of("b", 0, value));
            run.follows_within(TWO_DELAYS).await;
        }
        for _ in 0..10 {
            run.change().await;
            assert_eq!((run.metrics().versions_went_back, run.metrics().ignored_version_signs), (2, 1));
        }
        run.source.disconnect();
        sleep(SECOND).await;
        run.change().await;
        run.source.break_watches(broken);
        run.source.delete(KeyRef::named("c"));
        run.follows_within(2 * TWO_DELAYS).await;
        run.change().await;
        assert_eq!(run.metrics().versions_went_back, 2);

        // After an hour without an alarm, the versions of events count again.
        run.source.send_bookmarks();
        sleep(71 * MINUTE).await;
        assert_eq!(run.metrics().ignored_version_signs, 0);
        run.source.apply(Item::of("b", 0, 4));
        run.follows_within(TWO_DELAYS).await;
        assert_eq!(run.metrics().versions_went_back, 3);
        run.stop().await;
    }
}

/// A list has the highest version of its items: it falls with a deletion, and an empty list has none.
// contract: R-16a, R-16b, R-17g, R-18h, I-03
#[tokio::test(start_paused = true)]
async fn highest_version_of_the_items() {
    for queue in QUEUES {
        let mut run = Run::start(Versions::HighestItem, queue).await;
        // The question for the newest version is answered with the version of one item.
        sleep(20 * MINUTE).await;
        assert_eq!((run.metrics().versions_went_back, run.metrics().ignored_version_signs), (2, 1));
        for name in ["c", "b"] {
            run.source.delete(KeyRef::named(name));
            run.follows_within(AT_ONCE).await;
        }
        run.change().await;
        run.source.disconnect();
        run.source.delete(KeyRef::named("a"));
        run.source.compact();
        run.follows_within(3 * SECOND).await;
        run.change().await;
        run.stop().await;
    }
}

/// ark, kcp: each watch repeats the objects at or below the version of its start.
// contract: R-17g, I-03
#[tokio::test(start_paused = true)]
async fn watches_that_repeat_all_objects() {
    for queue in QUEUES {
        let mut run = Run::start(Versions::Replayed, queue).await;
        for _ in 0..3 {
            run.change().await;
            run.source.disconnect();
            sleep(SECOND).await;
        }
        assert_eq!((run.metrics().versions_went_back, run.metrics().lists), (0, 1));
        assert_eq!(run.seen.texts().iter().filter(|text| text.ends_with("b 1 initial")).count(), 1);
        assert_eq!(run.seen.texts().iter().filter(|text| text.contains(" b ")).count(), 1);
        run.stop().await;
    }
}

/// A deletion has the version of the object's last update.
// contract: R-17g, I-03
#[tokio::test(start_paused = true)]
async fn deletions_with_the_last_version() {
    for queue in QUEUES {
        let mut run = Run::start(Versions::LastUpdate, queue).await;
        run.change().await;
        run.source.disconnect();
        sleep(SECOND).await;
        for name in ["b", "a", "c"] {
            run.source.delete(KeyRef::named(name));
            run.follows_within(AT_ONCE).await;
        }
        run.change().await;
        assert_eq!((run.metrics().versions_went_back, run.metrics().lists), (0, 1));
        run.stop().await;
    }
}

/// All lists and objects are at one version. After an error only a list has the missed deletions.
// contract: R-17j, I-03
#[tokio::test(start_paused = true)]
async fn constant_version() {
    for queue in QUEUES {
        let mut run = Run::start(Versions::Constant, queue).await;
        run.change().await;
        run.source.break_watches(broken);
        run.source.delete(KeyRef::named("b"));
        run.follows_within(2 * SECOND).await;
        run.change().await;
        assert_eq!(run.metrics().versions_went_back, 0);
        run.stop().await;
    }
}
