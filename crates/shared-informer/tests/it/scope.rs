//! Sources that change while the informer runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{HOUR, QUEUES, Running, Seen, server, stored};
use crate::parts_common::Gated;
use async_trait::async_trait;
use futures::{FutureExt as _, StreamExt as _};
use kinformer_core::{KeyRef, Object as _, PartId, Partition};
use kinformer_processor::Buffer;
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions, WatchStream,
};
use kinformer_shared_informer::{Error, QueueKind, SharedIndexInformer, Sources};
use kinformer_testing::{FakeSource, Item, tasks};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::Instant;

/// The objects of one namespace of a server, or of all.
#[derive(Clone)]
struct Namespace {
    server: FakeSource<Item>,
    name: Option<&'static str>,
    /// The number of listed objects.
    listed: Arc<AtomicUsize>,
    /// The versions that lists requested.
    requested: Arc<Mutex<Vec<String>>>,
}

impl Namespace {
    fn has(&self, item: &Item) -> bool {
        self.name.is_none_or(|name| item.key().namespace() == Some(name))
    }
}

#[async_trait]
impl ListerWatcher<Item> for Namespace {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        self.requested.lock().push(options.resource_version.to_string());
        let mut list = self.server.list(options).await?;
        list.objects.retain(|item| self.has(item));
        self.listed.fetch_add(list.objects.len(), Ordering::Relaxed);
        Ok(list)
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        let this = self.clone();
        let events = self.server.watch(options).await?;
        let is_selected = move |event: &Result<WatchEvent<Item>, SourceError>| match event {
            Ok(WatchEvent::Added(item) | WatchEvent::Modified(item) | WatchEvent::Deleted(item)) => {
                this.has(item)
            }
            _ => true,
        };
        Ok(events.filter(move |event| std::future::ready(is_selected(event))).boxed())
    }
}

/// A server with namespaces.
struct World {
    server: FakeSource<Item>,
    listed: Arc<AtomicUsize>,
    requested: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(names: &[&str]) -> Self {
        let world = Self {
            server: FakeSource::new().without_watch_list(),
            listed: Arc::default(),
            requested: Arc::default(),
        };
        names.iter().for_each(|name| _ = world.server.apply(Item::of(name, 0, 1)));
        world
    }

    fn namespace(&self, name: Option<&'static str>) -> Namespace {
        let (listed, requested) = (self.listed.clone(), self.requested.clone());
        Namespace { server: self.server.clone(), name, listed, requested }
    }

    fn of(&self, names: &[&'static str]) -> Sources<Item> {
        Sources::by_namespace(names.iter().map(|name| (*name, self.namespace(Some(*name)))))
    }

    fn all(&self) -> Sources<Item> {
        Sources::one(self.namespace(None))
    }

    fn take_listed(&self) -> usize {
        self.listed.swap(0, Ordering::Relaxed)
    }
}

fn informer(sources: Sources<Item>, queue: QueueKind) -> SharedIndexInformer<Item> {
    SharedIndexInformer::builder_of(sources).name("items").queue(queue).build().unwrap()
}

fn keys(informer: &SharedIndexInformer<Item>) -> Vec<String> {
    stored(informer).into_keys().collect()
}

async fn change(informer: &SharedIndexInformer<Item>, sources: Sources<Item>) {
    informer.set_sources(sources).await.unwrap();
    informer.wait_for_parts().until(Instant::now() + HOUR).await.unwrap();
}

fn record(informer: &SharedIndexInformer<Item>) -> Seen {
    let seen = Seen::default();
    let recorder = seen.clone();
    informer.handler().inline().for_each(move |event| recorder.record(event)).unwrap();
    seen
}

/// Only what is new is listed, and only what comes or leaves is delivered.
// contract: D-01a, D-01b, D-02a, D-03a
#[tokio::test(start_paused = true)]
async fn only_the_difference_is_listed_and_delivered() {
    for queue in QUEUES {
        let world = World::new(&["a/1", "b/1", "b/2", "c/1"]);
        let informer = informer(world.of(&["a", "b"]), queue);
        let seen = record(&informer);
        let running = Running::start(informer.clone()).await;
        seen.wait(|view| view.map.len() == 3).await;
        assert_eq!((world.take_listed(), seen.take().len()), (3, 3));
        change(&informer, world.of(&["b", "c", "a"])).await;
        seen.wait(|view| view.map.len() == 4).await;
        assert_eq!((world.take_listed(), seen.take()), (1, vec!["add c/1 1".to_owned()]), "{queue:?}");
        change(&informer, world.of(&["a", "c"])).await;
        assert_eq!(keys(&informer), ["a/1", "c/1"], "{queue:?}");
        seen.wait(|view| view.map.len() == 2).await;
        assert_eq!(seen.take(), ["left b/1 1", "left b/2 1"], "{queue:?}");
        assert_eq!((world.take_listed(), world.server.open_watches()), (0, 2));
        // It is deleted and created again while it is out of scope.
        world.server.delete(KeyRef::new("b", "1"));
        world.server.apply(Item::of("b/1", 0, 7));
        change(&informer, world.of(&["a", "b", "c"])).await;
        seen.wait(|view| view.map.len() == 4).await;
        assert_eq!(
            seen.take().into_iter().collect::<BTreeSet<_>>(),
            BTreeSet::from(["add b/1 7".into(), "add b/2 1".into()])
        );
        assert!(informer.has_synced() && informer.part(PartId::new(1)).is_none());
        seen.assert_no_faults();
        running.stop().await.unwrap();
        assert_eq!(world.server.open_watches(), 0);
    }
}

/// Of all objects, those of some namespaces stay, without being delivered again; and back.
// contract: D-02b, D-03a
#[tokio::test(start_paused = true)]
async fn all_objects_become_those_of_namespaces() {
    for queue in QUEUES {
        let world = World::new(&["a/1", "b/1", "c/1"]);
        let informer = informer(world.all(), queue);
        let seen = record(&informer);
        let running = Running::start(informer.clone()).await;
        seen.wait(|view| view.map.len() == 3).await;
        seen.take();
        change(&informer, world.of(&["a", "c"])).await;
        seen.wait(|view| view.map.len() == 2).await;
        assert_eq!(seen.take(), ["left b/1 1"], "{queue:?}");
        let version = world.server.apply(Item::of("a/1", 0, 2)).into();
        informer.wait_for(KeyRef::new("a", "1"), &version).await.unwrap();
        let refused = informer.wait_for(KeyRef::new("b", "1"), &version).await.unwrap_err();
        assert!(matches!(refused, Error::VersionNotReached { .. }), "{refused}");
        change(&informer, world.all()).await;
        world.server.delete(KeyRef::new("c", "1"));
        seen.wait(|view| view.map.len() == 2 && view.map.contains_key("b/1")).await;
        assert_eq!(seen.take(), ["update a/1 1 2", "add b/1 1", "delete c/1"], "{queue:?}");
        assert_eq!(stored(&informer), server(&world.server));
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

/// A new part of the same server is not listed before the versions that are known, also after an empty scope.
// contract: D-11a
#[tokio::test(start_paused = true)]
async fn new_part_is_not_listed_before_the_known_versions() {
    let world = World::new(&["a/1", "b/1"]);
    let informer = informer(world.all(), QueueKind::RealFifo);
    let running = Running::start(informer.clone()).await;
    let version = world.server.apply(Item::of("a/1", 0, 2)).into();
    informer.wait_for(KeyRef::new("a", "1"), &version).await.unwrap();
    for sources in [world.of(&["a"]), world.of(&[]), world.of(&["b"])] {
        change(&informer, sources.of_one_server()).await;
    }
    change(&informer, world.of(&["a"])).await;
    let known = version.to_string();
    assert_eq!(*world.requested.lock(), ["0", &known, &known, "0"]);
    running.stop().await.unwrap();
}

/// A change that is requested while handlers receive what has left takes effect before the lists of its parts.
// contract: D-11b
#[tokio::test(start_paused = true)]
async fn change_while_objects_leave() {
    for queue in QUEUES {
        let world = World::new(&["a/1", "a/2", "a/3", "a/4", "b/1"]);
        let informer = informer(world.of(&["a"]), queue);
        let slow = informer.handler().buffer(Buffer::BackPressure(1));
        slow.for_each_async_with((), async |(), _| tokio::time::sleep(Duration::from_secs(1)).await).unwrap();
        let running = Running::start(informer.clone()).await;
        let first = informer.set_sources(world.of(&[]));
        assert!(first.now_or_never().is_none());
        while !stored(&informer).is_empty() {
            tokio::task::yield_now().await;
        }
        change(&informer, world.of(&["b"])).await;
        let part = informer.parts()[0].id();
        assert_eq!(
            *informer.snapshot().resource_versions().of(part),
            world.server.version().into(),
            "{queue:?}"
        );
        running.stop().await.unwrap();
    }
}

/// One part with the objects of the value 2: others do not stay.
struct Twos;

impl Partition<Item> for Twos {
    fn parts(&self) -> u32 {
        1
    }

    fn part_of(&self, _: &Item) -> Option<PartId> {
        Some(PartId::ONLY)
    }

    fn stays(&self, item: &Item) -> bool {
        item.value == 2
    }
}

/// An object that was queued before the selectors changed, and that they do not match, is delivered as left and not as deleted.
// contract: D-12b
#[tokio::test(start_paused = true)]
async fn queued_object_that_new_selectors_do_not_match_leaves() {
    for queue in QUEUES {
        let world = World::new(&["a/1"]);
        let informer = informer(world.of(&["a"]), queue);
        let seen = record(&informer);
        let slow = informer.handler().buffer(Buffer::BackPressure(1));
        slow.for_each_async_with((), async |(), _| tokio::time::sleep(Duration::from_secs(1)).await).unwrap();
        let running = Running::start(informer.clone()).await;
        for name in ["a/2", "a/3", "a/4", "a/5", "a/6"] {
            world.server.apply(Item::of(name, 0, 1));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let selected = FakeSource::new().without_watch_list();
        selected.apply(Item::of("a/7", 0, 2));
        change(&informer, Sources::new(Twos, [("twos", selected)])).await;
        assert_eq!(keys(&informer), ["a/7"], "{queue:?}");
        let texts = seen.take();
        let is_of = |sign: &'static str| texts.iter().filter(move |text| text.starts_with(sign)).count();
        assert_eq!((is_of("add") - 1, is_of("del")), (is_of("left"), 0), "{queue:?} {texts:?}");
        running.stop().await.unwrap();
    }
}

/// An empty scope is synced and empty, before and after other scopes.
// contract: D-04a
#[tokio::test(start_paused = true)]
async fn empty_scope_is_synced() {
    for queue in QUEUES {
        let world = World::new(&["a/1"]);
        let informer = informer(world.of(&[]), queue);
        let seen = record(&informer);
        let running = Running::start(informer.clone()).await;
        assert!(informer.parts().is_empty() && keys(&informer).is_empty());
        change(&informer, world.of(&["a"])).await;
        assert_eq!(keys(&informer), ["a/1"]);
        change(&informer, world.of(&[])).await;
        assert!(keys(&informer).is_empty() && informer.has_synced());
        seen.wait(|view| view.texts.len() == 2).await;
        assert_eq!(seen.take(), ["add a/1 1", "left a/1 1"], "{queue:?}");
        running.stop().await.unwrap();
    }
}

/// A namespace whose list is refused is a state of its part, and stops no other.
// contract: D-05a, D-05b
#[tokio::test(start_paused = true)]
async fn refused_namespace_stops_no_other() {
    let (world, refused) = (World::new(&["a/1"]), Gated::new());
    refused.forbidden.store(true, Ordering::Relaxed);
    let informer = informer(world.of(&["a"]), QueueKind::RealFifo);
    let running = Running::start(informer.clone()).await;
    let sources = Sources::by_namespace([
        ("a", Arc::new(world.namespace(Some("a"))) as Arc<dyn ListerWatcher<Item>>),
        ("b", Arc::new(refused.clone())),
    ]);
    informer.set_sources(sources).await.unwrap();
    let waited = informer.wait_for_parts().until(Instant::now() + Duration::from_secs(60)).await;
    let Err(Error::NotSynced(not_synced)) = waited else { panic!("{waited:?}") };
    assert!(not_synced.to_string().contains("no list yet of b"), "{not_synced}");
    let parts = informer.parts();
    assert!(parts[0].is_listed() && !parts[1].is_listed() && parts[1].reflector().last_error().is_some());
    let version = world.server.apply(Item::of("a/2", 0, 1)).into();
    informer.wait_for(KeyRef::new("a", "2"), &version).await.unwrap();
    assert!(informer.has_synced());
    running.stop().await.unwrap();
}

/// A change that was requested takes effect, whatever happens to its future. Of several, the last one does.
// contract: D-06a, D-06b
#[tokio::test(start_paused = true)]
async fn dropped_change_takes_effect() {
    let world = World::new(&["a/1", "b/1"]);
    let informer = informer(world.of(&["a"]), QueueKind::RealFifo);
    let seen = record(&informer);
    // Before the start.
    informer.set_sources(world.of(&["a", "b"])).await.unwrap();
    let running = Running::start(informer.clone()).await;
    informer.wait_for_parts().await.unwrap();
    assert_eq!(keys(&informer), ["a/1", "b/1"]);
    seen.wait(|view| view.map.len() == 2).await;
    seen.take();
    for sources in [world.of(&[]), world.all(), world.of(&["b"]), world.of(&["a", "b"])] {
        assert!(informer.set_sources(sources).now_or_never().is_none());
    }
    informer.wait_for_parts().await.unwrap();
    assert_eq!((seen.take(), keys(&informer).len()), (vec![], 2), "what stays is not delivered again");
    assert!(informer.set_sources(world.of(&["b"])).now_or_never().is_none());
    informer.wait_for_parts().await.unwrap();
    assert_eq!(keys(&informer), ["b/1"]);
    let twice = Sources::by_namespace([("a", world.namespace(None)), ("a", world.namespace(None))]);
    assert!(matches!(informer.set_sources(twice).await, Err(Error::Sources { .. })));
    running.stop().await.unwrap();
    assert!(matches!(informer.set_sources(world.all()).await, Err(Error::Stopped { .. })));
}

/// Ten thousand changes leave nothing behind.
// contract: D-07a
#[tokio::test(start_paused = true)]
async fn changes_leave_nothing_behind() {
    let world = World::new(&["a/1", "b/1", "c/1"]);
    let informer = informer(world.of(&["a"]), QueueKind::RealFifo);
    tasks::fall_to(0).await;
    let running = Running::start(informer.clone()).await;
    for round in 0..10_000 {
        let sources = match round % 4 {
            0 => world.of(&["a", "b"]),
            1 => world.all(),
            2 => world.of(&["b", "c"]),
            _ => world.of(&["a"]),
        };
        informer.set_sources(sources).await.unwrap();
    }
    informer.wait_for_parts().await.unwrap();
    assert_eq!(keys(&informer), ["a/1"]);
    let versions = informer.snapshot().resource_versions().iter().count();
    assert_eq!((informer.parts().len(), versions, world.server.open_watches()), (1, 1, 1));
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1, "the informer");
    assert!(informer.metrics().reflector.lists >= 5_000, "the counters of removed parts stay");
    running.stop().await.unwrap();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Apply(u8),
    Delete(u8),
    /// A set of namespaces, by bits; all for 16.
    Scope(u8),
    Disconnect,
    Compact,
    /// Milliseconds.
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any::<u8>().prop_map(Step::Apply),
        4 => any::<u8>().prop_map(Step::Delete),
        5 => (0..=16_u8).prop_map(Step::Scope),
        1 => Just(Step::Disconnect),
        1 => Just(Step::Compact),
        3 => (0..3000_u16).prop_map(Step::Pass),
    ]
}

const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];

fn key(number: u8) -> String {
    format!("{}/{}", NAMESPACES[usize::from(number % 4)], number / 4 % 3)
}

async fn play(steps: Vec<Step>, queue: QueueKind, buffer: Buffer) {
    let world = World::new(&["a/0", "b/0", "c/0", "d/0"]);
    let scope = |bits: u8| match bits {
        16 => world.all(),
        bits => {
            let names = NAMESPACES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
            world.of(&names.map(|(_, name)| *name).collect::<Vec<_>>())
        }
    };
    let informer = informer(scope(3), queue);
    let seen = Seen::default();
    let recorder = seen.clone();
    informer.handler().buffer(buffer).inline().for_each(move |event| recorder.record(event)).unwrap();
    let running = Running::start_only(informer.clone());
    let (mut last, mut deleted) = (3, BTreeSet::new());
    let mut scopes = BTreeSet::from([3]);
    for step in steps {
        match step {
            Step::Apply(number) => _ = world.server.apply(Item::of(&key(number), 0, u64::from(number))),
            Step::Delete(number) => {
                let key = key(number);
                let (namespace, name) = key.split_once('/').unwrap();
                if world.server.exists(KeyRef::new(namespace, name)) {
                    world.server.delete(KeyRef::new(namespace, name));
                    deleted.insert(key);
                }
            }
            Step::Scope(bits) => {
                _ = informer.set_sources(scope(bits)).now_or_never();
                last = bits;
                scopes.insert(bits);
            }
            Step::Disconnect => world.server.disconnect(),
            Step::Compact => world.server.disconnect_and_compact(),
            Step::Pass(millis) => tokio::time::sleep(Duration::from_millis(millis.into())).await,
        }
    }
    informer.wait_for_parts().until(Instant::now() + HOUR).await.unwrap();
    let is_in = |key: &String| {
        last == 16 || {
            let bit = NAMESPACES.iter().position(|name| key.starts_with(name)).unwrap();
            last >> bit & 1 == 1
        }
    };
    let wanted: BTreeMap<String, Item> =
        server(&world.server).into_iter().filter(|(key, _)| is_in(key)).collect();
    let settled = async {
        while stored(&informer) != wanted || seen.view().map != wanted {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let settled = tokio::time::timeout(HOUR, settled).await;
    assert!(settled.is_ok(), "{wanted:#?}\n{:#?}\n{:#?}", stored(&informer), seen.view());
    seen.assert_no_faults();
    for text in seen.texts() {
        let words: Vec<&str> = text.split(' ').collect();
        match words[0] {
            "delete" => assert!(deleted.contains(words[1]), "{text}, but it only left"),
            "left" => {
                let bit = NAMESPACES.iter().position(|name| words[1].starts_with(name)).unwrap();
                assert!(scopes.iter().any(|scope| *scope != 16 && scope >> bit & 1 == 0), "{text}");
            }
            _ => {}
        }
    }
    running.stop().await.unwrap();
    assert_eq!(world.server.open_watches(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Random changes of the scope beside random writes.
    // contract: D-02a, D-02b, D-03a, D-03b
    #[test]
    fn store_equals_the_source_within_the_scope(
        steps in prop::collection::vec(step(), 0..60),
        queue in 0..QUEUES.len(),
        coalesced in any::<bool>(),
    ) {
        let buffer = if coalesced { Buffer::Coalesced } else { Buffer::EveryEvent };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(steps, QUEUES[queue], buffer));
    }
}
