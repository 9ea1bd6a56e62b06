//! Decoding: a page of 500 pods, one line of a watch, and a list of 10,000 pods end to end over loopback from the
//! embedded server.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench is a program without users")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use k8s_openapi::api::core::v1::Pod;
use kinformer_apiserver::ApiServer;
use kinformer_kube::{KubeListerWatcher, client};
use kinformer_reflector::{ListOptions, ListerWatcher};
use kinformer_wire::{ListDecoder, ManagedFields, WatchDecoder};
use serde_json::{Value, json};

/// A pod as created by a controller and updated by a kubelet, with managed fields.
fn pod(n: usize) -> Value {
    let owned = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers":
        {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}, "f:ports": {}, "f:resources": {}}}}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{n:06}"), "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": "6d4cf56db6"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                    "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": owned},
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "subresource": "status",
                    "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": owned},
            ],
        },
        "spec": {
            "nodeName": format!("node-{}", n % 500), "serviceAccountName": "default", "restartPolicy": "Always",
            "containers": [{"name": "web", "image": "registry.example.com/web:1.2.3",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

fn decode(body: &[u8], managed_fields: ManagedFields) -> usize {
    let mut decoder = ListDecoder::new(managed_fields);
    let mut pods = Vec::new();
    for chunk in body.chunks(16 * 1024) {
        decoder.feed(chunk, |item| pods.push(serde_json::from_slice::<Pod>(item).unwrap())).unwrap();
    }
    decoder.finish().unwrap();
    pods.len()
}

fn wire(c: &mut Criterion) {
    let items: Vec<Value> = (0..500).map(pod).collect();
    let page =
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items});
    let page = serde_json::to_vec(&page).unwrap();
    let mut group = c.benchmark_group("a page of 500 pods");
    group.throughput(Throughput::Bytes(page.len() as u64));
    group.bench_function("managed fields dropped", |b| {
        b.iter(|| decode(black_box(&page), ManagedFields::Drop))
    });
    group.bench_function("managed fields kept", |b| b.iter(|| decode(black_box(&page), ManagedFields::Keep)));
    group.bench_function("serde_json on the whole page", |b| {
        #[derive(serde::Deserialize)]
        struct List {
            items: Vec<Pod>,
        }
        b.iter(|| serde_json::from_slice::<List>(black_box(&page)).unwrap().items.len());
    });
    group.finish();

    let line = format!("{}\n", json!({"type": "MODIFIED", "object": pod(1)}));
    c.bench_function("a line of a watch", |b| {
        let mut decoder = WatchDecoder::new(ManagedFields::Drop);
        b.iter(|| {
            let mut pods = 0;
            let read = |event: Result<kinformer_wire::RawEvent<'_>, _>| {
                pods += usize::from(serde_json::from_slice::<Pod>(event.unwrap().object).is_ok());
            };
            decoder.feed(black_box(line.as_bytes()), read).unwrap();
            assert_eq!(pods, 1);
        });
    });

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(ApiServer::builder().start()).unwrap();
    for n in 0..10_000 {
        server.create(pod(n)).unwrap();
    }
    let source =
        runtime.block_on(async { KubeListerWatcher::<Pod>::new(client(server.config().unwrap()).unwrap()) });
    let mut group = c.benchmark_group("a list of 10,000 pods, end to end");
    group.sample_size(10);
    group.bench_function("typed", |b| {
        b.iter(|| {
            let list = runtime.block_on(source.list(ListOptions::at_version(""))).unwrap();
            assert_eq!(list.objects.len(), 10_000);
            list
        });
    });
    group.finish();
    runtime.block_on(server.shutdown());
}

criterion_group! {
    name = group;
    config = Criterion::default().sample_size(20).warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(800));
    targets = wire
}
criterion_main!(group);
