//! Memory of a store that was much larger. A test binary of its own, because it counts the allocations of the process;
//! its tests run one at a time.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by a panic")]

#[allow(dead_code, unreachable_pub, reason = "the other test binary uses the rest")]
#[path = "it/common/mod.rs"]
mod common;

use std::alloc::System;
use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Pod, pod};
use kinformer_core::{Delta, KeyRef, Object, Replacement, Tombstone};
use kinformer_store::{IndexFunction, Indexer, Snapshot};
use parking_lot::Mutex;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static TURN: Mutex<()> = Mutex::new(());

const PEAK: usize = 30_000;
const LEFT: usize = 10;

/// One value for each object in one index, one for each namespace in another, several in a third.
fn indexer() -> Indexer<Pod> {
    let node =
        IndexFunction::new(|pod: &Arc<Pod>, values| pod.nodes.iter().for_each(|node| values.push(node)));
    let several = IndexFunction::new(|pod: &Arc<Pod>, values| {
        for number in 0..3 {
            values.push(&format!("{}-{number}", pod.nodes.first().map_or("none", String::as_str)));
        }
    });
    let indexer = Indexer::builder().index("node", node).index("several", several);
    indexer.index("namespace", IndexFunction::by_namespace()).build().unwrap()
}

fn nth(number: usize, node: usize) -> Pod {
    pod(&format!("ns-{}/pod-{number}", number % 7)).node(&format!("node-{node}"))
}

fn fill(indexer: &Indexer<Pod>) {
    let objects = (0..PEAK).map(|number| nth(number, number).arc()).collect();
    indexer.replace(Replacement::new(objects, 1u64)).unwrap().into_result().unwrap();
}

/// Returns the bytes that remain allocated after a store was filled and then shrunk, and the store.
fn left_after(shrink: impl FnOnce(&Indexer<Pod>)) -> (isize, Indexer<Pod>) {
    let indexer = indexer();
    let region = Region::new(ALLOCATOR);
    fill(&indexer);
    shrink(&indexer);
    let change = region.change();
    (change.bytes_allocated as isize - change.bytes_deallocated as isize, indexer)
}

fn check(snapshot: &Snapshot<Pod>, model: &BTreeMap<String, Pod>) {
    assert_eq!(snapshot.len(), model.len());
    assert_eq!(snapshot.iter().count(), model.len());
    let mut nodes = BTreeMap::<&str, usize>::new();
    for (key, pod) in model {
        assert_eq!(
            snapshot.get(KeyRef::parse(key.as_str()).unwrap()).map(|stored| &**stored),
            Some(pod),
            "{key}"
        );
        pod.nodes.iter().for_each(|node| *nodes.entry(node).or_default() += 1);
    }
    assert_eq!(snapshot.index_values("node").unwrap().count(), nodes.len());
    for (node, pods) in nodes {
        assert_eq!(snapshot.by_index("node", node).unwrap().count(), pods, "{node}");
        assert_eq!(snapshot.by_index("several", &format!("{node}-2")).unwrap().count(), pods, "{node}");
    }
    let namespaces = snapshot.index_values("namespace").unwrap();
    let by_namespace = namespaces.map(|value| snapshot.by_index("namespace", value).unwrap().count());
    assert_eq!(by_namespace.sum::<usize>(), model.len());
}

// contract: S-19a
#[test]
fn memory_is_released_after_a_peak() {
    let _turn = TURN.lock();
    type Shrink = fn(&Indexer<Pod>);
    let ways: [(&str, Shrink); 5] = [
        ("deletions", |indexer| {
            for number in LEFT..PEAK {
                let deletion = Tombstone::FinalState(nth(number, number).arc());
                indexer.delete(deletion).unwrap().into_result().unwrap();
            }
        }),
        ("deletions by key", |indexer| {
            for number in LEFT..PEAK {
                assert!(indexer.delete_by_key(nth(number, number).key()).is_some());
            }
        }),
        ("a transaction", |indexer| {
            let deletion = |number| Delta::Deleted(Tombstone::FinalState(nth(number, number).arc()));
            indexer.transaction((LEFT..PEAK).map(deletion)).into_result().unwrap();
        }),
        ("a replace", |indexer| {
            let left = (0..LEFT).map(|number| nth(number, number).arc()).collect();
            indexer.replace(Replacement::new(left, 2u64)).unwrap().into_result().unwrap();
        }),
        ("other values, then a replace", |indexer| {
            for number in 0..PEAK {
                indexer.update(nth(number, 0)).unwrap().into_result().unwrap();
            }
            let left = (0..LEFT).map(|number| nth(number, number).arc()).collect();
            indexer.replace(Replacement::new(left, 2u64)).unwrap().into_result().unwrap();
        }),
    ];
    let model = (0..LEFT).map(|number| nth(number, number)).map(|pod| (pod.key().to_string(), pod)).collect();
    for (way, shrink) in ways {
        let (left, indexer) = left_after(shrink);
        // 200 bytes for each number below the threshold of compaction.
        assert!(left < 200 * 1024, "{way}: {left} bytes are left");
        check(&indexer.snapshot(), &model);
    }
}

// contract: S-19a
#[test]
fn removed_index_values_release_their_memory() {
    let _turn = TURN.lock();
    let (with_one_value, _kept) = left_after(|indexer| {
        for number in 0..PEAK {
            indexer.update(nth(number, 0)).unwrap().into_result().unwrap();
        }
    });
    let without_peak = indexer();
    let region = Region::new(ALLOCATOR);
    for number in 0..PEAK {
        without_peak.add(nth(number, 0)).unwrap().into_result().unwrap();
    }
    let change = region.change();
    let ideal = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    assert!(with_one_value < ideal * 5 / 4, "{with_one_value} bytes, but {ideal} are enough");
}

/// When a store grows and shrinks, no object is lost, and snapshots do not change.
// contract: S-19c, S-10
#[test]
fn resizing_does_not_affect_readers() {
    let _turn = TURN.lock();
    let mut random = fastrand::Rng::with_seed(7);
    let indexer = indexer();
    let mut model = BTreeMap::new();
    let mut snapshots = Vec::new();
    for target in [3_000, 20, 5_000, 600, 2_500, 0, 1_500] {
        while model.len() != target {
            let pod = nth(random.usize(0..6_000), random.usize(0..900));
            let key = pod.key().to_string();
            if model.len() < target {
                indexer.update(pod.clone()).unwrap().into_result().unwrap();
                model.insert(key, pod);
            } else if let Some((key, _)) = model.range(key..).next().or_else(|| model.first_key_value()) {
                let key = key.clone();
                model.remove(&key);
                assert!(indexer.delete_by_key(KeyRef::parse(key.as_str()).unwrap()).is_some());
            }
            if random.u32(0..700) == 0 {
                snapshots.push((indexer.snapshot(), model.clone()));
            }
        }
        snapshots.push((indexer.snapshot(), model.clone()));
    }
    for (snapshot, model) in &snapshots {
        check(snapshot, model);
    }
    for pair in snapshots.windows(2) {
        let [(old, before), (new, after)] = pair else { panic!() };
        let changed: BTreeMap<_, _> = new
            .changes_since(old)
            .map(|change| {
                (
                    change.old.or(change.new).unwrap().key().to_string(),
                    (change.old.is_some(), change.new.is_some()),
                )
            })
            .collect();
        for key in before.keys().chain(after.keys()) {
            let (was, is) = (before.get(key), after.get(key));
            match changed.get(key) {
                Some(change) => assert_eq!(*change, (was.is_some(), is.is_some()), "{key}"),
                None => assert_eq!(was, is, "{key}"),
            }
        }
    }
}

/// A write that compacts allocates in proportion to the objects. No other write does, and there is at most one such
/// write in as many writes.
// contract: S-19b
#[test]
fn few_writes_compact() {
    const LARGE: usize = 40_000;
    let _turn = TURN.lock();
    let indexer = Indexer::<Pod>::new();
    let objects = (0..LARGE).map(|number| nth(number, number).arc()).collect();
    indexer.replace(Replacement::new(objects, 1u64)).unwrap().into_result().unwrap();
    // Each phase ends just beyond the point at which the store is compacted, and then adds and deletes one object.
    let mut writes_since_compaction = LARGE;
    let mut compactions = 0;
    let mut write = |write: &dyn Fn()| {
        let slots = 8 * indexer.len();
        let region = Region::new(ALLOCATOR);
        write();
        let allocated = region.change().bytes_allocated;
        writes_since_compaction += 1;
        if allocated > slots {
            assert!(allocated < 64 * slots, "{allocated} bytes for {} objects", slots / 8);
            assert!(writes_since_compaction > slots / 8, "{writes_since_compaction} writes, {slots}");
            writes_since_compaction = 0;
            compactions += 1;
        }
    };
    for number in 5_000..LARGE {
        write(&|| drop(indexer.delete_by_key(nth(number, number).key())));
    }
    for _ in 0..2_000 {
        write(&|| drop(indexer.add(nth(5_000, 0)).unwrap()));
        write(&|| drop(indexer.delete_by_key(nth(5_000, 0).key())));
    }
    assert_eq!(compactions, 1);
}
