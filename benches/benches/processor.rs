//! The cost of delivering events to one, ten and a hundred handlers, in batches and singly; beside a slow handler; to
//! a late handler; with one back-pressure handler among many; and of removing many handlers. The baseline is a
//! channel for each handler.
//!
//! `publish` measures only the publisher, on the thread of the handlers, so that they sleep and take no CPU time from
//! it. `delivered` measures until the last handler has received the last event, with handlers on their own threads.
#![allow(missing_docs, clippy::print_stdout, reason = "a bench is a program without users")]

use std::alloc::System;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use benches::{Pod, pod};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::FutureExt as _;
use kinformer_core::Change;
use kinformer_processor::{Buffer, Event, InitialState, SharedProcessor};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of events published before the bench waits for the handlers.
const EVENTS: u64 = 64 * 256;

/// The kind of the handlers.
#[derive(Clone, Copy)]
enum Kind {
    Inline,
    Blocking,
}

/// Waits for the end of a run.
#[derive(Clone)]
struct Finish {
    left: Arc<AtomicU64>,
    all: Arc<Notify>,
}

impl Finish {
    fn new() -> Self {
        Self { left: Arc::default(), all: Arc::default() }
    }

    fn expect(&self, handlers: usize) {
        self.left.store(handlers as u64, Ordering::SeqCst);
    }

    /// Returns an event counter for one handler, which reports when it has received all events.
    fn counter(&self) -> impl FnMut() + Send + 'static {
        let (finish, mut delivered) = (self.clone(), 0_u64);
        move || {
            delivered += 1;
            if delivered.is_multiple_of(EVENTS) && finish.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                finish.all.notify_one();
            }
        }
    }

    fn wait(&self, runtime: &Runtime) {
        runtime.block_on(self.all.notified());
    }
}

/// A running processor, with counting handlers.
struct Shared {
    processor: SharedProcessor<Pod>,
    cancel: CancellationToken,
}

impl Shared {
    fn new(runtime: &Runtime, handlers: usize, kind: Kind, finish: &Finish) -> Self {
        let processor = SharedProcessor::new("bench");
        for _ in 0..handlers {
            let mut count = finish.counter();
            let count = move |event: &Event<Arc<Pod>>| {
                black_box(event);
                count();
            };
            let _ = match kind {
                Kind::Inline => processor.handler().inline().for_each(count),
                Kind::Blocking => processor.handler().for_each(count),
            };
        }
        let cancel = CancellationToken::new();
        let (run, token) = (processor.clone(), cancel.clone());
        runtime.spawn(async move { run.run(token).await });
        Self { processor, cancel }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// A channel for each handler.
struct Channels(Vec<mpsc::UnboundedSender<Event<Arc<Pod>>>>);

impl Channels {
    fn new(runtime: &Runtime, handlers: usize, finish: &Finish) -> Self {
        let channel = |_| {
            #[expect(clippy::disallowed_methods, reason = "the baseline is a common design")]
            let (sender, mut receiver) = mpsc::unbounded_channel();
            let mut count = finish.counter();
            runtime.spawn(async move {
                while let Some(event) = receiver.recv().await {
                    black_box(event);
                    count();
                }
            });
            sender
        };
        Self((0..handlers).map(channel).collect())
    }

    fn publish(&self, event: &Event<Arc<Pod>>) {
        self.0.iter().for_each(|channel| drop(channel.send(event.clone())));
    }
}

fn runtime(mut builder: Builder) -> Runtime {
    builder.enable_time().build().unwrap_or_else(|error| {
        unreachable!("no runtime: {error}");
    })
}

fn one_thread() -> Runtime {
    runtime(Builder::new_current_thread())
}

fn two_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2);
    runtime(builder)
}

/// Publishes all events in batches, and returns the publisher's time.
fn publish(processor: &SharedProcessor<Pod>, objects: &[Arc<Pod>], batch: usize) -> Duration {
    let began = now();
    for batch in objects.chunks(batch) {
        processor.publish(batch.iter().map(|object| Change::updated(object.clone(), object.clone())));
    }
    began.elapsed()
}

/// One object for each event, as in practice: the reference count of a single object would be contended.
fn objects() -> Vec<Arc<Pod>> {
    let keys = benches::keys(1000);
    (0..EVENTS as usize).map(|i| pod(&keys, i, i as u64)).collect()
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn handlers(c: &mut Criterion) {
    let objects = objects();
    for (name, only_publisher) in [("publish", true), ("delivered", false)] {
        let runtime = if only_publisher { one_thread() } else { two_threads() };
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(EVENTS));
        // Each run delivers all events; its time is the publisher's, or the total.
        let mut bench = |id: BenchmarkId, n: usize, finish: &Finish, run: &dyn Fn() -> Duration| {
            group.bench_function(id, |b| {
                b.iter_custom(|iterations| {
                    (0..iterations)
                        .map(|_| {
                            finish.expect(n);
                            let began = now();
                            let published = run();
                            finish.wait(&runtime);
                            if only_publisher { published } else { began.elapsed() }
                        })
                        .sum()
                });
            });
        };
        for n in [1, 10, 100] {
            let finish = Finish::new();
            for batch in [64, 1] {
                let shared = Shared::new(&runtime, n, Kind::Inline, &finish);
                bench(BenchmarkId::new(format!("inline, batches of {batch}"), n), n, &finish, &|| {
                    publish(&shared.processor, &objects, batch)
                });
            }
            let shared = Shared::new(&runtime, n, Kind::Blocking, &finish);
            bench(BenchmarkId::new("blocking, batches of 64", n), n, &finish, &|| {
                publish(&shared.processor, &objects, 64)
            });
            let channels = Channels::new(&runtime, n, &finish);
            bench(BenchmarkId::new("a channel each", n), n, &finish, &|| {
                let began = now();
                for object in &objects {
                    channels.publish(&Event::updated(object.clone(), object.clone()));
                }
                began.elapsed()
            });
        }
        group.finish();
    }
}

/// One blocked handler must not change the cost of publishing.
fn slow_one(c: &mut Criterion) {
    let runtime = two_threads();
    let objects = objects();
    let mut group = c.benchmark_group("delivery to ten handlers, batches of 64");
    group.throughput(Throughput::Elements(EVENTS));
    for name in ["all fast", "one slow beside them"] {
        group.bench_function(name, |b| {
            b.iter_custom(|iterations| {
                let finish = Finish::new();
                let shared = Shared::new(&runtime, 10, Kind::Inline, &finish);
                if name != "all fast" {
                    let stuck = async |_: Event<Arc<Pod>>| std::future::pending().await;
                    let _ = shared.processor.handler().add_async(stuck);
                }
                (0..iterations)
                    .map(|_| {
                        finish.expect(10);
                        let began = now();
                        publish(&shared.processor, &objects, 64);
                        finish.wait(&runtime);
                        began.elapsed()
                    })
                    .sum()
            });
        });
    }
    group.finish();
}

/// A handler that joins with 100,000 objects, with and without concurrent events.
fn join(c: &mut Criterion) {
    const OBJECTS: u64 = 100_000;
    let runtime = two_threads();
    let keys = benches::keys(OBJECTS as usize);
    let snapshot = benches::filled(&keys, 0).snapshot();
    let state = move || {
        let objects: Vec<_> = snapshot.iter().cloned().collect();
        InitialState::new(0, objects.into_iter())
    };
    let object = pod(&keys, 0, 1);
    let mut group = c.benchmark_group("join of 100,000 objects");
    group.throughput(Throughput::Elements(OBJECTS));
    for flow in ["quiet", "under flow"] {
        let processor = SharedProcessor::builder("bench").initial_state(state.clone()).build();
        let cancel = CancellationToken::new();
        let (run, token) = (processor.clone(), cancel.clone());
        runtime.spawn(async move { run.run(token).await });
        processor.publish_synced();
        if flow == "under flow" {
            let (processor, cancel, object) = (processor.clone(), cancel.clone(), object.clone());
            let _ = processor.handler().inline().for_each(|event| drop(black_box(event.clone())));
            runtime.spawn(async move {
                let mut revision = 0;
                while !cancel.is_cancelled() {
                    revision += 1;
                    let update = || Change::updated(object.clone(), object.clone()).at_revision(revision);
                    processor.publish((0..64).map(|_| update()));
                    tokio::task::yield_now().await;
                }
            });
        }
        group.bench_function(flow, |b| {
            b.iter(|| {
                let delivered = Arc::new(AtomicU64::new(0));
                let count = delivered.clone();
                let handler = processor.handler().inline().for_each(move |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
                let Ok(registration) = handler else { unreachable!("the processor runs") };
                let synced = runtime.block_on(registration.synced());
                assert!(synced.is_ok() && delivered.load(Ordering::Relaxed) >= OBJECTS);
                drop(registration.remove());
            });
        });
        cancel.cancel();
    }
    group.finish();
}

/// The cost of sending one event beside sleeping handlers: without a back-pressure handler, with one, and after its
/// removal; and of removing all handlers. The first three must not depend on the number of handlers, the last only as
/// sorting does.
fn many(c: &mut Criterion) {
    let keys = benches::keys(1);
    let object = pod(&keys, 0, 1);
    let mut group = c.benchmark_group("many handlers");
    for n in [1_000, 16_000] {
        let idle = |_: &Event<Arc<Pod>>| {};
        let filled = || {
            let processor = SharedProcessor::new("bench");
            let added = (0..n).filter_map(|_| processor.handler().inline().for_each(idle).ok());
            let registrations: Vec<_> = added.collect();
            (processor, registrations)
        };
        for name in ["send", "send beside back-pressure", "send after back-pressure"] {
            group.bench_function(BenchmarkId::new(name, n), |b| {
                // Nothing reads the log, so that sent events stay in it; each run gets a new one.
                b.iter_custom(|iterations| {
                    let (processor, _registrations) = filled();
                    let bounded = (name != "send")
                        .then(|| processor.handler().buffer(Buffer::BackPressure(usize::MAX)).for_each(idle));
                    if let Some(Ok(bounded)) = bounded
                        && name == "send after back-pressure"
                    {
                        drop(bounded.remove());
                    }
                    let began = now();
                    for _ in 0..iterations {
                        let update = Change::updated(object.clone(), object.clone());
                        assert!(
                            processor.send([update]).now_or_never().is_some(),
                            "nothing applies back-pressure"
                        );
                    }
                    began.elapsed()
                });
            });
        }
        group.throughput(Throughput::Elements(n));
        group.bench_function(BenchmarkId::new("remove all", n), |b| {
            b.iter_batched(
                filled,
                |(processor, registrations)| {
                    registrations.iter().for_each(|registration| drop(registration.remove()));
                    processor
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Allocations per event, from the publisher to the end of the handlers.
fn allocations(_: &mut Criterion) {
    let runtime = two_threads();
    let objects = objects();
    for (handlers, batch) in [(1, 64), (100, 64), (1, 1), (100, 1)] {
        let finish = Finish::new();
        let shared = Shared::new(&runtime, handlers, Kind::Inline, &finish);
        let run = || {
            finish.expect(handlers);
            publish(&shared.processor, &objects, batch);
            finish.wait(&runtime);
        };
        run();
        let region = Region::new(ALLOCATED);
        run();
        let each = region.change().allocations as f64 / EVENTS as f64;
        println!("allocations, {handlers} inline handlers, batches of {batch}: {each:.3} per event");
    }
}

criterion_group! {
    name = group;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = allocations, handlers, slow_one, join, many
}
criterion_main!(group);
