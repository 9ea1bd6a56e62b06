//! What telling handlers costs: one, ten, a hundred of them, in batches and singly; a slow one beside them; a late
//! one; one with back-pressure beside many; the removal of many. Against a channel for each handler.
//!
//! `publish` is the publisher alone, on the thread of the handlers, so that they sleep meanwhile and take nothing
//! from it; `told` is until the last of them has heard of the last event, on threads of their own.
#![allow(missing_docs)]

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

/// How many events are published at a time before the bench waits for the handlers.
const EVENTS: u64 = 64 * 256;

/// Which handlers listen.
#[derive(Clone, Copy)]
enum Kind {
    Inline,
    Blocking,
}

/// Counts to the end of a run, and wakes the bench there.
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

    /// A counter of events for one handler, which says when it has heard them all.
    fn counter(&self) -> impl FnMut() + Send + 'static {
        let (finish, mut told) = (self.clone(), 0_u64);
        move || {
            told += 1;
            if told.is_multiple_of(EVENTS) && finish.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                finish.all.notify_one();
            }
        }
    }

    fn wait(&self, runtime: &Runtime) {
        runtime.block_on(self.all.notified());
    }
}

/// A processor that runs, with handlers that count.
struct Shared {
    processor: SharedProcessor<Pod>,
    cancel: CancellationToken,
}

impl Shared {
    fn new(runtime: &Runtime, handlers: usize, kind: Kind, finish: &Finish) -> Self {
        let processor = SharedProcessor::new("bench");
        for _ in 0..handlers {
            let mut count = finish.counter();
            let tell = move |event: &Event<Arc<Pod>>| {
                black_box(event);
                count();
            };
            let _ = match kind {
                Kind::Inline => processor.handler().inline().for_each(tell),
                Kind::Blocking => processor.handler().for_each(tell),
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
            #[expect(clippy::disallowed_methods, reason = "the baseline is what others do")]
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

/// Publishes all events, in batches; gives the time that the publisher took.
fn publish(processor: &SharedProcessor<Pod>, objects: &[Arc<Pod>], batch: usize) -> Duration {
    let began = now();
    for batch in objects.chunks(batch) {
        processor.publish(batch.iter().map(|object| Change::updated(object.clone(), object.clone())));
    }
    began.elapsed()
}

/// One object for each event, as in life: the counts of one would be fought over.
fn objects() -> Vec<Arc<Pod>> {
    let keys = benches::keys(1000);
    (0..EVENTS as usize).map(|i| pod(&keys, i, i as u64)).collect()
}

#[expect(clippy::disallowed_methods, reason = "what is measured is the time of this machine")]
fn now() -> Instant {
    Instant::now()
}

fn handlers(c: &mut Criterion) {
    let objects = objects();
    for (name, only_publisher) in [("publish", true), ("told", false)] {
        let runtime = if only_publisher { one_thread() } else { two_threads() };
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(EVENTS));
        // Runs of all events, each to its end; the time is the publisher's or all of it.
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

/// One handler that stands still must not change what publishing costs.
fn slow_one(c: &mut Criterion) {
    let runtime = two_threads();
    let objects = objects();
    let mut group = c.benchmark_group("ten handlers told, batches of 64");
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

/// A handler that joins 100,000 objects, with and without a flow of events beside it.
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
                let told = Arc::new(AtomicU64::new(0));
                let count = told.clone();
                let handler = processor.handler().inline().for_each(move |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
                let Ok(registration) = handler else { unreachable!("the processor runs") };
                let synced = runtime.block_on(registration.synced());
                assert!(synced.is_ok() && told.load(Ordering::Relaxed) >= OBJECTS);
                drop(registration.remove());
            });
        });
        cancel.cancel();
    }
    group.finish();
}

/// Sending one event beside handlers that sleep, without a handler with back-pressure, with one, and after it; and the
/// removal of all of them. The first three must not depend on the number, the last only as sorting does.
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
                // Nothing runs, and what is sent stays in the log: so a fresh one for each run.
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
                        assert!(processor.send([update]).now_or_never().is_some(), "nothing holds it up");
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

/// How many allocations there are for each event, from the publisher to the end of the handlers.
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
        println!("allocations, {handlers} inline handlers, batches of {batch}: {each:.3} an event");
    }
}

criterion_group! {
    name = group;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = allocations, handlers, slow_one, join, many
}
criterion_main!(group);
