//! The cost of an informer from source to handler, for each queue: one event, many events, and a first list of
//! 100,000 objects. The baseline is a plain loop: one list and one watch into one map, with one callback.
#![allow(missing_docs, reason = "a bench is a program without users")]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::StreamExt as _;
use kinformer_core::{Object as _, ObjectKey, ResourceVersion};
use kinformer_processor::Event;
use kinformer_reflector::{ListOptions, ListerWatcher as _, SourceError, WatchEvent, WatchOptions};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const QUEUES: [QueueKind; 3] = [QueueKind::RealFifo, QueueKind::RealFifoByObject, QueueKind::DeltaFifo];

const LISTED: usize = 100_000;

/// The last version that the callback has received.
#[derive(Clone)]
struct Received(Arc<watch::Sender<u64>>);

impl Received {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    fn record(&self, item: &Item) {
        self.0.send_replace(black_box(item).version);
    }

    async fn wait(&self, version: u64) {
        let _ = self.0.subscribe().wait_for(|received| *received >= version).await;
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap_or_else(|error| {
        unreachable!("no runtime: {error}");
    })
}

fn full(objects: usize) -> FakeSource<Item> {
    let source = FakeSource::new().without_watch_list().without_pages();
    for n in 0..objects {
        source.apply(Item::of(&format!("namespace-{}/object-{n}", n % 100), 0, 0));
    }
    source.compact();
    source
}

fn informer(source: FakeSource<Item>, queue: QueueKind) -> SharedIndexInformer<Item> {
    SharedIndexInformer::builder(source)
        .queue(queue)
        .build()
        .unwrap_or_else(|error| unreachable!("there are no indexes: {error}"))
}

/// Lists and watches into a map until it is dropped. Handles no errors.
async fn plain_loop(
    source: FakeSource<Item>,
    received: Received,
    listed: watch::Sender<bool>,
) -> Result<(), SourceError> {
    let list = source.list(ListOptions::default()).await?;
    let key = |item: &Item| ObjectKey::try_from(item.key()).map_err(SourceError::other);
    let mut map = HashMap::new();
    for item in &list.objects {
        map.insert(key(item)?, item.clone());
        received.record(item);
    }
    listed.send_replace(true);
    let options = WatchOptions::from(list.resource_version.clone(), Duration::from_secs(1_000_000));
    let mut events = source.watch(options).await?;
    while let Some(event) = events.next().await {
        if let WatchEvent::Added(item) | WatchEvent::Modified(item) = event? {
            map.insert(key(&item)?, item.clone());
            received.record(&item);
        }
    }
    Ok(())
}

/// Sends this many events, until the handler has received the last one.
fn feed(c: &mut Criterion, name: &str, runtime: &Runtime, source: &FakeSource<Item>, received: &Received) {
    for events in [1_usize, 1000] {
        let mut group = c.benchmark_group(format!("source to handler, {events} at once"));
        group.throughput(Throughput::Elements(events as u64));
        let names: Vec<_> = (0..events).map(|n| format!("namespace/fed-{n}")).collect();
        group.bench_function(name, |b| {
            b.iter(|| {
                let last = names.iter().fold(0, |_, name| source.apply(Item::of(name, 0, 0)));
                runtime.block_on(received.wait(last));
                // Compaction bounds the history of the source.
                source.compact();
            });
        });
    }
}

fn events(c: &mut Criterion) {
    let runtime = runtime();
    {
        let (source, received, (listed, mut is_listed)) =
            (full(1000), Received::new(), watch::channel(false));
        let task = runtime.spawn(plain_loop(source.clone(), received.clone(), listed));
        let _ = runtime.block_on(is_listed.wait_for(|listed| *listed));
        feed(c, "a plain loop", &runtime, &source, &received);
        task.abort();
    }
    for queue in QUEUES {
        let (source, received) = (full(1000), Received::new());
        let informer = informer(source.clone(), queue);
        let recorder = received.clone();
        let _ = informer.handler().inline().for_each(move |event: &Event<Arc<Item>>| {
            if let Some(item) = event.object() {
                recorder.record(item);
            }
        });
        let cancel = CancellationToken::new();
        let run = informer.clone();
        let token = cancel.clone();
        let task = runtime.spawn(async move { run.run(token).await });
        let _ = runtime.block_on(informer.wait_for_sync());
        feed(c, &format!("{queue:?}"), &runtime, &source, &received);
        cancel.cancel();
        let _ = runtime.block_on(task);
    }
}

fn first_list(c: &mut Criterion) {
    let runtime = runtime();
    let source = full(LISTED);
    let version = source.version();
    let mut group = c.benchmark_group("first list of 100,000 objects, delivered to a handler");
    group.throughput(Throughput::Elements(LISTED as u64)).sample_size(10);
    group.bench_function("a plain loop", |b| {
        b.iter_batched(
            || (Received::new(), watch::channel(false)),
            |(received, (listed, mut is_listed))| {
                let task = runtime.spawn(plain_loop(source.clone(), received, listed));
                let _ = runtime.block_on(is_listed.wait_for(|listed| *listed));
                task.abort();
            },
            BatchSize::PerIteration,
        );
    });
    for queue in QUEUES {
        group.bench_function(format!("{queue:?}"), |b| {
            b.iter_custom(|iterations| {
                (0..iterations).map(|_| list_once(&runtime, &source, queue, &version.into())).sum()
            });
        });
    }
}

/// Measures from the start until the handler has processed the list, without the shutdown.
fn list_once(
    runtime: &Runtime,
    source: &FakeSource<Item>,
    queue: QueueKind,
    version: &ResourceVersion,
) -> Duration {
    let informer = informer(source.clone(), queue);
    let (received, cancel) = (Received::new(), CancellationToken::new());
    let registration = informer.handler().inline().for_each(move |event: &Event<Arc<Item>>| {
        if let Some(item) = event.object() {
            received.record(item);
        }
    });
    let (run, token) = (informer.clone(), cancel.clone());
    #[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
    let began = std::time::Instant::now();
    let task = runtime.spawn(async move { run.run(token).await });
    runtime.block_on(async {
        if let Ok(registration) = &registration {
            let _ = registration.synced().await;
        }
    });
    let took = began.elapsed();
    assert_eq!(informer.snapshot().len(), LISTED);
    assert_eq!(&informer.snapshot().resource_versions().lowest(), version);
    cancel.cancel();
    let _ = runtime.block_on(task);
    took
}

criterion_group!(benches, events, first_list);
criterion_main!(benches);
