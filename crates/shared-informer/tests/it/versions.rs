//! Versions that go back: the store and the handlers still follow the server.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{HOUR, Map, QUEUES, Running, server, stored};
use kinformer_core::{KeyRef, PartId};
use kinformer_processor::{Added, Event, Updated};
use kinformer_reflector::{List, ReflectorState, SourceError, StopReason, WatchListMode};
use kinformer_shared_informer::{Phase, QueueKind, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item, ScriptedSource};
use tokio::sync::watch;

const MODES: [WatchListMode; 2] = [WatchListMode::Auto, WatchListMode::Off];

/// The objects of a handler, independent of their versions.
#[derive(Clone)]
struct Received(Arc<watch::Sender<Map>>);

impl Received {
    fn of(informer: &SharedIndexInformer<Item>) -> Self {
        let received = Self(Arc::new(watch::Sender::new(Map::new())));
        let map = received.0.clone();
        let apply = move |event: &Event<Arc<Item>>| {
            let key = event.key().to_string();
            map.send_modify(|map| match event {
                Event::Added(Added { object, .. }) => {
                    assert!(map.insert(key, (**object).clone()).is_none(), "{event:?}");
                }
                Event::Updated(Updated { old, new, .. }) => {
                    assert_eq!(map.insert(key, (**new).clone()).as_ref(), Some(&**old));
                }
                Event::Deleted(_) => assert!(map.remove(&key).is_some(), "{event:?}"),
                _ => unreachable!("not known to this test"),
            });
        };
        informer.handler().inline().for_each(apply).unwrap();
        received
    }

    async fn wait_until_equal(&self, source: &FakeSource<Item>) {
        let mut map = self.0.subscribe();
        let wanted = server(source);
        let found = tokio::time::timeout(HOUR, map.wait_for(|map| *map == wanted)).await.is_ok();
        assert!(found, "{:#?} and not {wanted:#?}", self.0.borrow().clone());
    }
}

async fn informer(
    source: &FakeSource<Item>,
    queue: QueueKind,
    mode: WatchListMode,
) -> (SharedIndexInformer<Item>, Received, Running) {
    let informer = SharedIndexInformer::builder(source.clone())
        .name("items")
        .queue(queue)
        .reflector(|options| options.watch_list(mode))
        .build()
        .unwrap();
    let received = Received::of(&informer);
    let running = Running::start(informer.clone()).await;
    let reflector = informer.part(PartId::ONLY).unwrap().reflector().clone();
    reflector.state_where(|state| matches!(state, ReflectorState::Watching { .. })).await;
    (informer, received, running)
}

fn source() -> FakeSource<Item> {
    let source = FakeSource::new().accept_future_versions();
    for name in ["a", "b", "c"] {
        source.apply(Item::of(name, 0, 1));
    }
    source
}

/// The store and the handlers end up equal to the server.
// contract: R-17d, R-17e, R-18e, I-03
#[tokio::test(start_paused = true)]
async fn recovers_from_one_absurd_version() {
    for queue in QUEUES {
        for mode in MODES {
            let source = source();
            let (informer, received, running) = informer(&source, queue, mode).await;
            source.misreport_next_version(99_999_999_999);
            source.apply(Item::of("a", 0, 2));
            source.apply(Item::of("b", 0, 2));
            tokio::time::sleep(Duration::from_secs(1)).await;
            source.disconnect();
            tokio::time::sleep(Duration::from_secs(1)).await;
            // The next watch, from the absurd version, delivers neither.
            source.delete(KeyRef::named("c"));
            source.apply(Item::of("d", 0, 1));
            received.wait_until_equal(&source).await;
            assert_eq!(stored(&informer), server(&source), "{queue:?} {mode:?}");
            assert_eq!(informer.metrics().reflector.versions_went_back, 1);
            source.apply(Item::of("e", 0, 1));
            received.wait_until_equal(&source).await;
            running.stop().await.unwrap();
        }
    }
}

/// The store and the handlers end up equal to the server.
// contract: R-17d, R-17e, R-18e, I-03
#[tokio::test(start_paused = true)]
async fn recovers_from_the_restore_of_a_backup() {
    for queue in QUEUES {
        for mode in MODES {
            let source = source();
            let (informer, received, running) = informer(&source, queue, mode).await;
            let backup = source.backup();
            source.apply(Item::of("a", 0, 2));
            source.apply(Item::of("after-the-backup", 0, 1));
            source.delete(KeyRef::named("b"));
            received.wait_until_equal(&source).await;
            source.restore(&backup);
            received.wait_until_equal(&source).await;
            assert_eq!(stored(&informer), server(&source), "{queue:?} {mode:?}");
            informer.wait_for(PartId::ONLY, &source.version().into()).await.unwrap();
            assert_eq!(
                informer.metrics().resource_versions.lowest(),
                source.version().into(),
                "{queue:?} {mode:?}"
            );
            assert_eq!(informer.metrics().reflector.versions_went_back, 1);
            // Also after writes at versions that were used before the restore.
            source.apply(Item::of("a", 0, 3));
            source.delete(KeyRef::named("c"));
            received.wait_until_equal(&source).await;
            assert_eq!(stored(&informer), server(&source), "{queue:?} {mode:?}");
            running.stop().await.unwrap();
        }
    }
}

// contract: I-05a
#[test]
fn runtime_dropped_during_relist_keeps_the_store() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let first = List::new([Item::new("a", 1), Item::new("b", 2)], 7);
    let script = ScriptedSource::new().list(first).watch_error(SourceError::expired("compacted")).hang();
    let source = Arc::new(script);
    let informer = SharedIndexInformer::builder(source.clone()).build().unwrap();
    let before = runtime.block_on(async {
        let running = Running::start(informer.clone()).await;
        let before = stored(&informer);
        source.finished().await;
        drop(running.task);
        before
    });
    assert_eq!(source.texts()[2..], ["list 7"]);
    let reflector = informer.parts()[0].reflector().clone();
    assert!(matches!(reflector.state(), ReflectorState::Listing { .. }), "{:?}", reflector.state());
    drop(runtime);
    assert_eq!(reflector.state(), ReflectorState::Stopped(StopReason::Dropped));
    assert_eq!(informer.phase(), Phase::Stopped);
    assert_eq!((stored(&informer), before.len()), (before, 2));
}
