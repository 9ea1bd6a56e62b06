//! Informers of several parts, each with a source of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{HOUR, QUEUES, Running, Seen, stored};
use crate::parts_common::Gated;
use kinformer_core::{ByNamespace, KeyRef, Object as _, PartId, Partition, Parts, Transform};
use kinformer_delta_fifo::{Bound, DeltaFifo, Popped, Queue, RealFifo};
use kinformer_reflector::SourceError;
use kinformer_shared_informer::{
    Error, InformerLoop, Process, QueueKind, SharedIndexInformer, Sources, SyncProgress,
};
use kinformer_testing::{FakeSource, Item, tasks};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const A: PartId = PartId::new(0);
const B: PartId = PartId::new(1);

fn gated(names: &[&str]) -> Gated {
    let source = Gated::new();
    for name in names {
        source.server.apply(Item::of(name, 0, 1));
    }
    source
}

fn informer(a: &Gated, b: &Gated, queue: QueueKind) -> SharedIndexInformer<Item> {
    let sources = Sources::by_namespace([("a", a.clone()), ("b", b.clone())]);
    SharedIndexInformer::builder_of(sources).name("items").queue(queue).build().unwrap()
}

fn keys(informer: &SharedIndexInformer<Item>) -> Vec<String> {
    stored(informer).into_keys().collect()
}

fn record_events(informer: &SharedIndexInformer<Item>) -> Seen {
    let seen = Seen::default();
    let recorder = seen.clone();
    informer.handler().inline().for_each(move |event| recorder.record(event)).unwrap();
    seen
}

// contract: I-20a, I-20b
#[tokio::test(start_paused = true)]
async fn part_without_a_list_does_not_stop_others() {
    for queue in QUEUES {
        let (a, b) = (gated(&["a/1", "a/2"]), gated(&["b/1"]));
        b.forbidden.store(true, Ordering::Relaxed);
        let informer = informer(&a, &b, queue);
        let seen = Seen::default();
        let recorder = seen.clone();
        let registration = informer.handler().inline().for_each(move |event| recorder.record(event)).unwrap();
        let running = Running::start_only(informer.clone());
        seen.wait(|view| view.map.len() == 2).await;
        a.server.apply(Item::of("a/3", 0, 1));
        seen.wait(|view| view.map.len() == 3).await;
        let version = a.server.delete(KeyRef::new("a", "1"));
        informer.wait_for(A, &version.into()).await.unwrap();
        assert_eq!(keys(&informer), ["a/2", "a/3"], "{queue:?}");
        assert!(informer.snapshot().resource_versions().lowest().is_unset());

        let soon = Instant::now() + Duration::from_secs(100);
        let error = informer.wait_for_sync().until(soon).await.unwrap_err();
        let Error::NotSynced(not_synced) = &error else { panic!("{error}") };
        assert_eq!(not_synced.progress, SyncProgress::NoList { parts: vec!["b".into()] });
        assert!(not_synced.last_error.as_ref().unwrap().to_string().contains("not allowed"), "{error}");
        assert!(error.to_string().contains("no list yet of b"), "{error}");
        assert!(!informer.has_synced() && !registration.has_synced(), "{queue:?}");
        let parts = informer.parts();
        assert_eq!(parts.iter().map(|part| part.name()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(parts[0].reflector().is_synced() && parts[0].reflector().last_error().is_none());
        assert!(!parts[1].reflector().is_synced() && parts[1].reflector().last_error().is_some());

        // The last list completes the sync.
        b.forbidden.store(false, Ordering::Relaxed);
        informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap();
        registration.synced().until(Instant::now() + HOUR).await.unwrap();
        assert_eq!(keys(&informer), ["a/2", "a/3", "b/1"], "{queue:?}");
        let initial = seen.texts().into_iter().filter(|text| text.ends_with("initial"));
        assert_eq!(initial.collect::<BTreeSet<_>>().len(), 3, "{:?}", seen.texts());
        assert!(seen.texts().contains(&"add a/3 1".into()), "{:?}", seen.texts());
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

/// The list of the last part completes the sync, even if it is empty.
// contract: I-20a
#[tokio::test(start_paused = true)]
async fn empty_last_part_completes_the_sync() {
    for queue in QUEUES {
        let (a, b) = (gated(&["a/1"]), gated(&[]));
        b.delay.store(5_000, Ordering::Relaxed);
        let informer = informer(&a, &b, queue);
        let seen = record_events(&informer);
        let running = Running::start_only(informer.clone());
        informer.wait_for(A, &a.server.version().into()).await.unwrap();
        assert!(!informer.has_synced(), "{queue:?}");
        informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap();
        assert_eq!(seen.texts(), ["add a/1 1 initial"]);
        running.stop().await.unwrap();
    }
}

/// An object of another part is left out, and no other object is lost.
// contract: I-21a, I-21e
#[tokio::test(start_paused = true)]
async fn objects_of_other_parts_are_left_out() {
    for queue in QUEUES {
        let (a, b) = (gated(&["a/1", "b/x", "c/1", "a/2"]), gated(&["b/1"]));
        let informer = informer(&a, &b, queue);
        let running = Running::start(informer.clone()).await;
        assert_eq!(keys(&informer), ["a/1", "a/2", "b/1"], "{queue:?}");
        // The object of the other source is neither changed nor deleted.
        a.server.apply(Item::of("b/1", 0, 9));
        a.server.delete(KeyRef::new("b", "1"));
        a.server.apply(Item::of("b/1", 0, 10));
        let version = a.server.apply(Item::of("a/3", 0, 1));
        informer.wait_for(A, &version.into()).await.unwrap();
        assert_eq!(keys(&informer), ["a/1", "a/2", "a/3", "b/1"], "{queue:?}");
        assert_eq!(informer.get(KeyRef::new("b", "1")).unwrap().value, 1, "{queue:?}");
        assert_eq!(*informer.snapshot().resource_versions().of(B), b.server.version().into());
        running.stop().await.unwrap();
    }
}

// contract: I-22
#[tokio::test(start_paused = true)]
async fn relist_of_one_part_affects_no_other_part() {
    for queue in QUEUES {
        let (a, b) = (gated(&["a/1", "a/2"]), gated(&["b/1", "b/2"]));
        let informer = informer(&a, &b, queue);
        let seen = record_events(&informer);
        let running = Running::start(informer.clone()).await;
        seen.wait(|view| view.map.len() == 4).await;
        seen.take();
        let lists = |part: PartId| informer.part(part).unwrap().reflector().metrics().lists;
        let (of_a, of_b) = (lists(A), lists(B));
        // The watch cannot resume, so a list finds one deletion and one change.
        a.forbidden.store(true, Ordering::Relaxed);
        a.server.disconnect();
        sleep(Duration::from_secs(2)).await;
        a.server.delete(KeyRef::new("a", "1"));
        let version = a.server.apply(Item::of("a/2", 0, 2));
        a.server.compact();
        a.forbidden.store(false, Ordering::Relaxed);
        informer.wait_for(A, &version.into()).until(Instant::now() + HOUR).await.unwrap();
        seen.wait(|view| view.texts.len() >= 2).await;
        sleep(HOUR).await;
        let mut texts = seen.take();
        texts.sort();
        assert_eq!(texts, ["delete a/1 unknown", "update a/2 1 2"], "{queue:?}");
        assert!(lists(A) > of_a, "{queue:?}: it was a list");
        assert_eq!(lists(B), of_b, "{queue:?}");
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

/// Once armed, panics at the first batch with this key.
struct Panicking {
    armed: Arc<Mutex<Option<&'static str>>>,
    synced: Arc<Mutex<usize>>,
}

impl Process<Item> for Panicking {
    async fn process(&mut self, popped: Popped<Item>) {
        let keys = popped.iter().filter_map(|delta| Some(delta.object()?.key().to_string()));
        let keys: Vec<_> = keys.collect();
        let mut armed = self.armed.lock();
        if armed.is_some_and(|key| keys.iter().any(|other| other == key)) {
            *armed = None;
            drop(armed);
            panic!("a panic that the test expects");
        }
    }

    fn synced(&mut self) {
        *self.synced.lock() += 1;
    }
}

// contract: I-23
#[tokio::test(start_paused = true)]
async fn panic_relists_every_part_with_a_list() {
    let parts = || Parts::new(ByNamespace::new(["a", "b", "c"]));
    let queues: [Arc<dyn Queue<Item>>; 2] = [
        Arc::new(RealFifo::builder().parts(parts()).build()),
        Arc::new(DeltaFifo::builder().parts(parts()).build()),
    ];
    for queue in queues {
        let (a, b, c) = (gated(&["a/1"]), gated(&["b/1"]), gated(&["c/1"]));
        c.forbidden.store(true, Ordering::Relaxed);
        let sources = Sources::by_namespace([("a", a.clone()), ("b", b.clone()), ("c", c.clone())]);
        let (armed, synced) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(0)));
        let process = Panicking { armed: armed.clone(), synced: synced.clone() };
        let informer_loop = InformerLoop::of("items", sources, queue, process, Default::default());
        let handles = informer_loop.parts();
        let cancel = CancellationToken::new();
        let running = tokio::spawn(informer_loop.run(cancel.clone()));
        let lists = || handles.iter().map(|part| part.reflector().metrics().lists).collect::<Vec<_>>();
        sleep(Duration::from_secs(60)).await;
        let before = lists();
        assert_eq!(*synced.lock(), 0);
        *armed.lock() = Some("a/2");
        a.server.apply(Item::of("a/2", 0, 1));
        sleep(HOUR).await;
        assert!(armed.lock().is_none());
        let after = lists();
        assert!(after[0] > before[0] && after[1] > before[1], "{before:?} {after:?}");
        assert_eq!(*synced.lock(), 0, "one part has no list");
        // The first list of the third part completes the sync.
        c.forbidden.store(false, Ordering::Relaxed);
        sleep(HOUR).await;
        assert_eq!(*synced.lock(), 1);
        assert_eq!(lists()[..2], after[..2], "it lists once");
        cancel.cancel();
        running.await.unwrap();
    }
}

// contract: I-24
#[tokio::test(start_paused = true)]
async fn informer_without_handlers_spawns_no_task() {
    for queue in QUEUES {
        let names = ["a", "b", "c", "d"];
        let sources: Vec<_> = names.iter().map(|name| (*name, gated(&[&format!("{name}/1")]))).collect();
        let informer = SharedIndexInformer::builder_of(Sources::by_namespace(sources.clone()));
        let informer = informer.name("items").queue(queue).build().unwrap();
        let metrics = tokio::runtime::Handle::current().metrics();
        tasks::fall_to(0).await;
        let cancel = CancellationToken::new();
        let mut run = std::pin::pin!(informer.run(cancel.clone()));
        tokio::select! {
            ended = &mut run => panic!("{ended:?}"),
            synced = informer.wait_for_sync() => synced.unwrap(),
        }
        for (name, source) in &sources {
            source.server.disconnect();
            let version = source.server.apply(Item::of(&format!("{name}/2"), 0, 1)).into();
            tokio::select! {
                ended = &mut run => panic!("{ended:?}"),
                reached = informer.wait_for(KeyRef::new(name, "2"), &version) => reached.unwrap(),
            }
            assert_eq!(metrics.num_alive_tasks(), 0, "{queue:?}");
        }
        assert_eq!(stored(&informer).len(), 8);
        cancel.cancel();
        run.await.unwrap();
        assert_eq!(metrics.num_alive_tasks(), 0, "{queue:?}");
        assert!(sources.iter().all(|(_, source)| source.server.open_watches() == 0));
    }
}

// contract: I-25
#[tokio::test(start_paused = true)]
async fn handler_receives_one_resync_per_period() {
    for queue in QUEUES {
        let (a, b) = (gated(&["a/1", "a/2"]), gated(&["b/1"]));
        let informer = informer(&a, &b, queue);
        let seen = Seen::default();
        let recorder = seen.clone();
        let handler = informer.handler().resync(Duration::from_secs(10)).inline();
        handler.for_each(move |event| recorder.record(event)).unwrap();
        let running = Running::start(informer.clone()).await;
        // The two reflectors check at different moments.
        b.server.disconnect();
        seen.wait(|view| view.map.len() == 3).await;
        seen.take();
        sleep(Duration::from_secs(100)).await;
        let resyncs = seen.take();
        assert!(resyncs.iter().all(|text| text.starts_with("update")), "{resyncs:?}");
        assert!((9 * 3..=11 * 3).contains(&resyncs.len()), "{queue:?}: {} events", resyncs.len());
        for key in ["a/1", "a/2", "b/1"] {
            let of_key = resyncs.iter().filter(|text| text.contains(key)).count();
            assert_eq!(of_key * 3, resyncs.len(), "{queue:?} {key}");
        }
        running.stop().await.unwrap();
    }
}

// contract: I-25
#[tokio::test(start_paused = true)]
async fn resyncs_continue_if_a_part_has_no_list() {
    for queue in QUEUES {
        let (a, b) = (gated(&["a/1"]), gated(&["b/1"]));
        b.forbidden.store(true, Ordering::Relaxed);
        let informer = informer(&a, &b, queue);
        let seen = Seen::default();
        let recorder = seen.clone();
        let handler = informer.handler().resync(Duration::from_secs(10)).inline();
        handler.for_each(move |event| recorder.record(event)).unwrap();
        let running = Running::start_only(informer.clone());
        seen.wait(|view| view.map.len() == 1).await;
        seen.take();
        sleep(Duration::from_secs(100)).await;
        let resyncs = seen.take();
        assert!((9..=11).contains(&resyncs.len()), "{queue:?}: {resyncs:?}");
        assert!(resyncs.iter().all(|text| text.starts_with("update a/1")), "{resyncs:?}");
        running.stop().await.unwrap();
    }
}

/// A partition that reports this number of parts.
struct Announced(u32);

impl Partition<Item> for Announced {
    fn parts(&self) -> u32 {
        self.0
    }

    fn part_of(&self, item: &Item) -> Option<PartId> {
        assert!(item.name != "bad", "a panic that the test expects");
        Some(PartId::new(if item.namespace == "a" { 0 } else { u32::MAX }))
    }
}

// contract: I-26
#[test]
fn builder_needs_one_source_for_each_part() {
    let build = |parts: u32, sources: usize| {
        let sources = (0..sources).map(|n| (format!("part {n}"), FakeSource::<Item>::new()));
        SharedIndexInformer::builder_of(Sources::new(Announced(parts), sources)).name("items").build()
    };
    for (parts, sources) in [(2, 1), (1, 2), (1, 0), (0, 1), (u32::MAX, 3)] {
        let error = build(parts, sources).unwrap_err();
        assert!(matches!(error, Error::Sources { sources: n, .. } if n == sources), "{error}");
    }
    assert!(build(0, 0).unwrap().parts().is_empty());
    // A duplicate namespace.
    let sources = [("a", FakeSource::<Item>::new()), ("a", FakeSource::new())];
    let error = SharedIndexInformer::builder_of(Sources::by_namespace(sources)).build().unwrap_err();
    assert!(matches!(error, Error::Sources { parts: 1, sources: 2, .. }), "{error}");
    let none: [(&str, FakeSource<Item>); 0] = [];
    assert!(SharedIndexInformer::builder_of(Sources::by_namespace(none)).build().unwrap().parts().is_empty());
}

/// The partition panics for one object, and returns an unknown part for another.
// contract: O-24b, O-24c
#[tokio::test(start_paused = true)]
async fn faulty_partition_harms_no_other_object() {
    for queue in QUEUES {
        let (a, b) = (gated(&["a/1", "a/bad", "x/1", "a/2"]), gated(&["a/bad", "b/1"]));
        let sources = Sources::new(Announced(2), [("a", a.clone()), ("b", b.clone())]);
        let informer = SharedIndexInformer::builder_of(sources).name("items").queue(queue).build().unwrap();
        let running = Running::start(informer.clone()).await;
        assert_eq!(keys(&informer), ["a/1", "a/2"], "{queue:?}");
        a.server.apply(Item::of("a/bad", 0, 2));
        a.server.apply(Item::of("x/2", 0, 2));
        a.server.delete(KeyRef::new("x", "2"));
        let version = a.server.apply(Item::of("a/3", 0, 2));
        informer.wait_for(A, &version.into()).until(Instant::now() + HOUR).await.unwrap();
        assert_eq!(keys(&informer), ["a/1", "a/2", "a/3"], "{queue:?}");
        assert_eq!(informer.snapshot().resource_versions().iter().count(), 2);
        running.stop().await.unwrap();
    }
}

// contract: S-16e
#[tokio::test(start_paused = true)]
async fn transform_cannot_change_the_namespace() {
    for queue in QUEUES {
        let (a, b) = (gated(&["a/1", "a/2"]), gated(&["b/1"]));
        let transform = Transform::new(|item: Arc<Item>| {
            let mut item = Item::clone(&item);
            if item.name == "1" {
                item.namespace = "b".into();
            }
            Ok(Arc::new(item))
        });
        let sources = Sources::by_namespace([("a", a.clone()), ("b", b.clone())]);
        let informer = SharedIndexInformer::builder_of(sources).name("items").queue(queue);
        let informer = informer.transform(transform).build().unwrap();
        let running = Running::start(informer.clone()).await;
        assert_eq!(keys(&informer), ["a/2", "b/1"], "{queue:?}");
        assert_eq!(informer.get(KeyRef::new("b", "1")).unwrap().version, b.server.version());
        running.stop().await.unwrap();
    }
}

/// A queue bound of one delta with two parts that write, and a stop while one part lists.
// contract: I-20a
#[tokio::test(start_paused = true)]
async fn two_parts_share_a_queue_bound_of_one() {
    for queue in QUEUES {
        let (a, b) = (gated(&[]), gated(&[]));
        for n in 0..200 {
            a.server.apply(Item::of(&format!("a/{n}"), 0, 1));
            b.server.apply(Item::of(&format!("b/{n}"), 0, 1));
        }
        let sources = Sources::by_namespace([("a", a.clone()), ("b", b.clone())]);
        let informer = SharedIndexInformer::builder_of(sources).name("items").queue(queue);
        let informer = informer.queue_bound(Bound::Deltas(1)).build().unwrap();
        let running = Running::start(informer.clone()).await;
        assert_eq!(stored(&informer).len(), 400, "{queue:?}");
        for n in 0..200 {
            a.server.delete(KeyRef::new("a", &n.to_string()));
            b.server.delete(KeyRef::new("b", &n.to_string()));
        }
        for (part, source) in [(A, &a), (B, &b)] {
            informer
                .wait_for(part, &source.server.version().into())
                .until(Instant::now() + HOUR)
                .await
                .unwrap();
        }
        assert!(stored(&informer).is_empty(), "{queue:?}");
        let statistics = informer.metrics().reflector;
        assert_eq!(statistics.lists, 2, "{queue:?}: of both parts together");
        running.stop().await.unwrap();

        let (a, b) = (gated(&["a/1"]), gated(&["b/1"]));
        b.delay.store(10_000, Ordering::Relaxed);
        let informer = self::informer(&a, &b, queue);
        let running = Running::start_only(informer.clone());
        informer.wait_for(A, &a.server.version().into()).await.unwrap();
        let waiting = informer.clone();
        let waiting = tokio::spawn(async move { waiting.wait_for(B, &99.into()).await });
        running.stop().await.unwrap();
        assert!(matches!(waiting.await.unwrap(), Err(Error::VersionNotReached { .. })));
        assert!(matches!(informer.wait_for_sync().await, Err(Error::NotSynced(_))));
        assert_eq!(keys(&informer), ["a/1"]);
        assert_eq!(a.server.open_watches() + b.server.open_watches(), 0);
    }
}

/// The error of a broken watch belongs to its part only.
// contract: I-22
#[tokio::test(start_paused = true)]
async fn broken_watch_is_an_error_of_its_part_only() {
    let (a, b) = (gated(&["a/1"]), gated(&["b/1"]));
    let informer = informer(&a, &b, QueueKind::default());
    let running = Running::start(informer.clone()).await;
    a.server.break_watches(|| SourceError::Transport { source: "connection reset".into() });
    sleep(HOUR).await;
    assert!(informer.part(A).unwrap().reflector().last_error().is_some());
    assert!(informer.part(B).unwrap().reflector().last_error().is_none());
    assert!(informer.part(PartId::new(2)).is_none());
    running.stop().await.unwrap();
}
