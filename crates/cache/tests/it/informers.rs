//! Informers of a cache: requested, shared, removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use std::pin::pin;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer_cache::{Error, Query};
use kube_client::Api;
use kube_client::api::PostParams;
use tokio::time::timeout;

use crate::common::{builder, pod, requests, server, started};
use crate::gate::Gated;

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
    assert!(informer.status().is_stopped());
    pods.get("team-a/web").await.unwrap();
    cache.get::<Pod>("team-a/web").await.unwrap();
    assert_eq!(requests(&server, "pods"), 2 * once, "the next read has requested one informer");
    let other = cache.kind::<Pod>();
    assert!(other.remove_informer().await, "by a handle that has not read");
    let requested = pods.informer().unwrap();
    assert!(other.remove_informer().await, "one that was requested and not used yet");
    assert!(requested.status().is_stopped());
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

/// Reads that wait for a write, and waits for a sync, end when the informer is removed.
// contract: C-06d
#[tokio::test]
async fn removal_ends_waits_for_writes_and_syncs() {
    let gated = Gated::new(|cache| cache).await;
    let maps = gated.cache.kind::<ConfigMap>();
    maps.list(&Query::new()).await.unwrap();
    gated.close();
    let api: Api<ConfigMap> = Api::namespaced(gated.cache.client(), "team-a");
    let metadata = ObjectMeta { name: Some("new".into()), ..ObjectMeta::default() };
    api.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap();
    let all = Query::new();
    let (mut get, mut list) = (pin!(maps.get("team-a/new")), pin!(maps.list(&all)));
    assert!(futures::poll!(get.as_mut()).is_pending() && futures::poll!(list.as_mut()).is_pending());
    assert!(gated.cache.kind::<ConfigMap>().remove_informer().await);
    let ends = timeout(Duration::from_secs(60), async { (get.await.unwrap_err(), list.await.unwrap_err()) });
    let (get, list) = ends.await.unwrap();
    for error in [get, list] {
        assert!(matches!(error, Error::Informer(_)), "{error}");
        assert!(error.to_string().contains("configmaps"), "{error}");
    }
    // The next read requests another informer, which has the write.
    gated.open();
    maps.get("team-a/new").await.unwrap();

    gated.server.faults().inject(kinformer_apiserver::Fault::stall().resource("pods").always());
    let pods = gated.cache.kind::<Pod>().informer().unwrap();
    let cache = gated.cache.clone();
    let (mut one, mut all) = (pin!(pods.wait_for_sync()), pin!(cache.wait_for_sync()));
    assert!(futures::poll!(one.as_mut()).is_pending() && futures::poll!(all.as_mut()).is_pending());
    assert!(pods.remove().await);
    let error = timeout(Duration::from_secs(60), one).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("pods"), "{error}");
    // It waits for the informers that there are.
    timeout(Duration::from_secs(60), all).await.unwrap().unwrap();
    gated.shutdown().await;
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
    let all = Query::new();
    let pods = cache.list::<Pod>(&all).await.unwrap();
    let pods: Vec<_> = pods.iter().map(|pod| pod.key().to_string()).collect();
    assert_eq!(pods, ["team-a/web", "team-b/web"]);
    assert_eq!(cache.list::<ConfigMap>(&all).await.unwrap().len(), 1);
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}
