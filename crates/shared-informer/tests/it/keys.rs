//! Keys that are not `namespace/name`: custom strings, and objects of several clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{HOUR, QUEUES};
use kinformer_core::{Delta, KeyRef, Object, ObjectKey, Replacement, ResourceVersion, Tombstone};
use kinformer_delta_fifo::{DeltaFifo, Fifo, Heap, RealFifo};
use kinformer_processor::{Deleted, Event};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_store::{Adds, IndexFunction, Indexer, MutationCache, MutationCacheOptions, NAMESPACE_INDEX};
use kinformer_testing::FakeSource;
use kinformer_testing::fake_source::Versioned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Thing {
    key: ObjectKey,
    version: u64,
}

impl Object for Thing {
    fn key(&self) -> KeyRef<'_> {
        self.key.as_key()
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }
}

impl Versioned for Thing {
    fn set_version(&mut self, version: u64) {
        self.version = version;
    }
}

fn thing(key: KeyRef<'_>, version: u64) -> Thing {
    Thing { key: key.try_into().unwrap(), version }
}

/// A namespace and a name, and a custom string with the same text.
const PARTS: KeyRef<'static> = KeyRef::new("a", "b");
const TEXT: KeyRef<'static> = KeyRef::named("a/b");

fn namespaced(objects: [Thing; 2]) -> Indexer<Thing> {
    let indexer = Indexer::builder().index(NAMESPACE_INDEX, IndexFunction::by_namespace()).build().unwrap();
    objects.into_iter().for_each(|object| indexer.add(object).unwrap().into_result().unwrap());
    indexer
}

// contract: O-21b
#[test]
fn store_separates_parts_from_text() {
    let store = namespaced([thing(PARTS, 1), thing(TEXT, 2)]);
    assert_eq!(store.len(), 2);
    assert_eq!(store.get(PARTS).unwrap().version, 1);
    assert_eq!(store.get(TEXT).unwrap().version, 2);
    assert_eq!(store.index_keys(NAMESPACE_INDEX, "a").unwrap(), [ObjectKey::new("a", "b").unwrap()]);
    let before = store.snapshot();
    let ordered: Vec<_> = before.ordered().into_iter().map(|thing| thing.key()).collect();
    assert_eq!(ordered, [TEXT, PARTS], "a missing namespace is first");
    assert_eq!(store.delete_by_key(TEXT).unwrap().version, 2);
    assert!(store.contains(PARTS) && !store.contains(TEXT));
    assert_eq!((before.get(PARTS).unwrap().version, before.get(TEXT).unwrap().version), (1, 2));
    let list = Replacement::new(vec![Arc::new(thing(TEXT, 3))], 3);
    store.replace(list).unwrap().into_result().unwrap();
    assert!(store.contains(TEXT) && !store.contains(PARTS));
}

// contract: O-21c
#[test]
fn queues_separate_parts_from_text() {
    let known = Arc::new(namespaced([thing(PARTS, 1), thing(TEXT, 2)]));
    let list = || Replacement::new(vec![Arc::new(thing(PARTS, 3))], 3);

    let delta = DeltaFifo::builder().known_objects(known.clone()).build();
    delta.add(thing(PARTS, 1)).unwrap().into_result().unwrap();
    delta.add(thing(TEXT, 2)).unwrap().into_result().unwrap();
    assert_eq!((delta.get_by_key(PARTS).len(), delta.get_by_key(TEXT).len()), (1, 1));
    delta.replace(list()).unwrap().into_result().unwrap();
    for (key, deleted) in [(PARTS, false), (TEXT, true)] {
        let popped = delta.try_pop().unwrap().unwrap();
        let last = popped.deltas().last().unwrap();
        assert!(popped.deltas().iter().all(|delta| delta.key() == Some(key)));
        assert_eq!(matches!(last, Delta::Deleted(_)), deleted, "{key:?}");
    }

    let real = RealFifo::builder().known_objects(known).build();
    real.add(thing(PARTS, 1)).unwrap().into_result().unwrap();
    real.add(thing(TEXT, 2)).unwrap().into_result().unwrap();
    let batch = real.try_pop_batch(3).unwrap().unwrap();
    assert_eq!(batch.deltas().len(), 2, "a batch ends at a repeated key");

    let fifo = Fifo::new();
    fifo.add(thing(PARTS, 1)).unwrap();
    fifo.add(thing(TEXT, 2)).unwrap();
    assert_eq!(fifo.get_by_key(PARTS).unwrap().version, 1);
    assert_eq!(fifo.get_by_key(TEXT).unwrap().version, 2);

    let heap = Heap::new(|thing: &Thing| thing.version);
    heap.add(thing(PARTS, 1)).unwrap();
    heap.add(thing(TEXT, 2)).unwrap();
    assert_eq!(heap.delete(TEXT).unwrap().unwrap().version, 2);
    assert_eq!(heap.get_by_key(PARTS).unwrap().version, 1);
}

// contract: O-21d
#[test]
fn mutation_cache_separates_parts_from_text() {
    let store = namespaced([thing(PARTS, 1), thing(KeyRef::named("c"), 1)]);
    let options = MutationCacheOptions::default().adds(Adds::Show);
    let cache = MutationCache::with_options(store.reader(), options);
    cache.mutation(thing(TEXT, 9)).unwrap();
    assert_eq!(cache.get(PARTS).unwrap().version, 1);
    assert_eq!(cache.get(TEXT).unwrap().version, 9);
    assert_eq!(cache.list().len(), 3);
    cache.on_delete(&thing(PARTS, 9));
    assert_eq!(cache.get(TEXT).unwrap().version, 9);
}

/// The objects of a handler, and the keys of the tombstones of missed deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    objects: BTreeMap<ObjectKey, u64>,
    missed: Vec<ObjectKey>,
}

struct Informer {
    source: FakeSource<Thing>,
    informer: SharedIndexInformer<Thing>,
    known: watch::Receiver<Known>,
    cancel: CancellationToken,
}

impl Informer {
    async fn start(queue: QueueKind, keys: &[KeyRef<'_>]) -> Self {
        let source = FakeSource::new();
        keys.iter().for_each(|key| _ = source.apply(thing(*key, 0)));
        let informer = SharedIndexInformer::builder(source.clone()).queue(queue);
        let informer = informer.index(NAMESPACE_INDEX, IndexFunction::by_namespace()).build().unwrap();
        let (send, known) = watch::channel(Known::default());
        let handler = informer.handler().for_each(move |event: &Event<Arc<Thing>>| {
            send.send_modify(|known| {
                let key = ObjectKey::try_from(event.key()).unwrap();
                if let Event::Deleted(Deleted { tombstone, .. }) = event {
                    assert!(known.objects.remove(&key).is_some(), "{key:?} was not known");
                    if let Tombstone::FinalStateUnknown(missed) = tombstone {
                        known.missed.push(missed.key.clone());
                    }
                } else {
                    known.objects.insert(key, event.object().unwrap().version);
                }
            });
        });
        handler.unwrap();
        let cancel = CancellationToken::new();
        drop(informer.spawn(cancel.clone()));
        let this = Self { source, informer, known, cancel };
        this.wait_until_equal().await;
        this
    }

    /// Waits until the handler and the store have the objects of the source.
    async fn wait_until_equal(&self) {
        let expected: BTreeMap<ObjectKey, u64> =
            self.source.decodable().into_iter().map(|(key, thing)| (key, thing.version)).collect();
        let mut known = self.known.clone();
        let found = tokio::time::timeout(HOUR, known.wait_for(|known| known.objects == expected)).await;
        assert!(found.is_ok(), "timed out: expected {expected:?}, got {:?}", self.known.borrow());
        let snapshot = self.informer.snapshot();
        assert_eq!(snapshot.len(), expected.len());
        for (key, version) in &expected {
            assert_eq!(snapshot.get(key).unwrap().version, *version, "{key:?}");
        }
        let keys: Vec<_> = snapshot.ordered().into_iter().map(|thing| thing.key.clone()).collect();
        assert_eq!(keys, expected.into_keys().collect::<Vec<_>>());
    }

    /// Updates and deletes one object, then deletes another one where the informer cannot see it.
    async fn changes(&self, seen: KeyRef<'_>, missed: KeyRef<'_>) {
        self.source.apply(thing(seen, 0));
        self.wait_until_equal().await;
        self.source.delete(seen);
        self.wait_until_equal().await;
        assert!(self.known.borrow().missed.is_empty());
        self.source.disconnect();
        self.source.delete(missed);
        self.source.compact();
        self.wait_until_equal().await;
        assert_eq!(self.known.borrow().missed, [ObjectKey::try_from(missed).unwrap()]);
        assert!(!self.informer.snapshot().contains(missed));
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

// contract: O-22a, O-22b
#[tokio::test(start_paused = true)]
async fn informer_accepts_paths_urls_and_s3_keys() {
    let keys = [
        "/etc/hosts",
        "/etc/",
        "relative/../path with spaces",
        "C:\\windows",
        "https://example.com/a/b?c=d&e=f#g",
        "s3://bucket/logs/2026/11/22//part-0",
        "a/b",
        "|",
        "Größe/ß",
    ]
    .map(KeyRef::named);
    for queue in QUEUES {
        let informer = Informer::start(queue, &keys).await;
        informer.changes(KeyRef::named("/etc/"), KeyRef::named("s3://bucket/logs/2026/11/22//part-0")).await;
        assert!(informer.informer.snapshot().contains(KeyRef::named("/etc/hosts")));
        assert!(!informer.informer.snapshot().contains(("a", "b")));
    }
}

// contract: O-21e
#[tokio::test(start_paused = true)]
async fn informer_separates_parts_from_text() {
    for queue in QUEUES {
        for (seen, missed) in [(PARTS, TEXT), (TEXT, PARTS)] {
            let informer = Informer::start(queue, &[PARTS, TEXT, KeyRef::named("c")]).await;
            informer.changes(seen, missed).await;
        }
        let informer = Informer::start(queue, &[PARTS, TEXT]).await;
        informer.source.delete(TEXT);
        informer.wait_until_equal().await;
        assert!(informer.informer.snapshot().contains(PARTS));
    }
}

// contract: O-23a
#[tokio::test(start_paused = true)]
async fn two_clusters_share_a_store() {
    let (east, west) = (PARTS.in_cluster("east"), PARTS.in_cluster("west"));
    for queue in QUEUES {
        let informer =
            Informer::start(queue, &[west, east, PARTS, KeyRef::named("b").in_cluster("east")]).await;
        let snapshot = informer.informer.snapshot();
        let mut keys = snapshot.index_keys(NAMESPACE_INDEX, "a").unwrap();
        keys.sort();
        assert_eq!(keys, [PARTS, east, west].map(|key| ObjectKey::try_from(key).unwrap()));
        let ordered: Vec<_> = snapshot.ordered_in("a").into_iter().map(|thing| thing.key()).collect();
        assert_eq!(ordered, [PARTS, east, west]);
        informer.changes(east, west).await;
        let snapshot = informer.informer.snapshot();
        assert!(snapshot.contains(PARTS) && !snapshot.contains(east) && !snapshot.contains(west));
        assert_eq!(snapshot.len(), 2);
    }
}
