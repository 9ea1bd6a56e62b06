//! Lists whose objects are mostly known already.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use kinformer_core::{KeyRef, Object, PartId, ResourceVersion, Transform};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchListMode, WatchListSupport, WatchOptions,
    WatchStream,
};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer, SharedIndexInformerBuilder};
use kinformer_testing::fake_source::Versioned;
use kinformer_testing::{FakeSource, Item};
use tokio_util::sync::CancellationToken;

const MANY: usize = 100;

/// An object that counts the living objects and their maximum.
#[derive(Debug)]
struct Thing {
    item: Item,
    uid: Option<String>,
    alive: Arc<Alive>,
}

#[derive(Debug, Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Alive {
    fn one_more(self: &Arc<Self>) -> Arc<Self> {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        self.clone()
    }
}

impl Clone for Thing {
    fn clone(&self) -> Self {
        Self { item: self.item.clone(), uid: self.uid.clone(), alive: self.alive.one_more() }
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.alive.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Object for Thing {
    fn key(&self) -> KeyRef<'_> {
        self.item.key()
    }

    fn resource_version(&self) -> ResourceVersion {
        self.item.resource_version()
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }
}

impl Versioned for Thing {
    fn set_version(&mut self, version: u64) {
        self.item.set_version(version);
    }
}

/// Returns a new copy of each object every time, as a decoder does.
#[derive(Clone)]
struct Fresh {
    source: FakeSource<Thing>,
    exchanges: bool,
}

impl Fresh {
    fn exchanged(&self, object: Arc<Thing>, options: &ListOptions<Thing>) -> Arc<Thing> {
        if self.exchanges { options.exchange(object) } else { object }
    }
}

fn fresh(object: &Arc<Thing>) -> Arc<Thing> {
    Arc::new(Thing::clone(object))
}

#[async_trait]
impl ListerWatcher<Thing> for Fresh {
    async fn list(&self, options: ListOptions<Thing>) -> Result<List<Thing>, SourceError> {
        let mut list = self.source.list(options.retyped()).await?;
        list.objects = list.objects.iter().map(|object| self.exchanged(fresh(object), &options)).collect();
        Ok(list)
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Thing>, SourceError> {
        let events = self.source.watch(options).await?;
        let events = events.map(|event| match event {
            Ok(WatchEvent::Added(object)) => Ok(WatchEvent::Added(fresh(&object))),
            Ok(WatchEvent::Modified(object)) => Ok(WatchEvent::Modified(fresh(&object))),
            event => event,
        });
        Ok(events.boxed())
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.source.watch_list_support()
    }
}

fn thing(name: &str, uid: Option<&str>, alive: &Arc<Alive>) -> Thing {
    let uid = uid.map(str::to_owned);
    Thing { item: Item::of(name, 0, 1), uid, alive: alive.one_more() }
}

type Build = fn(SharedIndexInformerBuilder<Thing>) -> SharedIndexInformerBuilder<Thing>;

/// Returns how many objects a relist has reused, and how many were alive at most.
async fn relisted(
    exchanges: bool,
    queue: QueueKind,
    mode: WatchListMode,
    uid: Option<&str>,
    build: Build,
) -> (usize, usize) {
    let (source, alive) = (FakeSource::new(), Arc::new(Alive::default()));
    for n in 0..MANY {
        source.apply(thing(&format!("thing-{n}"), uid, &alive));
    }
    let builder = SharedIndexInformer::builder(Fresh { source: source.clone(), exchanges }).queue(queue);
    let informer = build(builder.reflector(move |options| options.watch_list(mode))).build().unwrap();
    let cancel = CancellationToken::new();
    let task = informer.spawn(cancel.clone());
    informer.wait_for_sync().await.unwrap();
    let before = informer.snapshot();
    alive.most.store(0, Ordering::Relaxed);
    source.break_watches(|| SourceError::expired("compacted"));
    source.delete(KeyRef::named("thing-1"));
    source.apply(thing("thing-1", Some("another"), &alive));
    let last = source.apply(thing("thing-2", uid, &alive));
    source.compact();
    informer.wait_for(PartId::ONLY, &last.into()).await.unwrap();
    let most = alive.most.load(Ordering::Relaxed);
    assert_eq!(informer.metrics().reflector.relists, 1);
    let after = informer.snapshot();
    assert_eq!(after.len(), MANY);
    assert_eq!(after.get(KeyRef::named("thing-1")).unwrap().uid(), Some("another"));
    assert_eq!(after.get(KeyRef::named("thing-2")).unwrap().resource_version(), last.into());
    let same = before.iter().filter(|old| Arc::ptr_eq(after.get(old.key()).unwrap(), old)).count();
    cancel.cancel();
    task.await.unwrap().unwrap();
    (same, most)
}

/// A relist reuses unchanged objects and takes no memory for them.
// contract: I-10a, I-10b
#[tokio::test(start_paused = true)]
async fn relist_reuses_unchanged_objects() {
    for queue in crate::common::QUEUES {
        for mode in [WatchListMode::Always, WatchListMode::Off] {
            let (same, most) = relisted(true, queue, mode, Some("u"), |builder| builder).await;
            assert_eq!(same, MANY - 2, "{queue:?} {mode:?}");
            // Those of the server, those of the store, two changed ones, and one that is being compared.
            assert!(most <= 2 * MANY + 10, "{queue:?} {mode:?}: {most}");
        }
    }
}

/// Objects without UIDs are not reused, nor are transformed objects whose content cannot be compared.
// contract: I-10a, I-10c
#[tokio::test(start_paused = true)]
async fn unidentified_objects_are_not_reused() {
    for mode in [WatchListMode::Always, WatchListMode::Off] {
        let (same, _) = relisted(true, QueueKind::RealFifo, mode, None, |builder| builder).await;
        assert_eq!(same, 0, "without a UID, an equal version proves nothing: {mode:?}");
        // The content of these objects cannot be compared, and a transform may return another one at the same version.
        let transform: Build = |builder| builder.transform(Transform::new(|thing| Ok(fresh(&thing))));
        assert_eq!(relisted(true, QueueKind::RealFifo, mode, Some("u"), transform).await.0, 0, "{mode:?}");
    }
}

// contract: I-10a, I-18
#[tokio::test(start_paused = true)]
async fn source_without_exchange_is_listed_correctly() {
    let (same, most) =
        relisted(false, QueueKind::RealFifo, WatchListMode::Off, Some("u"), |builder| builder).await;
    assert_eq!(same, MANY - 2);
    // Its list is held in addition to the store until it is stored.
    assert!(most > 2 * MANY + 10 && most <= 3 * MANY + 10, "{most}");
}
