//! The memory of a store beside the objects themselves, in bytes per object, measured by counting every allocation.
//! Fails above the targets: 70 bytes with one index, 90 with four.
#![allow(missing_docs, clippy::print_stdout, reason = "a bench is a program without users")]

use std::alloc::System;
use std::process::ExitCode;

use benches::{Locked, indexer, pod};
use kinformer_core::Replacement;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OBJECTS: usize = 160_000;

/// Bytes allocated and not freed by the closure, per object.
fn kept<S>(fill: impl FnOnce() -> S) -> (f64, S) {
    let region = Region::new(ALLOCATOR);
    let store = fill();
    let change = region.change();
    // These two counters include reallocations.
    let bytes = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
    (bytes as f64 / OBJECTS as f64, store)
}

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let keys = benches::keys(OBJECTS);
    let mut reached = true;
    println!("bytes per object beside the object, {OBJECTS} objects");
    for (indexes, bar) in [(0, 70.0), (1, 70.0), (4, 90.0)] {
        let pods = || (0..OBJECTS).map(|i| pod(&keys, i, 0)).collect::<Vec<_>>();
        let list = pods();
        let (added, _store) = kept(|| {
            let store = indexer(indexes);
            list.iter().for_each(|pod| drop(store.add(pod.clone())));
            store
        });
        let (replaced, _store) = kept(|| {
            let store = indexer(indexes);
            drop(store.replace(Replacement::new(list.clone(), 1)));
            store
        });
        let (locked, _store) = kept(|| {
            let store = Locked::new(indexes);
            list.iter().for_each(|pod| store.update(pod.clone()));
            store
        });
        let verdict = if added.max(replaced) <= bar { "reached" } else { "MISSED" };
        reached &= added.max(replaced) <= bar;
        println!(
            "{indexes} indexes: {added:.1} by adds, {replaced:.1} by a replace (bar {bar}: {verdict}); a lock around hash maps {locked:.1}"
        );
    }
    if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
