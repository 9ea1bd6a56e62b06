//! Content that changes while the version stays the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{HOUR, Mapped, OfItems, QUEUES};
use kinformer_core::{KeyRef, Object, PartId, ResourceVersion, Transform};
use kinformer_processor::{Added, Buffer, Event, Updated};
use kinformer_reflector::{SourceError, WatchListMode};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The comparisons that a type supports.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Compares {
    /// UIDs and content.
    Everything,
    Uid,
    Content,
}

#[derive(Clone, Debug, PartialEq)]
struct Thing {
    item: Item,
    version: u64,
    uid: String,
    compares: Compares,
}

impl Object for Thing {
    fn key(&self) -> KeyRef<'_> {
        self.item.key()
    }

    fn resource_version(&self) -> ResourceVersion {
        if self.item.name.starts_with("unversioned") { ResourceVersion::UNSET } else { self.version.into() }
    }

    fn uid(&self) -> Option<&str> {
        (self.compares != Compares::Content).then_some(&self.uid)
    }

    fn has_same_content(&self, other: &Self) -> Option<bool> {
        (self.compares != Compares::Uid).then_some(self.item.value == other.item.value)
    }
}

/// A server that may change stored objects when it reads them.
#[derive(Clone)]
struct Source {
    items: FakeSource<Item>,
    /// Added to the values of objects whose names begin with `defaulted`.
    default: Arc<AtomicU64>,
    compares: Compares,
}

impl OfItems for Source {
    type Thing = Thing;

    fn items(&self) -> &FakeSource<Item> {
        &self.items
    }

    /// Two writes have the same version if the name begins with `twice` or `reborn`. With `reborn`, each write also
    /// has another UID.
    fn thing(&self, item: &Item) -> Arc<Thing> {
        let (mut item, compares) = (item.clone(), self.compares);
        let version = item.version;
        let shared = item.name.starts_with("twice") || item.name.starts_with("reborn");
        let version = if shared { version.next_multiple_of(2) } else { version };
        let uid = if item.name.starts_with("reborn") { item.version } else { 0 }.to_string();
        if item.name.starts_with("defaulted") {
            item.value += self.default.load(Ordering::Relaxed);
        }
        Arc::new(Thing { item, version, uid, compares })
    }
}

struct Running {
    source: Source,
    informer: SharedIndexInformer<Thing>,
    events: [Arc<Mutex<Vec<String>>>; 2],
    cancel: CancellationToken,
    task: JoinHandle<Result<(), kinformer_shared_informer::Error>>,
}

impl Running {
    async fn start(queue: QueueKind, mode: WatchListMode, compares: Compares, transformed: bool) -> Self {
        let source = Source { items: FakeSource::new(), default: Arc::default(), compares };
        for name in ["defaulted-1", "defaulted-2", "plain-1", "plain-2"] {
            source.items.apply(Item::of(name, 0, 1));
        }
        let mut builder = SharedIndexInformer::builder(Mapped(source.clone()))
            .queue(queue)
            .reflector(move |options| options.watch_list(mode));
        if transformed {
            builder = builder.transform(Transform::new(Ok));
        }
        let informer = builder.build().unwrap();
        let events: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
        for (events, buffer) in events.iter().zip([Buffer::EveryEvent, Buffer::Coalesced]) {
            let events = events.clone();
            let record = move |event: &Event<Arc<Thing>>| {
                let value = |thing: &Thing| format!("{} {}", thing.item.name, thing.item.value);
                events.lock().push(match event {
                    Event::Added(Added { object, .. }) => format!("add {}", value(object)),
                    Event::Updated(Updated { old, new, .. }) => {
                        format!("update {} {}", value(old), new.item.value)
                    }
                    Event::Deleted(_) => "delete".into(),
                    _ => unreachable!("not known to this test"),
                });
            };
            informer.handler().buffer(buffer).inline().for_each(record).unwrap();
        }
        let cancel = CancellationToken::new();
        let task = informer.spawn(cancel.clone());
        informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap();
        let running = Self { source, informer, events, cancel, task };
        running.settle().await;
        running.events.iter().for_each(|events| events.lock().clear());
        running
    }

    /// Waits until all writes so far have been delivered.
    async fn settle(&self) {
        let version = self.source.items.version();
        self.informer.wait_for(PartId::ONLY, &version.into()).until(Instant::now() + HOUR).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    async fn relist(&self) {
        self.source.items.break_watches(|| SourceError::expired("compacted"));
        self.source.items.tick();
        self.source.items.compact();
        self.settle().await;
    }

    /// Returns the events since the last call, which are the same for both handlers.
    fn take_events(&self) -> Vec<String> {
        let [every, coalesced] = self.events.clone().map(|events| {
            let mut events = std::mem::take(&mut *events.lock());
            events.sort();
            events
        });
        assert_eq!(every, coalesced);
        every
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// A relist does not reuse objects without UIDs. Their versions are compared when they are stored.
// contract: I-06a, I-06d, I-10a, I-10c, I-14a, I-14e, P-03a
#[tokio::test(start_paused = true)]
async fn relist_delivers_new_content_at_one_version() {
    for (queue, mode) in
        QUEUES.into_iter().flat_map(|q| [(q, WatchListMode::Always), (q, WatchListMode::Off)])
    {
        for (compares, transformed) in
            [(Compares::Everything, false), (Compares::Everything, true), (Compares::Content, false)]
        {
            let running = Running::start(queue, mode, compares, transformed).await;
            let before = running.informer.snapshot();
            running.source.default.store(10, Ordering::Relaxed);
            running.relist().await;
            assert_eq!(running.informer.metrics().reflector.relists, 1);
            let events = running.take_events();
            assert_eq!(
                events,
                ["update defaulted-1 1 11", "update defaulted-2 1 11"],
                "{queue:?} {mode:?} {compares:?}"
            );
            let after = running.informer.snapshot();
            let is_reused = |name: &str| {
                Arc::ptr_eq(before.get(KeyRef::named(name)).unwrap(), after.get(KeyRef::named(name)).unwrap())
            };
            assert_eq!(after.get(KeyRef::named("defaulted-1")).unwrap().item.value, 11);
            let reuses = compares == Compares::Everything;
            assert_eq!(
                (is_reused("plain-1"), is_reused("plain-2")),
                (reuses, reuses),
                "{queue:?} {mode:?} {compares:?}"
            );
            running.relist().await;
            assert_eq!(running.take_events(), Vec::<String>::new(), "nothing has changed");
            running.stop().await;
        }
    }
}

/// An object without a version, such as the result of a transform, is compared by its UID and content. If it cannot
/// compare its content, it counts as changed.
// contract: I-06a, I-14i, P-03a
#[tokio::test(start_paused = true)]
async fn unversioned_object_is_compared_by_content() {
    for queue in QUEUES {
        for (compares, updates) in [
            (Compares::Everything, vec![]),
            (Compares::Content, vec![]),
            (Compares::Uid, vec!["update unversioned 1 1"]),
        ] {
            let running = Running::start(queue, WatchListMode::Off, compares, false).await;
            running.source.items.apply(Item::of("unversioned", 0, 1));
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(running.take_events(), ["add unversioned 1"]);
            running.relist().await;
            assert_eq!(running.take_events(), updates, "{queue:?} {compares:?}");
            running.source.items.apply(Item::of("unversioned", 0, 2));
            running.relist().await;
            assert!(running.take_events().contains(&"update unversioned 1 2".to_owned()), "{queue:?}");
            running.stop().await;
        }
    }
}

/// A type that cannot compare content is compared by version alone.
// contract: I-14g
#[tokio::test(start_paused = true)]
async fn same_version_without_content_is_unchanged() {
    for queue in QUEUES {
        let running = Running::start(queue, WatchListMode::Off, Compares::Uid, false).await;
        running.source.default.store(10, Ordering::Relaxed);
        running.relist().await;
        assert_eq!(running.take_events(), Vec::<String>::new(), "{queue:?}");
        assert_eq!(running.informer.get(KeyRef::named("defaulted-1")).unwrap().item.value, 1);
        running.stop().await;
    }
}

// contract: I-14a, I-14h
#[tokio::test(start_paused = true)]
async fn two_writes_at_one_version_are_two_events() {
    for queue in QUEUES {
        for compares in [Compares::Everything, Compares::Content, Compares::Uid] {
            let running = Running::start(queue, WatchListMode::Off, compares, false).await;
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
            assert_eq!(running.take_events(), ["add twice 1", "update twice 1 2"], "{queue:?} {compares:?}");
            running.stop().await;
        }
    }
}

// contract: I-14b, O-02b
#[tokio::test(start_paused = true)]
async fn new_uid_at_one_version_is_an_event() {
    for (queue, mode) in
        QUEUES.into_iter().flat_map(|q| [(q, WatchListMode::Always), (q, WatchListMode::Off)])
    {
        for relists in [false, true] {
            let running = Running::start(queue, mode, Compares::Everything, false).await;
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
            assert_eq!(
                running.take_events(),
                ["add reborn 1", "update reborn 1 1"],
                "{queue:?} {mode:?} {relists}"
            );
            running.stop().await;
        }
    }
}
