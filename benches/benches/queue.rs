//! The cost of pushing and popping: one key, many keys, in batches; against a lock around a deque.
#![allow(missing_docs, reason = "a bench is a program without users")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use benches::{Pod, pod};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kinformer_delta_fifo::{Bound, DeltaFifo, RealFifo};
use parking_lot::Mutex;

const PUSHES: usize = 1000;

fn queue(c: &mut Criterion) {
    let keys = benches::keys(10_000);
    let many: Vec<_> = (0..PUSHES).map(|i| pod(&keys, i, 1)).collect();
    let one: Vec<_> = (0..PUSHES).map(|i| pod(&keys, 0, i as u64)).collect();
    for (name, pods) in [("one key", &one), ("many keys", &many)] {
        let mut group = c.benchmark_group(format!("push and pop, {name}"));
        group.throughput(Throughput::Elements(PUSHES as u64));

        let deque = Mutex::new(VecDeque::new());
        group.bench_function("locked deque", |b| {
            b.iter(|| {
                pods.iter().for_each(|pod| deque.lock().push_back(Arc::clone(pod)));
                while let Some(pod) = { deque.lock().pop_front() } {
                    black_box(pod);
                }
            });
        });
        let real = RealFifo::<Pod>::builder().bound(Bound::Unbounded).build();
        group.bench_function("RealFifo", |b| {
            b.iter(|| {
                pods.iter().for_each(|pod| drop(real.update(pod.clone())));
                while let Ok(Some(popped)) = real.try_pop() {
                    drop(black_box(popped));
                }
            });
        });
        group.bench_function("RealFifo, batches of 1000", |b| {
            b.iter(|| {
                pods.iter().for_each(|pod| drop(real.update(pod.clone())));
                while let Ok(Some(popped)) = real.try_pop_batch(1000) {
                    drop(black_box(popped));
                }
            });
        });
        let delta = DeltaFifo::<Pod>::builder().bound(Bound::Unbounded).build();
        group.bench_function("DeltaFifo", |b| {
            b.iter(|| {
                pods.iter().for_each(|pod| drop(delta.update(pod.clone())));
                while let Ok(Some(popped)) = delta.try_pop() {
                    drop(black_box(popped));
                }
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = group;
    config = Criterion::default().sample_size(20).warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(800));
    targets = queue
}
criterion_main!(group);
