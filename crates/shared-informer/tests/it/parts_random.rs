//! Random histories: an informer of several parts ends up with the union of its sources' objects.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::QUEUES;
use crate::parts_common::{Gated, wait};
use async_trait::async_trait;
use futures::StreamExt as _;
use kinformer_core::{KeyRef, Object as _, PartId, Partition, ResourceVersion};
use kinformer_processor::{Added, Buffer, Event, Updated};
use kinformer_reflector::{
    ApiStatus, List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions, WatchStream,
};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer, Sources};
use kinformer_testing::Item;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
enum Step {
    /// A key and a part.
    Apply(u8, u8),
    Delete(u8),
    Bookmarks(u8),
    Compact(u8),
    Disconnect(u8),
    Expire(u8),
    Break(u8),
    FailList(u8),
    FailWatch(u8),
    /// A part, and its delay in milliseconds.
    Delay(u8, u16),
    /// The milliseconds for which each event blocks the store.
    Slow(u16),
    /// Milliseconds.
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let n = any::<u8>();
    prop_oneof![
        10 => (n, n).prop_map(|(key, part)| Step::Apply(key, part)),
        4 => n.prop_map(Step::Delete),
        1 => n.prop_map(Step::Bookmarks),
        1 => n.prop_map(Step::Compact),
        1 => n.prop_map(Step::Disconnect),
        1 => n.prop_map(Step::Expire),
        1 => n.prop_map(Step::Break),
        1 => n.prop_map(Step::FailList),
        1 => n.prop_map(Step::FailWatch),
        2 => (n, 0..1500_u16).prop_map(|(part, late)| Step::Delay(part, late)),
        2 => (0..3000_u16).prop_map(Step::Slow),
        6 => (0..3000_u16).prop_map(Step::Pass),
    ]
}

fn error(n: u8) -> SourceError {
    match n % 4 {
        0 => SourceError::expired("random"),
        1 => SourceError::ConnectionRefused { source: "random".into() },
        2 => ApiStatus::new(500, "InternalError", "random").into(),
        _ => ApiStatus::new(403, "Forbidden", "random").into(),
    }
}

/// Every state of each key: its value by version; `None` for a deletion.
type History = Arc<Mutex<BTreeMap<String, BTreeMap<u64, Option<u64>>>>>;

/// The objects of the servers, and their partition.
struct Model {
    parts: u8,
    /// A server for each part, or one server for all parts.
    sources: Vec<Gated>,
    history: History,
    moves: bool,
}

impl Model {
    fn source(&self, part: u8) -> &Gated {
        &self.sources[usize::from(part % self.parts)]
    }

    /// Returns the key with this number. Keys of objects that move do not name the part.
    fn key(&self, key: u8) -> (String, String) {
        match self.moves {
            true => (String::new(), format!("o{}", key % 6)),
            false => (format!("ns{}", key % self.parts), format!("o{}", key % 11)),
        }
    }

    /// Values are unique, and determine the part of an object that moves.
    fn apply(&self, key: u8, part: u8, value: u64) -> u64 {
        let (namespace, name) = self.key(key);
        let part = if self.moves { part } else { key };
        let value = value * u64::from(self.parts) + u64::from(part % self.parts);
        let item = Item { namespace, name, version: 0, value };
        let text = item.key().to_string();
        let mut history = self.history.lock();
        let version = self.source(part).server.apply(item);
        history.entry(text).or_default().insert(version, Some(value));
        version
    }

    fn delete(&self, key: u8) {
        let (namespace, name) = self.key(key);
        let key_ref = KeyRef::new(&namespace, &name);
        let mut history = self.history.lock();
        let server = &self.source(key).server;
        if server.exists(key_ref) {
            let version = server.delete(key_ref);
            history.entry(key_ref.to_string()).or_default().insert(version, None);
        }
    }
}

/// The objects of one part of a server, as kube-apiserver selects them: an object that leaves the part is deleted with
/// its last state in the part.
#[derive(Clone)]
struct Selected {
    gated: Gated,
    part: u64,
    parts: u64,
    history: History,
}

impl Selected {
    fn has(&self, value: u64) -> bool {
        value % self.parts == self.part
    }

    fn selected(&self, event: WatchEvent<Item>) -> Option<WatchEvent<Item>> {
        let (WatchEvent::Added(item) | WatchEvent::Modified(item) | WatchEvent::Deleted(item)) = &event
        else {
            return Some(event);
        };
        let history = self.history.lock();
        let states = history.get(&item.key().to_string())?;
        let before = states.range(..item.version).next_back().and_then(|(_, value)| *value);
        let old = before.filter(|value| self.has(*value));
        let is_deletion = matches!(event, WatchEvent::Deleted(_));
        let new = (!is_deletion && self.has(item.value)).then(|| item.clone());
        match (old, new) {
            (None, None) => None,
            (None, Some(item)) => Some(WatchEvent::Added(item)),
            (Some(_), Some(item)) => Some(WatchEvent::Modified(item)),
            (Some(value), None) => Some(WatchEvent::Deleted(Arc::new(Item { value, ..Item::clone(item) }))),
        }
    }
}

#[async_trait]
impl ListerWatcher<Item> for Selected {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        let mut list = self.gated.server.list(options).await?;
        list.objects.retain(|item| self.has(item.value));
        wait(&self.gated.delay).await;
        Ok(list)
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        let stream = self.gated.server.watch(options).await?;
        let this = self.clone();
        Ok(stream
            .filter_map(move |event| {
                let this = this.clone();
                async move {
                    let event = match event {
                        Ok(event) => Ok(this.selected(event)?),
                        Err(error) => Err(error),
                    };
                    wait(&this.gated.delay).await;
                    Some(event)
                }
            })
            .boxed())
    }
}

struct ByValue(u32);

impl Partition<Item> for ByValue {
    fn parts(&self) -> u32 {
        self.0
    }

    fn part_of(&self, item: &Item) -> Option<PartId> {
        u32::try_from(item.value % u64::from(self.0)).ok().map(PartId::new)
    }
}

/// The objects of a handler, and the faults in its events.
#[derive(Default)]
struct Received {
    objects: BTreeMap<String, Arc<Item>>,
    newest: BTreeMap<String, u64>,
    faults: Vec<String>,
}

impl Received {
    fn receive(&mut self, event: &Event<Arc<Item>>, moves: bool, history: &History) {
        let key = event.key().to_string();
        let mut check = |good: bool, what: &str| {
            if !good {
                self.faults.push(format!("{what}: {event:?}"));
            }
        };
        if let Event::Added(Added { object, .. }) | Event::Updated(Updated { new: object, .. }) = event {
            let history = history.lock();
            let written = history.get(&key).and_then(|states| states.get(&object.version));
            check(written == Some(&Some(object.value)), "never written");
            let newest = self.newest.entry(key.clone()).or_default();
            // A delayed source may restore an object that another part has deleted, until it also deletes the object.
            check(moves || object.version > *newest, "not newer");
            *newest = object.version;
        }
        match event {
            Event::Added(Added { object, .. }) => {
                check(self.objects.insert(key, object.clone()).is_none(), "added twice");
            }
            Event::Updated(Updated { old, new, .. }) => {
                check(old.version < new.version, "update to a version that is not newer");
                check(self.objects.insert(key, new.clone()).as_ref() == Some(old), "not the old state");
            }
            Event::Deleted(_) => check(self.objects.remove(&key).is_some(), "unknown object deleted"),
            _ => unreachable!("not known to this test"),
        }
    }
}

async fn history(queue: QueueKind, parts: u8, moves: bool, steps: Vec<Step>) {
    let history = History::default();
    let servers: Vec<_> = (0..parts).map(|_| Gated::new()).collect();
    let sources: Vec<Gated> = match moves {
        // One server; each part has its own delay.
        true => (0..parts).map(|_| Gated { server: servers[0].server.clone(), ..Gated::new() }).collect(),
        false => servers,
    };
    let model = Model { parts, sources: sources.clone(), history: history.clone(), moves };
    let sources = match moves {
        true => {
            let selected = (0_u64..).zip(&sources).map(|(part, gated)| {
                let (gated, history) = (gated.clone(), history.clone());
                (format!("part {part}"), Selected { gated, part, parts: parts.into(), history })
            });
            Sources::new(ByValue(parts.into()), selected)
        }
        false => Sources::by_namespace(
            (0..).zip(sources).map(|(part, gated): (u32, _)| (format!("ns{part}"), gated)),
        ),
    };
    let informer = SharedIndexInformer::builder_of(sources).name("random").queue(queue).build().unwrap();
    let received = Arc::new(Mutex::new(Received::default()));
    let receiver = (received.clone(), history.clone());
    let receive = move |event: &Event<Arc<Item>>| receiver.0.lock().receive(event, moves, &receiver.1);
    informer.handler().inline().for_each(receive).unwrap();
    // While the store waits for it, events of all parts gather in the queue.
    let slow = Arc::new(AtomicU64::new(0));
    let slowness = slow.clone();
    let handler = informer.handler().buffer(Buffer::BackPressure(1));
    handler
        .add_async(move |_: Event<Arc<Item>>| {
            let slow = slowness.clone();
            async move { wait(&slow).await }
        })
        .unwrap();
    let cancel = CancellationToken::new();
    let running = informer.spawn(cancel.clone());
    let mut value = 0;
    for step in steps {
        value += 1;
        match step {
            Step::Apply(key, part) => drop(model.apply(key, part, value)),
            Step::Delete(key) => model.delete(key),
            Step::Bookmarks(n) => model.source(n).server.send_bookmarks(),
            Step::Compact(n) => model.source(n).server.compact(),
            Step::Disconnect(n) => model.source(n).server.disconnect(),
            Step::Expire(n) => model.source(n).server.break_watches(|| SourceError::expired("random")),
            Step::Break(n) => {
                model.source(n).server.break_watches(|| SourceError::Transport { source: "random".into() });
            }
            Step::FailList(n) => model.source(n).server.fail_next_list(error(n)),
            Step::FailWatch(n) => model.source(n).server.fail_next_watch(error(n)),
            Step::Delay(n, late) => model.source(n).delay.store(late.into(), Ordering::Relaxed),
            Step::Slow(ms) => slow.store(ms.into(), Ordering::Relaxed),
            Step::Pass(ms) => tokio::time::sleep(Duration::from_millis(ms.into())).await,
        }
    }
    // From here on, the servers receive only one last write for each part.
    let end = Instant::now() + Duration::from_secs(3600);
    informer.wait_for_sync().until(end).await.unwrap();
    let last: Vec<(u8, u64)> = (0..parts)
        .map(|part| {
            value += 1;
            (part, model.apply(part, part, value))
        })
        .collect();
    for (part, version) in last {
        let version = ResourceVersion::number(version);
        informer.wait_for(PartId::new(part.into()), &version).until(end).await.unwrap();
        if !moves {
            let (namespace, name) = model.key(part);
            let key = KeyRef::new(&namespace, &name);
            informer.wait_for(key, &version).until(end).await.unwrap();
            assert!(informer.get(key).unwrap().version >= version.to_string().parse().unwrap());
        }
    }
    tokio::time::sleep_until(end).await;

    let mut union: BTreeMap<String, Arc<Item>> = BTreeMap::new();
    for gated in &model.sources {
        union.extend(gated.server.decodable().into_iter().map(|(key, item)| (key.to_string(), item)));
    }
    let stored: BTreeMap<String, Arc<Item>> =
        informer.snapshot().iter().map(|item| (item.key().to_string(), item.clone())).collect();
    assert_eq!(stored, union, "{queue:?}");
    {
        let received = received.lock();
        assert_eq!(received.faults, Vec::<String>::new(), "{queue:?}");
        assert_eq!(received.objects, union, "{queue:?}");
    }
    cancel.cancel();
    running.await.unwrap().unwrap();
    assert!(model.sources.iter().all(|gated| gated.server.open_watches() == 0));
}

fn run(future: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future);
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "a task is left");
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    // contract: I-02, I-03, I-20a, I-22, Q-21a, S-27a
    #[test]
    fn namespaces_end_up_as_their_union(parts in 2..5_u8, steps in prop::collection::vec(step(), 0..80)) {
        for queue in QUEUES {
            run(history(queue, parts, false, steps.clone()));
        }
    }

    /// One server. Each source has the objects of one part, and objects move between the parts.
    // contract: I-03, Q-21a, Q-21b, Q-22, S-26a, S-26c, S-27a
    #[test]
    fn moving_objects_end_up_as_their_union(parts in 2..5_u8, steps in prop::collection::vec(step(), 0..80)) {
        for queue in QUEUES {
            run(history(queue, parts, true, steps.clone()));
        }
    }
}
