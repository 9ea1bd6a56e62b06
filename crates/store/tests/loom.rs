//! Publication and waiting under every interleaving of a few threads.
//! A test binary of its own, because the model checker needs a flag of the compiler.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test -p kinformer-store --release --test loom`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by a panic")]

use std::sync::Arc;

use kinformer_core::{Delta, KeyRef, Object, PartId, Replacement, ResourceVersion};
use kinformer_store::{Error, IndexFunction, Indexer, Lazy};
use loom::future::block_on;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{self, JoinHandle};

struct Item {
    name: &'static str,
    version: u64,
}

impl Object for Item {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }
}

fn item(name: &'static str, version: u64) -> Arc<Item> {
    Arc::new(Item { name, version })
}

/// Creates a store with an index by version.
fn store() -> Arc<Indexer<Item>> {
    let by_version =
        IndexFunction::new(|item: &Arc<Item>, values| values.push_fmt(format_args!("v{}", item.version)));
    Arc::new(Indexer::builder().index("version", by_version).build().unwrap())
}

fn write(store: &Indexer<Item>, delta: Delta<Item>) {
    store.apply(delta).errors.into_result().unwrap();
}

fn replace<const N: usize>(store: &Indexer<Item>, objects: [Arc<Item>; N], version: u64) {
    let list = Replacement::new(objects.into(), version);
    Indexer::replace(store, list).unwrap().into_result().unwrap();
}

/// Runs `work` on a thread of its own.
fn spawn<R: 'static>(
    store: &Arc<Indexer<Item>>,
    work: impl FnOnce(&Indexer<Item>) -> R + 'static,
) -> JoinHandle<R> {
    let store = store.clone();
    thread::spawn(move || work(&store))
}

/// Checks that objects, look-ups and the index agree. Returns the objects.
fn check_consistency(store: &Indexer<Item>) -> Vec<(&'static str, u64)> {
    let snapshot = store.snapshot();
    let mut items: Vec<_> = snapshot.iter().map(|item| (item.name, item.version)).collect();
    items.sort_unstable();
    assert_eq!(items.len(), snapshot.len());
    let mut indexed = 0;
    for value in snapshot.index_values("version").unwrap() {
        for item in snapshot.by_index("version", value).unwrap() {
            assert_eq!(format!("v{}", item.version), **value);
            indexed += 1;
        }
    }
    assert_eq!(indexed, items.len(), "objects and index agree");
    for (name, version) in &items {
        assert_eq!(snapshot.get(KeyRef::named(name)).unwrap().version, *version);
    }
    items
}

// contract: S-02, S-10
#[test]
fn snapshots_are_consistent_under_writes() {
    loom::model(|| {
        let store = store();
        let writers = [("a", 1), ("b", 2)].map(|(name, version)| {
            spawn(&store, move |store| {
                write(store, Delta::Added(item(name, version)));
                write(store, Delta::Updated(item("both", version)));
            })
        });
        check_consistency(&store);
        check_consistency(&store);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let items = check_consistency(&store);
        assert_eq!(items[..2], [("a", 1), ("b", 2)]);
        assert_eq!((items.len(), store.resource_versions().lowest()), (3, 2u64.into()));
    });
}

// contract: S-02, S-08a
#[test]
fn transaction_and_replace_are_atomic() {
    loom::model(|| {
        let store = store();
        write(&store, Delta::Added(item("a", 1)));
        let writer = spawn(&store, |store| {
            let both = [item("a", 2), item("b", 2)].map(Delta::Added);
            store.transaction(both).into_result().unwrap();
            replace(store, [item("b", 3), item("c", 3)], 3);
        });
        let states = [vec![("a", 1)], vec![("a", 2), ("b", 2)], vec![("b", 3), ("c", 3)]];
        let mut last = 0;
        for _ in 0..2 {
            let seen = check_consistency(&store);
            let state = states.iter().position(|state| *state == seen);
            assert!(state.is_some_and(|state| state >= last), "{seen:?}");
            last = state.unwrap();
        }
        writer.join().unwrap();
        assert_eq!(check_consistency(&store), states[2]);
    });
}

// contract: S-02
#[test]
fn concurrent_write_and_replace_lose_nothing() {
    loom::model(|| {
        let store = store();
        let writer = spawn(&store, |store| replace(store, [item("a", 5)], 5));
        write(&store, Delta::Added(item("b", 6)));
        writer.join().unwrap();
        let items = check_consistency(&store);
        assert!(items == [("a", 5)] || items == [("a", 5), ("b", 6)], "{items:?}");
    });
}

// contract: S-05
#[test]
fn added_index_misses_no_write() {
    loom::model(|| {
        let store = store();
        write(&store, Delta::Added(item("a", 1)));
        let writer = spawn(&store, |store| {
            write(store, Delta::Updated(item("a", 2)));
            write(store, Delta::Added(item("b", 2)));
        });
        let added =
            IndexFunction::new(|item: &Arc<Item>, values| values.push_fmt(format_args!("{}", item.version)));
        store.add_indexers([("added", added)]).unwrap().into_result().unwrap();
        let snapshot = store.snapshot();
        let indexed: usize = ["1", "2"]
            .into_iter()
            .map(|version| {
                let items = snapshot.by_index("added", version).unwrap();
                items.inspect(|item| assert_eq!(item.version.to_string(), version)).count()
            })
            .sum();
        assert_eq!(indexed, snapshot.len());
        writer.join().unwrap();
        assert_eq!(store.by_index("added", "2").unwrap().len(), 2);
    });
}

// contract: S-12a, S-12b
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let store = store();
        let waiters = [1u64, 2].map(|version| {
            spawn(&store, move |store| {
                block_on(store.wait_for(PartId::ONLY, &version.into())).unwrap();
                assert!(store.resource_versions().lowest().reaches(&version.into()));
            })
        });
        Indexer::bookmark(&store, 1u64);
        write(&store, Delta::Added(item("a", 2)));
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

// contract: S-12c
#[test]
fn stop_ends_every_wait() {
    loom::model(|| {
        let store = store();
        let waiter = spawn(&store, |store| block_on(store.wait_for(PartId::ONLY, &2u64.into())));
        Indexer::bookmark(&store, 1u64);
        store.stop();
        let ended = waiter.join().unwrap();
        assert!(matches!(ended, Err(Error::Stopped { .. })));
    });
}

/// A get after a notification sees what was written before it, whichever computations are in progress. The counter has no
/// ordering of its own.
// contract: S-29b
#[test]
fn lazy_value_is_never_older_than_the_notification() {
    loom::model(|| {
        let reality = Arc::new(AtomicU64::new(0));
        let read = reality.clone();
        let lazy = Arc::new(Lazy::<u64>::new(move || Ok(read.load(Ordering::Relaxed))));
        let other = thread::spawn({
            let (reality, lazy) = (reality.clone(), lazy.clone());
            move || {
                reality.store(1, Ordering::Relaxed);
                lazy.notify();
                let Ok(value) = lazy.get();
                assert_eq!(*value, 1);
            }
        });
        let Ok(before) = lazy.get();
        assert!(*before <= 1);
        other.join().unwrap();
        let Ok(after) = lazy.get();
        assert_eq!(*after, 1);
    });
}

/// Every waiting get is woken, also after an error; the model checker reports a wait without an end.
// contract: S-29a, S-29c
#[test]
fn lazy_value_is_computed_once_after_an_error() {
    loom::model(|| {
        let computed = Arc::new(AtomicU64::new(0));
        let counter = computed.clone();
        let compute = move || match counter.fetch_add(1, Ordering::Relaxed) {
            0 => Err("not yet"),
            _ => Ok(()),
        };
        let lazy = Arc::new(Lazy::new(compute));
        let get = |lazy: Arc<Lazy<(), &'static str>>| move || lazy.get().is_ok();
        let others = [thread::spawn(get(lazy.clone())), thread::spawn(get(lazy.clone()))];
        let mut ok = u32::from(lazy.get().is_ok());
        for other in others {
            ok += u32::from(other.join().unwrap());
        }
        assert_eq!((ok, computed.load(Ordering::Relaxed)), (2, 2));
    });
}
