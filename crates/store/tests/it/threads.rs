//! Writers, iterating readers and retained snapshots at the same time, on real threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use kinformer_core::{Delta, KeyRef, Object, PartId, Replacement, ResourceVersion};
use kinformer_store::{IndexFunction, Indexer, NAMESPACE_INDEX, Snapshot};

const OBJECTS: u64 = 600;
const ROUNDS: u64 = 300;

/// Object `n` belongs to one of three writers, each in a namespace of its own.
struct Item {
    namespace: String,
    name: String,
    colour: String,
    version: u64,
}

impl Object for Item {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(&self.namespace, &self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }
}

fn item(writer: u64, n: u64, version: u64) -> Item {
    let colour = format!("c{}", version % 7);
    Item { namespace: format!("w{writer}"), name: format!("i{n}"), colour, version }
}

fn store() -> Indexer<Item> {
    Indexer::builder()
        .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
        .index("colour", IndexFunction::new(|item: &Arc<Item>, values| values.push(&item.colour)))
        .build()
        .unwrap()
}

/// Checks that the objects, the look-ups and the indexes of a snapshot agree. Returns its contents.
fn check_consistency(snapshot: &Snapshot<Item>) -> BTreeMap<String, u64> {
    let contents: BTreeMap<_, _> =
        snapshot.iter().map(|item| (item.key().to_string(), item.version)).collect();
    assert_eq!(contents.len(), snapshot.len(), "no key twice");
    for item in snapshot.iter() {
        assert!(Arc::ptr_eq(snapshot.get(item.key()).unwrap(), item));
    }
    for index in [NAMESPACE_INDEX, "colour"] {
        let mut indexed = 0;
        for value in snapshot.index_values(index).unwrap() {
            for item in snapshot.by_index(index, value).unwrap() {
                let own = if index == "colour" { &item.colour } else { &item.namespace };
                assert_eq!(**own, **value);
                indexed += 1;
            }
        }
        assert_eq!(indexed, contents.len());
    }
    contents
}

// contract: S-02, S-08a, S-10, S-11
#[test]
fn snapshots_are_consistent_under_writes() {
    let store = store();
    let (stop, walks) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        for n in 0..OBJECTS / 60 {
                            let n = (round * 17 + n * 31) % OBJECTS;
                            let version = round * OBJECTS + n;
                            match (round + n) % 5 {
                                0 => drop(store.delete_by_key(item(writer, n, 0).key())),
                                1 => {
                                    // Two objects that are always written together.
                                    let pair = ["left", "right"].map(|name| {
                                        Delta::Added(Arc::new(Item {
                                            name: name.into(),
                                            ..item(writer, n, version)
                                        }))
                                    });
                                    store.transaction(pair).into_result().unwrap();
                                }
                                _ => {
                                    store.update(item(writer, n, version)).unwrap().into_result().unwrap();
                                }
                            }
                        }
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                while !stop.load(Ordering::Relaxed) || walks.load(Ordering::Relaxed) < 3 {
                    let snapshot = store.snapshot();
                    let contents = check_consistency(&snapshot);
                    for writer in 0..3 {
                        let side = |side| contents.get(&format!("w{writer}/{side}"));
                        assert_eq!(side("left"), side("right"), "partial transaction");
                    }
                    kept.push((snapshot, contents));
                    if kept.len() > 8 {
                        let (snapshot, contents) = kept.remove(0);
                        assert_eq!(check_consistency(&snapshot), contents, "a snapshot has changed");
                    }
                    walks.fetch_add(1, Ordering::Relaxed);
                }
                for (snapshot, contents) in kept {
                    assert_eq!(check_consistency(&snapshot), contents, "a snapshot has changed");
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    check_consistency(&store.snapshot());
    assert!(walks.load(Ordering::Relaxed) >= 3);
}

/// Replaces are atomic for readers while other threads read, wait for versions and add indexers.
// contract: S-02, S-05, S-12a, S-12b
#[test]
fn replaces_are_atomic_under_concurrent_use() {
    let store = store();
    let last = ROUNDS;
    thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=last {
                let list = (0..OBJECTS / 4).map(|n| Arc::new(item(0, n + version, version))).collect();
                store.replace(Replacement::new(list, version)).unwrap().into_result().unwrap();
            }
        });
        scope.spawn(|| {
            for n in 0..20 {
                let name = format!("added-{n}");
                let function = IndexFunction::new(|item: &Arc<Item>, values| values.push(&item.colour));
                store.add_indexers([(name.as_str(), function)]).unwrap().into_result().unwrap();
                let snapshot = store.snapshot();
                for value in snapshot.index_values("colour").unwrap() {
                    let len = |index| snapshot.index_len(index, value).unwrap();
                    assert_eq!(len(&name), len("colour"));
                }
            }
        });
        for wanted in [1, last / 2, last] {
            let store = &store;
            scope.spawn(move || {
                futures::executor::block_on(store.wait_for(PartId::ONLY, &wanted.into())).unwrap();
                assert!(store.resource_versions().lowest().reaches(&wanted.into()));
            });
        }
        scope.spawn(|| {
            loop {
                let snapshot = store.snapshot();
                check_consistency(&snapshot);
                let version = snapshot.resource_versions().lowest();
                assert!(
                    snapshot.iter().all(|item| ResourceVersion::number(item.version) == version),
                    "partial replace"
                );
                if version == last.into() {
                    break;
                }
            }
        });
    });
    assert_eq!(store.len() as u64, OBJECTS / 4);
    assert_eq!(store.index_names().len(), 22);
}
