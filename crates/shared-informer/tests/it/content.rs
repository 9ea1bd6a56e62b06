//! Content that changes although the version does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{HOUR, QUEUES};
use async_trait::async_trait;
use futures::StreamExt as _;
use kinformer_core::{KeyRef, Object, PartId, ResourceVersion, Transform};
use kinformer_processor::{Added, Buffer, Event, Updated};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchListMode, WatchListSupport, WatchOptions,
    WatchStream,
};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a type knows of its objects.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Knows {
    /// UIDs, and whether two states are equal.
    Everything,
    Uid,
    Content,
}

#[derive(Clone, Debug, PartialEq)]
struct Thing {
    item: Item,
    version: u64,
    uid: String,
    knows: Knows,
}

impl Object for Thing {
    fn key(&self) -> KeyRef<'_> {
        self.item.key()
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }

    fn uid(&self) -> Option<&str> {
        (self.knows != Knows::Content).then_some(&self.uid)
    }

    fn has_same_content(&self, other: &Self) -> Option<bool> {
        (self.knows != Knows::Uid).then_some(self.item.value == other.item.value)
    }
}

/// A server that reads what it has stored in its own way.
#[derive(Clone)]
struct Source {
    items: FakeSource<Item>,
    /// Added to the values of objects whose names begin with `defaulted`.
    default: Arc<AtomicU64>,
    knows: Knows,
}

impl Source {
    /// Objects that begin with `twice` have two writes at one version, those with `reborn` another UID with each write.
    fn thing(&self, item: &Item) -> Arc<Thing> {
        let (mut item, knows) = (item.clone(), self.knows);
        let version = item.version;
        let shared = item.name.starts_with("twice") || item.name.starts_with("reborn");
        let version = if shared { version.next_multiple_of(2) } else { version };
        let uid = if item.name.starts_with("reborn") { item.version } else { 0 }.to_string();
        if item.name.starts_with("defaulted") {
            item.value += self.default.load(Ordering::Relaxed);
        }
        Arc::new(Thing { item, version, uid, knows })
    }
}

#[async_trait]
impl ListerWatcher<Thing> for Source {
    async fn list(&self, options: ListOptions<Thing>) -> Result<List<Thing>, SourceError> {
        let list = self.items.list(options.retyped()).await?;
        let objects: Vec<_> = list.objects.iter().map(|item| options.exchange(self.thing(item))).collect();
        Ok(List::new(objects, list.resource_version))
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Thing>, SourceError> {
        let (events, source) = (self.items.watch(options).await?, self.clone());
        let events = events.map(move |event| {
            Ok(match event? {
                WatchEvent::Added(item) => WatchEvent::Added(source.thing(&item)),
                WatchEvent::Modified(item) => WatchEvent::Modified(source.thing(&item)),
                WatchEvent::Deleted(item) => WatchEvent::Deleted(source.thing(&item)),
                WatchEvent::Bookmark { version, initial_events_end: true } => {
                    WatchEvent::initial_events_end(version)
                }
                WatchEvent::Bookmark { version, .. } => WatchEvent::bookmark(version),
                other => panic!("{other:?}"),
            })
        });
        Ok(events.boxed())
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.items.watch_list_support()
    }
}

struct Running {
    source: Source,
    informer: SharedIndexInformer<Thing>,
    told: [Arc<Mutex<Vec<String>>>; 2],
    cancel: CancellationToken,
    task: JoinHandle<Result<(), kinformer_shared_informer::Error>>,
}

impl Running {
    async fn start(queue: QueueKind, mode: WatchListMode, knows: Knows, transformed: bool) -> Self {
        let source = Source { items: FakeSource::new(), default: Arc::default(), knows };
        for name in ["defaulted-1", "defaulted-2", "plain-1", "plain-2"] {
            source.items.apply(Item::of(name, 0, 1));
        }
        let mut builder = SharedIndexInformer::builder(source.clone())
            .queue(queue)
            .reflector(move |options| options.watch_list(mode));
        if transformed {
            builder = builder.transform(Transform::new(Ok));
        }
        let informer = builder.build().unwrap();
        let told: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
        for (told, buffer) in told.iter().zip([Buffer::EveryEvent, Buffer::Coalesced]) {
            let told = told.clone();
            let hear = move |event: &Event<Arc<Thing>>| {
                let value = |thing: &Thing| format!("{} {}", thing.item.name, thing.item.value);
                told.lock().push(match event {
                    Event::Added(Added { object, .. }) => format!("add {}", value(object)),
                    Event::Updated(Updated { old, new, .. }) => {
                        format!("update {} {}", value(old), new.item.value)
                    }
                    Event::Deleted(_) => "delete".into(),
                    _ => unreachable!("not known to this test"),
                });
            };
            informer.handler().buffer(buffer).inline().for_each(hear).unwrap();
        }
        let cancel = CancellationToken::new();
        let task = informer.spawn(cancel.clone());
        informer.wait_for_sync_until(Instant::now() + HOUR).await.unwrap();
        let running = Self { source, informer, told, cancel, task };
        running.settle().await;
        running.told.iter().for_each(|told| told.lock().clear());
        running
    }

    /// Everything written so far has been delivered.
    async fn settle(&self) {
        let version = self.source.items.version();
        self.informer.wait_for_until(PartId::ONLY, &version.into(), Instant::now() + HOUR).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    async fn relist(&self) {
        self.source.items.break_watches(|| SourceError::expired("compacted"));
        self.source.items.tick();
        self.source.items.compact();
        self.settle().await;
    }

    /// What the handlers were told since the last call, all alike.
    fn told(&self) -> Vec<String> {
        let [every, coalesced] = self.told.clone().map(|told| {
            let mut told = std::mem::take(&mut *told.lock());
            told.sort();
            told
        });
        assert_eq!(every, coalesced);
        every
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Objects without UIDs are not kept by a relist; then the versions are compared when they are stored.
// contract: I-06, I-10, I-14, P-03
#[tokio::test(start_paused = true)]
async fn content_that_changed_at_its_version_is_delivered_by_a_relist() {
    for (queue, mode) in
        QUEUES.into_iter().flat_map(|q| [(q, WatchListMode::Always), (q, WatchListMode::Off)])
    {
        for (knows, transformed) in
            [(Knows::Everything, false), (Knows::Everything, true), (Knows::Content, false)]
        {
            let running = Running::start(queue, mode, knows, transformed).await;
            let before = running.informer.snapshot();
            running.source.default.store(10, Ordering::Relaxed);
            running.relist().await;
            assert_eq!(running.informer.metrics().reflector.relists, 1);
            let told = running.told();
            assert_eq!(
                told,
                ["update defaulted-1 1 11", "update defaulted-2 1 11"],
                "{queue:?} {mode:?} {knows:?}"
            );
            let after = running.informer.snapshot();
            let kept = |name: &str| {
                Arc::ptr_eq(before.get(KeyRef::named(name)).unwrap(), after.get(KeyRef::named(name)).unwrap())
            };
            assert_eq!(after.get(KeyRef::named("defaulted-1")).unwrap().item.value, 11);
            let keeps = knows == Knows::Everything && !transformed;
            assert_eq!((kept("plain-1"), kept("plain-2")), (keeps, keeps), "{queue:?} {mode:?} {knows:?}");
            running.relist().await;
            assert_eq!(running.told(), Vec::<String>::new(), "nothing has changed");
            running.stop().await;
        }
    }
}

/// Of a type that does not know it, a version is taken at its word.
// contract: I-14
#[tokio::test(start_paused = true)]
async fn what_cannot_be_compared_is_the_same_at_its_version() {
    for queue in QUEUES {
        let running = Running::start(queue, WatchListMode::Off, Knows::Uid, false).await;
        running.source.default.store(10, Ordering::Relaxed);
        running.relist().await;
        assert_eq!(running.told(), Vec::<String>::new(), "{queue:?}");
        assert_eq!(running.informer.get(KeyRef::named("defaulted-1")).unwrap().item.value, 1);
        running.stop().await;
    }
}

// contract: I-14, P-03
#[tokio::test(start_paused = true)]
async fn two_writes_at_one_version_are_two_events() {
    for queue in QUEUES {
        for knows in [Knows::Everything, Knows::Content, Knows::Uid] {
            let running = Running::start(queue, WatchListMode::Off, knows, false).await;
            let items = &running.source.items;
            let mut versions = Vec::new();
            for value in [1, 2] {
                if value == 1 && !items.version().is_multiple_of(2) {
                    items.tick();
                }
                items.apply(Item::of("twice", 0, value));
                running.settle().await;
                versions.push(running.informer.get(KeyRef::named("twice")).unwrap().version);
            }
            assert_eq!(versions[0], versions[1]);
            assert_eq!(running.told(), ["add twice 1", "update twice 1 2"], "{queue:?} {knows:?}");
            running.stop().await;
        }
    }
}

// contract: I-14, O-02b, P-03
#[tokio::test(start_paused = true)]
async fn another_uid_at_one_version_is_an_event() {
    for (queue, mode) in
        QUEUES.into_iter().flat_map(|q| [(q, WatchListMode::Always), (q, WatchListMode::Off)])
    {
        for relists in [false, true] {
            let running = Running::start(queue, mode, Knows::Everything, false).await;
            let items = &running.source.items;
            if !items.version().is_multiple_of(2) {
                items.tick();
            }
            items.apply(Item::of("reborn", 0, 1));
            running.settle().await;
            let first = running.informer.get(KeyRef::named("reborn")).unwrap();
            if relists {
                items.break_watches(|| SourceError::expired("compacted"));
            }
            items.apply(Item::of("reborn", 0, 1));
            if relists {
                items.compact();
            }
            running.settle().await;
            let second = running.informer.get(KeyRef::named("reborn")).unwrap();
            assert_eq!(first.version, second.version);
            assert_ne!(first.uid, second.uid, "{queue:?} {mode:?} {relists}");
            assert_eq!(running.told(), ["add reborn 1", "update reborn 1 1"], "{queue:?} {mode:?} {relists}");
            running.stop().await;
        }
    }
}
