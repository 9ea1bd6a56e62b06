//! What a part of the objects costs: bytes that the server sends, and objects that an informer holds.

use std::ops::Range;
use std::time::Duration;

use crate::common::{factory, soon, synced, version};
use k8s_openapi::api::core::v1::Pod;
use kinformer::{Informer, ObjectKey, ResourceVersion, Scope, ShardField, ShardSelector};
use kinformer_apiserver::{ApiServer, ShardSelectors};
use serde_json::{Value, json};
use tokio::time::Instant;

const END: u128 = 1 << 64;
const PROCESSES: u128 = 3;
const NAMESPACES: usize = 1_000;

fn pod(number: usize, value: &str) -> Value {
    let (namespace, name) = (format!("n{:03}", number % NAMESPACES), format!("web-{number:06}-7d9c5b8f6c"));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web", "value": value}},
        "spec": {
            "nodeName": format!("node-{:04}", number % 1_500), "serviceAccountName": "web",
            "containers": [{"name": "web", "image": "registry.example.com/shop/web:1.17.3",
                "ports": [{"containerPort": 8080}],
                "env": [{"name": "LOG", "value": "info"}, {"name": "SHOP", "value": "eu-central"}],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}}],
        },
        "status": {"phase": "Running", "hostIP": "10.0.0.7", "podIP": "10.1.2.3",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]},
    })
}

/// The number of pods: `PODS`, or few enough for a test.
fn count() -> usize {
    std::env::var("PODS").map_or(NAMESPACES, |text| text.parse().unwrap())
}

async fn server(selectors: ShardSelectors) -> ApiServer {
    let server = ApiServer::builder().shard_selectors(selectors).start().await.unwrap();
    for number in 0..NAMESPACES {
        let metadata = json!({"name": format!("n{number:03}")});
        server.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).unwrap();
    }
    (0..count()).for_each(|number| drop(server.create(pod(number, "1")).unwrap()));
    server
}

/// What one process receives and holds.
struct Cost {
    list: u64,
    watch: u64,
    objects: usize,
}

/// Waits until the informer has the last change of an object of its scope.
async fn wait(pods: &Informer<Pod>, last: Option<(ObjectKey, ResourceVersion)>) {
    if let Some((key, version)) = last {
        pods.wait_for(&key, &version).until(soon()).await.unwrap();
    }
}

/// Lists the objects of a range of hashes, and receives one change of each object of the cluster.
async fn cost(server: &ApiServer, range: Range<u128>) -> Cost {
    let sent = || server.metrics().bytes_sent;
    let factory = factory(server);
    let pods = factory.core().v1().pods();
    let selector = ShardSelector::one(ShardField::Uid, range);
    pods.set_scope(&Scope::shard(selector.clone())).await.unwrap();
    let before = sent();
    synced(&factory).await;
    let listed = sent();
    let mut last = None;
    for number in 0..count() {
        let updated = server.update(pod(number, &format!("{listed}"))).unwrap();
        if selector.matches(updated["metadata"]["uid"].as_str().unwrap()) {
            let [namespace, name] =
                ["namespace", "name"].map(|field| updated["metadata"][field].as_str().unwrap());
            last = Some((ObjectKey::new(namespace, name).unwrap(), version(&updated)));
        }
        if number % 500 == 499 {
            wait(&pods, last.take()).await;
        }
    }
    wait(&pods, last).await;
    let (list, watch) = (listed - before, sent() - listed);
    let objects = pods.snapshot().unwrap().len();
    factory.shutdown().await.unwrap();
    Cost { list, watch, objects }
}

fn share(part: u64, whole: u64) -> f64 {
    f64::from(u32::try_from(part).unwrap()) / f64::from(u32::try_from(whole).unwrap())
}

/// A process that holds a third of the objects receives as much of the bytes of lists and watches from a server that honours shard
/// selectors, and all of them from another one.
// contract: D-17a
#[tokio::test]
async fn a_shard_costs_its_share_of_the_bytes() {
    for selectors in [ShardSelectors::Honoured, ShardSelectors::Ignored] {
        let server = server(selectors).await;
        let all = cost(&server, 0..END).await;
        assert_eq!(all.objects, count());
        println!(
            "{selectors:?}: {} objects, {} bytes of the list, {} of the watch",
            all.objects, all.list, all.watch
        );
        let mut objects = 0;
        for part in 0..PROCESSES {
            let cost = cost(&server, END / PROCESSES * part..END / PROCESSES * (part + 1)).await;
            let held = share(cost.objects as u64, all.objects as u64);
            let (list, watch) = (share(cost.list, all.list), share(cost.watch, all.watch));
            println!(
                "  process {part}: holds {held:.4} of the objects; receives {list:.4} of the list, {watch:.4} of the watch"
            );
            assert!(held < 0.42, "{held}");
            let expected = if selectors == ShardSelectors::Honoured { held } else { 1.0 };
            assert!((list - expected).abs() < 0.015 && (watch - expected).abs() < 0.015, "{list} {watch}");
            objects += cost.objects;
        }
        // one hash in 2^64 is in no range
        assert_eq!(objects, all.objects);
        server.shutdown().await;
    }
}

/// One namespace more costs its share of the bytes of a list of all objects, and at most 2 kB of heads of requests.
// contract: D-17b
#[tokio::test]
async fn one_namespace_more_costs_its_share_of_the_bytes() {
    let server = server(ShardSelectors::Ignored).await;
    let (whole, parts) = (factory(&server), factory(&server));
    let sent = || server.metrics().bytes_sent;
    let before = sent();
    let everything = whole.core().v1().pods();
    synced(&whole).await;
    let all = sent() - before;
    let pods = parts.core().v1().pods();
    let names: Vec<String> = (0..10).map(|number| format!("n{number:03}")).collect();
    let [scope, wider] = [9, 10].map(|count| Scope::namespaces(names.iter().take(count).map(String::as_str)));
    pods.set_scope(&scope).await.unwrap();
    synced(&parts).await;
    let (before, held) = (sent(), pods.snapshot().unwrap().len());
    pods.set_scope(&wider).await.unwrap();
    pods.wait_for_scope().until(soon()).await.unwrap();
    let (added, objects) = (sent() - before, pods.snapshot().unwrap().len() - held);
    println!(
        "{objects} of {} objects: {added} of {all} bytes, {:.5}",
        everything.snapshot().unwrap().len(),
        share(added, all)
    );
    assert_eq!(objects, count() / NAMESPACES);
    assert!(added <= all / 1_000 + 2_000, "{added} of {all}");
    whole.shutdown().await.unwrap();
    parts.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Lists the objects of the first namespaces, and returns the bytes that the server has sent, the time, and the objects.
async fn first_list(server: &ApiServer, scope: &Scope) -> (u64, Duration, usize) {
    let factory = factory(server);
    let pods = factory.core().v1().pods();
    pods.set_scope(scope).await.unwrap();
    let (before, started) = (server.metrics().bytes_sent, Instant::now());
    synced(&factory).await;
    let (sent, elapsed) = (server.metrics().bytes_sent - before, started.elapsed());
    let objects = pods.snapshot().unwrap().len();
    factory.shutdown().await.unwrap();
    (sent, elapsed, objects)
}

/// Both ways to watch the namespaces of a scope list the same objects. Prints what each costs.
// contract: D-16a
#[tokio::test]
async fn a_watch_for_each_namespace_and_one_watch_list_the_same() {
    let server = server(ShardSelectors::Ignored).await;
    first_list(&server, &Scope::all()).await;
    for count in [16, 32, 100, 320, NAMESPACES] {
        let scope = Scope::namespaces((0..count).map(|number| format!("n{number:03}")));
        let [each, one] = [scope.clone().watch_each(), scope.one_watch()];
        let (each, one) = (first_list(&server, &each).await, first_list(&server, &one).await);
        println!("{count} of {NAMESPACES} namespaces: each {each:?}, one {one:?}");
        assert_eq!(each.2, one.2);
        assert_eq!(each.2, count * (self::count() / NAMESPACES));
    }
    server.shutdown().await;
}
