//! The cost of the operations of a store, against a lock around hash maps.
#![allow(missing_docs, clippy::indexing_slicing, reason = "a bench is a program without users")]

use std::future::Future as _;
use std::hint::black_box;
use std::task::{Context, Waker};

use benches::{Locked, filled, indexer, key, moved, pick, pod};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use kinformer_core::{PartId, Replacement, ResourceVersion};

const SIZES: [usize; 3] = [1_000, 10_000, 160_000];

#[expect(clippy::too_many_lines, reason = "one bench for each operation")]
fn store(c: &mut Criterion) {
    for n in SIZES {
        let keys = benches::keys(n);
        let (ours, locked) = (filled(&keys, 1), Locked::filled(&keys, 1));
        let id = |name: &str| BenchmarkId::new(name, n);
        let mut i = 0;
        let mut next = move || {
            i += 1;
            i
        };

        let mut group = c.benchmark_group("get");
        group.bench_function(id("indexer"), |b| b.iter(|| black_box(ours.get(key(&keys[pick(next(), n)])))));
        group.bench_function(id("locked"), |b| b.iter(|| black_box(locked.get(&keys[pick(next(), n)]))));
        group.finish();

        let mut group = c.benchmark_group("update");
        group.bench_function(id("indexer"), |b| b.iter(|| drop(ours.update(pod(&keys, pick(next(), n), 1)))));
        group.bench_function(id("locked"), |b| b.iter(|| locked.update(pod(&keys, pick(next(), n), 1))));
        group.bench_function(id("indexer under a snapshot"), |b| {
            b.iter(|| {
                let _snapshot = ours.snapshot();
                drop(ours.update(pod(&keys, pick(next(), n), 1)));
            });
        });
        group.finish();

        let mut group = c.benchmark_group("list");
        group.bench_function(id("indexer by reference"), |b| {
            b.iter(|| {
                let mut sum = 0;
                ours.snapshot().for_each(|pod| sum += pod.version());
                black_box(sum)
            });
        });
        group.bench_function(id("indexer"), |b| b.iter(|| black_box(ours.list())));
        group.bench_function(id("locked"), |b| b.iter(|| black_box(locked.list())));
        group.finish();

        let mut group = c.benchmark_group("list by index");
        group.bench_function(id("indexer"), |b| {
            b.iter(|| {
                let snapshot = ours.snapshot();
                let pods = snapshot.by_index("namespace", "000").into_iter().flatten();
                black_box(pods.map(|pod| pod.version()).sum::<u64>())
            });
        });
        group.bench_function(id("locked"), |b| {
            b.iter(|| {
                let mut sum = 0;
                locked.visit(0, "000", |pod| sum += pod.version());
                black_box(sum)
            });
        });
        group.finish();

        c.bench_function(&format!("snapshot/{n}"), |b| b.iter(|| black_box(ours.snapshot())));
        c.bench_function(&format!("replace with the same/{n}"), |b| {
            b.iter_batched(
                || ours.list(),
                |list| drop(ours.replace(Replacement::new(list, 1))),
                BatchSize::PerIteration,
            );
        });

        // Removals and changes of index values; the layout was chosen without them.
        let mut group = c.benchmark_group("move, delete and add again, 4 indexes");
        let (ours, locked) = (filled(&keys, 4), Locked::filled(&keys, 4));
        let mut version = 0;
        let mut turn = move || {
            version += 1;
            version
        };
        group.bench_function(id("indexer"), |b| {
            b.iter(|| {
                let (i, version) = (pick(next(), n), turn());
                drop(ours.update(moved(&keys, i, version)));
                drop(ours.delete_by_key(key(&keys[i])));
                drop(ours.add(moved(&keys, i, version + 1)));
            });
        });
        group.bench_function(id("locked"), |b| {
            b.iter(|| {
                let (i, version) = (pick(next(), n), turn());
                locked.update(moved(&keys, i, version));
                locked.delete(&keys[i]);
                locked.update(moved(&keys, i, version + 1));
            });
        });
        group.finish();

        c.bench_function(&format!("add to an empty store/{n}"), |b| {
            b.iter_batched(
                || (0..1000).map(|i| pod(&keys, i, 0)).collect::<Vec<_>>(),
                |pods| {
                    let store = indexer(1);
                    pods.into_iter().for_each(|pod| drop(store.add(pod)));
                    store
                },
                BatchSize::LargeInput,
            );
        });
    }
}

/// The cost of a write while tasks wait for versions that it does not reach, and of ending these waits.
fn waits(c: &mut Criterion) {
    let keys = benches::keys(1_000);
    let mut context = Context::from_waker(Waker::noop());
    for waits in [0, 100, 10_000] {
        let store = filled(&keys, 1);
        let far = ResourceVersion::number(u64::MAX);
        let mut waiting: Vec<_> = (0..waits).map(|_| Box::pin(store.wait_for(PartId::ONLY, &far))).collect();
        waiting.iter_mut().for_each(|wait| assert!(wait.as_mut().poll(&mut context).is_pending()));
        let mut i = 0;
        c.bench_function(&format!("update beside waits/{waits}"), |b| {
            b.iter(|| {
                i += 1;
                drop(store.update(pod(&keys, pick(i, 1_000), i as u64)));
            });
        });
    }
    for waits in [1_000, 10_000] {
        c.bench_function(&format!("end waits/{waits}"), |b| {
            b.iter_batched(
                || filled(&keys, 1),
                |store| {
                    let far = ResourceVersion::number(u64::MAX);
                    let mut waiting: Vec<_> =
                        (0..waits).map(|_| Box::pin(store.wait_for(PartId::ONLY, &far))).collect();
                    waiting
                        .iter_mut()
                        .for_each(|wait| assert!(wait.as_mut().poll(&mut context).is_pending()));
                    store.bookmark(far.clone());
                    waiting.iter_mut().for_each(|wait| assert!(wait.as_mut().poll(&mut context).is_ready()));
                },
                BatchSize::LargeInput,
            );
        });
    }
}

criterion_group! {
    name = group;
    config = Criterion::default().sample_size(20).warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(800));
    targets = store, waits
}
criterion_main!(group);
