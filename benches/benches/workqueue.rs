//! The cost of a work queue: adding, handing out and ending the run of keys, and delays; against a lock around a deque and
//! a set, which is the smallest queue that deduplicates.
//!
//! `workqueue.go` beside this file measures client-go in the same way.
#![allow(missing_docs, reason = "a bench is a program without users")]

use std::collections::{HashSet, VecDeque};
use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kinformer_workqueue::WorkQueue;
use parking_lot::Mutex;

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("default/pod-{number}")).collect()
}

fn queue(durations: bool) -> WorkQueue<String> {
    let builder = WorkQueue::builder();
    if durations { builder.build() } else { builder.without_durations().build() }
}

fn add_get_done(c: &mut Criterion) {
    for count in [1, 1000, 100_000] {
        let keys = keys(count);
        let mut group = c.benchmark_group(format!("add, get, done of {count} keys"));
        group.throughput(Throughput::Elements(count as u64));

        let set = Mutex::new((VecDeque::new(), HashSet::new()));
        group.bench_function("locked deque and set", |b| {
            b.iter_batched(
                || keys.clone(),
                |keys| {
                    for key in keys {
                        let mut set = set.lock();
                        if set.1.insert(key.clone()) {
                            set.0.push_back(key);
                        }
                    }
                    while let Some(key) = { set.lock().0.pop_front() } {
                        set.lock().1.remove(&black_box(key));
                    }
                },
                BatchSize::LargeInput,
            );
        });
        for (name, durations) in [("WorkQueue", true), ("WorkQueue without durations", false)] {
            let queue = queue(durations);
            group.bench_function(name, |b| {
                b.iter_batched(
                    || keys.clone(),
                    |keys| {
                        for key in keys {
                            queue.add(key);
                        }
                        while let Some(item) = queue.try_next() {
                            drop(black_box(item));
                        }
                    },
                    BatchSize::LargeInput,
                );
            });
        }
        group.finish();
    }
}

/// Each key is delayed, and handed out when its delay is over.
fn delays(c: &mut Criterion) {
    const COUNT: usize = 100_000;
    let keys = keys(COUNT);
    let mut group = c.benchmark_group(format!("{COUNT} pending delays"));
    group.throughput(Throughput::Elements(COUNT as u64));
    group.bench_function("add_after", |b| {
        b.iter_batched(
            || (queue(true), keys.clone()),
            |(queue, keys)| {
                for (number, key) in (0_u64..).zip(keys) {
                    // In no order, as backoffs are.
                    let micros = number.wrapping_mul(2_654_435_761) % 1_000_000;
                    queue.add_after(key, Duration::from_secs(3600) + Duration::from_micros(micros));
                }
                queue
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group! {
    name = group;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = add_get_done, delays
}
criterion_main!(group);
