//! The cost of reads from a cache with 10,000 and 100,000 pods: one get, and lists by namespace, by field and by label; and 50
//! tasks that get while 1,000 updates a second arrive.
#![allow(missing_docs, reason = "a bench is a program without users")]
#![allow(clippy::disallowed_methods, reason = "it measures the real time")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use k8s_openapi::api::core::v1::Pod;
use kinformer_apiserver::ApiServer;
use kinformer_cache::{Cache, Kind, Query};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const NAMESPACES: usize = 100;
const NODES: usize = 500;
const APPS: usize = 50;

const READERS: usize = 50;
const UPDATES_PER_SECOND: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap_or_else(|error| unreachable!("no runtime: {error}"))
}

fn pod(number: usize, change: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number}"), "namespace": format!("namespace-{}", number % NAMESPACES),
            "labels": {"app": format!("app-{}", number % APPS)}, "annotations": {"change": change.to_string()},
        },
        "spec": {"nodeName": format!("node-{}", number % NODES), "containers": [{"name": "main", "image": "nginx"}]},
    })
}

/// An API server with pods, and a cache that has them.
struct Cluster {
    server: ApiServer,
    cache: Cache,
    pods: Kind<Pod>,
}

impl Cluster {
    async fn start(pods: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let server = ApiServer::builder().start().await?;
        for number in 0..NAMESPACES {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": format!("namespace-{number}")}});
            server.create(namespace)?;
        }
        for number in 0..pods {
            server.create(pod(number, 0))?;
        }
        let cache = Cache::builder(kinformer_kube::client(server.config()?)?).build().await?;
        let pods = cache.kind::<Pod>();
        pods.index_by_field("spec.nodeName", &["spec", "nodeName"])?;
        cache.start()?;
        cache.wait_for_sync().await?;
        Ok(Self { server, cache, pods })
    }

    async fn end(self) -> Result<(), Box<dyn std::error::Error>> {
        self.cache.shutdown().await?;
        self.server.shutdown().await;
        Ok(())
    }
}

fn expect<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| unreachable!("{error}"))
}

fn reads(c: &mut Criterion) {
    for count in [10_000, 100_000] {
        let runtime = runtime();
        let cluster = runtime.block_on(async { expect(Cluster::start(count).await) });
        let Cluster { pods, .. } = &cluster;
        let mut group = c.benchmark_group("cache");
        let mut number = 0;
        group.bench_function(BenchmarkId::new("get", count), |b| {
            b.iter(|| {
                number = (number + 7_919) % count;
                let key = (&*format!("namespace-{}", number % NAMESPACES), &*format!("pod-{number}"));
                black_box(expect(runtime.block_on(pods.get(key))))
            });
        });
        let all = Query::new;
        for (case, options) in [
            ("list by namespace", all().namespace("namespace-7")),
            ("list by field", all().field("spec.nodeName", "node-7")),
            ("list by label", all().labels(expect("app=app-7".parse()))),
        ] {
            group.bench_function(BenchmarkId::new(case, count), |b| {
                b.iter(|| black_box(expect(runtime.block_on(pods.list(&options)))));
            });
        }
        group.finish();
        expect(runtime.block_on(cluster.end()));
    }
}

/// Updates pods at the rate until the end. An update that comes late does not delay the later ones.
fn update(server: &ApiServer, count: usize, is_over: &AtomicBool) {
    let (mut change, mut due) = (0, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        change += 1;
        expect(server.update(pod(change % count, change)));
        due += Duration::from_secs(1) / UPDATES_PER_SECOND.get();
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Gets pods by many tasks. Returns how long that took.
async fn read(pods: &Kind<Pod>, count: usize, gets: u64) -> Duration {
    let start = Instant::now();
    let readers = (0..READERS).map(|reader| {
        let (pods, gets) = (pods.clone(), usize::try_from(gets).unwrap_or(0).div_ceil(READERS));
        tokio::spawn(async move {
            for get in 0..gets {
                let number = (reader * 200 + get * 7_919) % count;
                let key = (&*format!("namespace-{}", number % NAMESPACES), &*format!("pod-{number}"));
                black_box(expect(pods.get(key).await));
                tokio::task::consume_budget().await;
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        expect(reader.await);
    }
    start.elapsed()
}

/// The time of one get by one of many tasks, while updates arrive.
fn reads_beside_updates(c: &mut Criterion) {
    const COUNT: usize = 10_000;
    let runtime = runtime();
    let cluster = runtime.block_on(async { expect(Cluster::start(COUNT).await) });
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| update(&cluster.server, COUNT, &is_over));
        c.bench_function("cache/get by 50 tasks beside 1,000 updates a second", |b| {
            b.iter_custom(|gets| runtime.block_on(read(&cluster.pods, COUNT, gets)));
        });
        is_over.store(true, Ordering::Relaxed);
    });
    expect(runtime.block_on(cluster.end()));
}

criterion_group!(benches, reads, reads_beside_updates);
criterion_main!(benches);
