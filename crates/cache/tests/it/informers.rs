//! Informers of a cache: requested, shared, removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinformer_cache::ListOptions;

use crate::common::{builder, pod, requests, server, started};

// contract: C-06a
#[tokio::test]
async fn informer_is_shared_and_can_be_removed() {
    let server = server().await;
    server.create(pod("team-a", "web", "web", "node-1")).unwrap();
    let cache = builder(&server).build().await.unwrap();
    let pods = cache.kind::<Pod>();
    let informer = pods.informer().unwrap();
    let added = Arc::new(AtomicUsize::new(0));
    let counter = added.clone();
    let handler = informer
        .for_each(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    assert!(!informer.has_synced());
    cache.start().unwrap();
    cache.wait_for_sync().await.unwrap();
    handler.synced().await.unwrap();
    assert_eq!(added.load(Ordering::Relaxed), 1);
    pods.get("team-a/web").await.unwrap();
    let once = requests(&server, "pods");

    assert!(pods.remove_informer().await);
    assert!(!pods.remove_informer().await, "there is none");
    assert!(informer.is_stopped());
    pods.get("team-a/web").await.unwrap();
    cache.get::<Pod>("team-a/web").await.unwrap();
    assert_eq!(requests(&server, "pods"), 2 * once, "the next read has requested one informer");
    let other = cache.kind::<Pod>();
    assert!(other.remove_informer().await, "by a handle that has not read");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A wait for an informer that is removed ends with an error that names it.
// contract: C-06d
#[tokio::test]
async fn removal_ends_waits() {
    let server = server().await;
    let cache = started(&server).await;
    server.faults().inject(kinformer_apiserver::Fault::stall().resource("pods").always());
    let pods = cache.kind::<Pod>();
    let reading = pods.clone();
    let read = tokio::spawn(async move { reading.get("team-a/web").await });
    let has_begun = async {
        while requests(&server, "pods") == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), has_begun).await.unwrap();
    assert!(pods.remove_informer().await);
    let error = tokio::time::timeout(Duration::from_secs(60), read).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, kinformer_cache::Error::NotSynced { .. }), "{error}");
    assert!(error.to_string().contains("pods"), "{error}");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-04a
#[tokio::test]
async fn options_are_set_by_kind_and_namespace() {
    let server = server().await;
    for (namespace, app) in [("team-a", "web"), ("team-a", "api"), ("team-b", "web")] {
        server.create(pod(namespace, app, app, "node-1")).unwrap();
    }
    let map = |namespace: &str| serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": namespace}});
    server.create(map("team-a")).unwrap();
    server.create(map("team-b")).unwrap();
    let cache = builder(&server)
        .options(|options| {
            options
                .namespaces(["team-a"])
                .of_kind::<Pod>(|pods| pods.labels("app=web").namespaces(["team-a", "team-b"]))
        })
        .build()
        .await
        .unwrap();
    cache.start().unwrap();
    let all = ListOptions::new();
    let pods = cache.list::<Pod>(&all).await.unwrap();
    let pods: Vec<_> = pods.iter().map(|pod| pod.key().to_string()).collect();
    assert_eq!(pods, ["team-a/web", "team-b/web"]);
    assert_eq!(cache.list::<ConfigMap>(&all).await.unwrap().len(), 1);
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}
