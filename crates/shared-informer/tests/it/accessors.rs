//! Objects whose accessors panic do not affect other objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{HOUR, Mapped, OfItems, QUEUES};
use kinformer_core::{KeyRef, Labels, Object, PartId, ResourceVersion, Tombstone};
use kinformer_processor::{Added, Buffer, Deleted, Event, Updated};
use kinformer_reflector::{SourceError, WatchListMode};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_store::IndexFunction;
use kinformer_testing::{FakeSource, Item, panics};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const WHY: &str = "the fuse has blown";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Accessor {
    Key,
    Version,
    Uid,
    Labels,
}

/// Makes one accessor of the objects that share it panic: at its n-th call since the fuse was armed, or at every call.
#[derive(Debug)]
struct Fuse {
    accessor: Accessor,
    nth: Option<usize>,
    armed: AtomicBool,
    calls: AtomicUsize,
}

impl Fuse {
    fn called(&self, accessor: Accessor) {
        if accessor == self.accessor && self.armed.load(Ordering::Relaxed) {
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            assert!(self.nth.is_some_and(|nth| nth != call), "{WHY}");
        }
    }
}

/// An item with a UID and a label; some have a fuse.
#[derive(Debug)]
struct Thing {
    item: Item,
    labels: BTreeMap<String, String>,
    fuse: Option<Arc<Fuse>>,
}

impl Thing {
    fn called(&self, accessor: Accessor) {
        self.fuse.iter().for_each(|fuse| fuse.called(accessor));
    }
}

impl Object for Thing {
    fn key(&self) -> KeyRef<'_> {
        self.called(Accessor::Key);
        self.item.key()
    }

    fn resource_version(&self) -> ResourceVersion {
        self.called(Accessor::Version);
        self.item.resource_version()
    }

    fn uid(&self) -> Option<&str> {
        self.called(Accessor::Uid);
        Some("uid")
    }

    fn labels(&self) -> Labels<'_> {
        self.called(Accessor::Labels);
        (&self.labels).into()
    }
}

/// A source whose objects have the fuse if their name begins with a `b`.
#[derive(Clone)]
struct Source {
    items: FakeSource<Item>,
    fuse: Arc<Fuse>,
}

impl OfItems for Source {
    type Thing = Thing;

    fn items(&self) -> &FakeSource<Item> {
        &self.items
    }

    fn thing(&self, item: &Item) -> Arc<Thing> {
        let labels = [("name".to_owned(), item.name.clone())].into();
        let fuse = item.name.starts_with('b').then(|| self.fuse.clone());
        Arc::new(Thing { item: item.clone(), labels, fuse })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    FirstList,
    Relist,
    Watch,
    Delete,
}

/// The objects of a handler: values by name.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, u64>>>);

impl Seen {
    fn record(&self, event: &Event<Arc<Thing>>) {
        let mut seen = self.0.lock();
        match event {
            Event::Added(Added { object, .. }) | Event::Updated(Updated { new: object, .. }) => {
                seen.insert(object.item.name.clone(), object.item.value);
            }
            Event::Deleted(Deleted { tombstone: Tombstone::FinalState(object), .. }) => {
                seen.remove(&object.item.name);
            }
            Event::Deleted(Deleted { tombstone: Tombstone::FinalStateUnknown(missed), .. }) => {
                seen.remove(missed.key.name());
            }
            _ => unreachable!("not known to this test"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    queue: QueueKind,
    mode: WatchListMode,
    accessor: Accessor,
    operation: Operation,
    nth: Option<usize>,
}

/// Runs a case and returns the number of accessor calls.
async fn run_case(case: Case) -> usize {
    let Case { queue, mode, accessor, operation, nth } = case;
    let armed = AtomicBool::new(operation == Operation::FirstList);
    let fuse = Arc::new(Fuse { accessor, nth, armed, calls: AtomicUsize::new(0) });
    let items = FakeSource::new();
    ["a", "b", "c"].iter().for_each(|name| _ = items.apply(Item::of(name, 0, 1)));
    let source = Source { items: items.clone(), fuse: fuse.clone() };
    let failures = Arc::new(Mutex::new(Vec::new()));
    let hook = failures.clone();
    let informer = SharedIndexInformer::builder(Mapped(source))
        .queue(queue)
        .index("name", IndexFunction::by_label("name"))
        .reflector(move |options| options.watch_list(mode))
        .on_error(move |failure| hook.lock().push(failure.error.to_string()))
        .build()
        .unwrap();
    let (seen, coalesced) = (Seen::default(), Seen::default());
    for (seen, buffer) in [(&seen, Buffer::EveryEvent), (&coalesced, Buffer::Coalesced)] {
        let recorder = seen.clone();
        informer.handler().buffer(buffer).inline().for_each(move |event| recorder.record(event)).unwrap();
    }
    let cancel = CancellationToken::new();
    let running = informer.spawn(cancel.clone());
    informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap();
    if operation != Operation::FirstList {
        fuse.armed.store(true, Ordering::Relaxed);
    }
    match operation {
        Operation::FirstList => {}
        Operation::Relist => {
            items.break_watches(|| SourceError::expired("compacted"));
            ["b", "c", "d", "b2"].iter().for_each(|name| _ = items.apply(Item::of(name, 0, 2)));
            items.delete(KeyRef::named("a"));
            items.compact();
        }
        Operation::Watch => {
            ["a", "b", "c", "b2", "d", "b"].iter().for_each(|name| _ = items.apply(Item::of(name, 0, 2)));
        }
        Operation::Delete => ["a", "b"].iter().for_each(|name| _ = items.delete(KeyRef::named(name))),
    }
    let last = items.apply(Item::of("z", 0, 3));
    let unidentified = nth.is_none() && accessor == Accessor::Key;
    let reached = informer.wait_for(PartId::ONLY, &last.into()).until(Instant::now() + HOUR).await;
    // No list is ever complete (S-17c).
    let is_incomplete = unidentified && matches!(operation, Operation::FirstList | Operation::Relist);
    assert_eq!(reached.is_err(), is_incomplete, "{case:?}: {reached:?}");
    // A list is repeated if the sink could not read a key.
    tokio::time::sleep(Duration::from_secs(60)).await;

    // An object that panics may be left out, so it is not checked. If its key cannot be read, a list proves no deletion,
    // so deleted objects are not checked either.
    let is_checked = |name: &str| {
        let is_deleted = operation == Operation::Relist && name == "a";
        !(name.starts_with('b') || unidentified && is_deleted)
    };
    let expected: BTreeMap<_, _> = items
        .decodable()
        .into_iter()
        .map(|(key, item)| (key.name().to_owned(), item.value))
        .filter(|(name, _)| is_checked(name))
        .collect();
    let snapshot = informer.snapshot();
    let stored = snapshot.iter().map(|thing| (thing.item.name.clone(), thing.item.value));
    let stored: BTreeMap<_, _> = stored.filter(|(name, _)| is_checked(name)).collect();
    assert_eq!(stored, expected, "{case:?}");
    for seen in [seen, coalesced] {
        let mut seen = seen.0.lock().clone();
        seen.retain(|name, _| is_checked(name));
        assert_eq!(seen, expected, "{case:?}");
    }
    for name in ["c", "z"] {
        assert_eq!(snapshot.by_index("name", name).unwrap().count(), 1, "{case:?}");
    }
    if nth.is_none() && matches!(accessor, Accessor::Key | Accessor::Version) {
        let failures = failures.lock();
        assert!(failures.iter().any(|failure| failure.contains(WHY)), "{case:?}: {failures:?}");
    }
    assert!(!informer.is_stopped(), "{case:?}");
    fuse.armed.store(false, Ordering::Relaxed);
    let calls = fuse.calls.load(Ordering::Relaxed);
    cancel.cancel();
    running.await.unwrap().unwrap();
    calls
}

fn run(case: Case) -> usize {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run_case(case))
}

// contract: S-08b, I-11a, I-11e, I-11c
#[test]
fn panicking_accessor_harms_no_other_object() {
    panics::hide(WHY);
    let mut failed = Vec::new();
    for queue in QUEUES {
        for mode in [WatchListMode::Always, WatchListMode::Off] {
            for accessor in [Accessor::Key, Accessor::Version, Accessor::Uid, Accessor::Labels] {
                for operation in
                    [Operation::FirstList, Operation::Relist, Operation::Watch, Operation::Delete]
                {
                    let case = |nth| Case { queue, mode, accessor, operation, nth };
                    // The number of accessor calls without a panic.
                    let calls = run(case(Some(usize::MAX)));
                    for nth in (0..calls + 2).map(Some).chain([None]) {
                        if let Err(panic) = std::panic::catch_unwind(|| run(case(nth))) {
                            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                            failed.push(text);
                        }
                    }
                }
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} cases failed, such as {}",
        failed.len(),
        failed.join("\n").chars().take(6000).collect::<String>()
    );
}
