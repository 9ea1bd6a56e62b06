//! Versions that go back, as store and handlers see it.

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

/// What a handler makes of its events, whatever their versions are.
#[derive(Clone)]
struct Heard(Arc<watch::Sender<Map>>);

impl Heard {
    fn of(informer: &SharedIndexInformer<Item>) -> Self {
        let heard = Self(Arc::new(watch::Sender::new(Map::new())));
        let map = heard.0.clone();
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
        heard
    }

    async fn equals(&self, source: &FakeSource<Item>) {
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
) -> (SharedIndexInformer<Item>, Heard, Running) {
    let informer = SharedIndexInformer::builder(source.clone())
        .name("items")
        .queue(queue)
        .reflector(|options| options.watch_list(mode))
        .build()
        .unwrap();
    let heard = Heard::of(&informer);
    let running = Running::start(informer.clone()).await;
    let reflector = informer.part(PartId::ONLY).unwrap().reflector().clone();
    reflector.state_where(|state| matches!(state, ReflectorState::Watching { .. })).await;
    (informer, heard, running)
}

fn source() -> FakeSource<Item> {
    let source = FakeSource::new().accept_future_versions();
    for name in ["a", "b", "c"] {
        source.apply(Item::of(name, 0, 1));
    }
    source
}

// contract, I-03
#[tokio::test(start_paused = true)]
async fn after_one_absurd_version_store_and_handlers_end_up_as_the_server() {
    for queue in QUEUES {
        for mode in MODES {
            let source = source();
            let (informer, heard, running) = informer(&source, queue, mode).await;
            source.misreport_next_version(99_999_999_999);
            source.apply(Item::of("a", 0, 2));
            source.apply(Item::of("b", 0, 2));
            tokio::time::sleep(Duration::from_secs(1)).await;
            source.disconnect();
            tokio::time::sleep(Duration::from_secs(1)).await;
            // The next watch, from the absurd version, brings none of it.
            source.delete(KeyRef::named("c"));
            source.apply(Item::of("d", 0, 1));
            heard.equals(&source).await;
            assert_eq!(stored(&informer), server(&source), "{queue:?} {mode:?}");
            assert_eq!(informer.metrics().reflector.versions_went_back, 1);
            source.apply(Item::of("e", 0, 1));
            heard.equals(&source).await;
            running.stop().await.unwrap();
        }
    }
}

// contract, I-03
#[tokio::test(start_paused = true)]
async fn after_the_restore_of_an_older_state_store_and_handlers_end_up_as_the_server() {
    for queue in QUEUES {
        for mode in MODES {
            let source = source();
            let (informer, heard, running) = informer(&source, queue, mode).await;
            let backup = source.backup();
            source.apply(Item::of("a", 0, 2));
            source.apply(Item::of("after-the-backup", 0, 1));
            source.delete(KeyRef::named("b"));
            heard.equals(&source).await;
            source.restore(&backup);
            heard.equals(&source).await;
            assert_eq!(stored(&informer), server(&source), "{queue:?} {mode:?}");
            informer.wait_for(PartId::ONLY, &source.version().into()).await.unwrap();
            assert_eq!(
                informer.metrics().resource_versions.lowest(),
                source.version().into(),
                "{queue:?} {mode:?}"
            );
            assert_eq!(informer.metrics().reflector.versions_went_back, 1);
            // Also what is written at versions that were seen in the state before.
            source.apply(Item::of("a", 0, 3));
            source.delete(KeyRef::named("c"));
            heard.equals(&source).await;
            assert_eq!(stored(&informer), server(&source), "{queue:?} {mode:?}");
            running.stop().await.unwrap();
        }
    }
}

// contract: R-02, I-05
#[test]
fn a_runtime_that_is_dropped_during_a_relist_leaves_the_store_as_it_was() {
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
