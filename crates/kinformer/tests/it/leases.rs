//! Informers that stop with their last holder.

use std::sync::Arc;

use crate::common::{builder, config_map, factory, server, soon, synced, watches};
use futures::FutureExt as _;
use k8s_openapi::api::autoscaling::v1;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::kube_core::discovery::{ApiResource, Scope};
use kinformer::{Error, Informer, Phase};
use tokio::task::JoinHandle;

// contract: F-07a, F-07b
#[tokio::test]
async fn informer_stops_with_its_last_lease() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let (first, second) = (maps.lease(), maps.lease());
    let third = second.clone();
    synced(&factory).await;
    watches(&server, 1).await;
    let object = Arc::downgrade(first.lister().get(("default", "a")).unwrap().object());
    // A registration is not a holder.
    let handler = first.handler().for_each(|_| {}).unwrap();
    handler.synced().until(soon()).await.unwrap();

    drop(first);
    second.release().await;
    assert_eq!(third.status().phase(), Phase::Running, "one lease is left");
    tokio::time::timeout_at(soon(), third.release()).await.unwrap();
    assert!(handler.is_removed());
    watches(&server, 0).await;
    assert!(object.upgrade().is_none(), "its objects are dropped");

    // A later request creates a new informer.
    let again = maps.lease();
    assert_eq!(again.status().phase(), Phase::NotStarted);
    synced(&factory).await;
    assert_eq!(again.snapshot().unwrap().len(), 1);
    watches(&server, 1).await;
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-26
#[tokio::test]
async fn informers_of_a_resource_are_found_and_not_held() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let resource = ApiResource::erase::<HorizontalPodAutoscaler>(&());
    let v1 = factory.informer::<v1::HorizontalPodAutoscaler>();
    factory.dynamic(resource, Scope::Namespaced);
    let found = factory.informers_of("autoscaling", "horizontalpodautoscalers");
    assert_eq!(
        found.iter().map(|known| &*known.selection().api_resource().version).collect::<Vec<_>>(),
        ["v1", "v2"]
    );
    assert!(found[0].id() == v1.id() && found[1].id() != v1.id());
    assert!(factory.informers_of("", "horizontalpodautoscalers").is_empty());

    // It stores metadata, and stops with its lease.
    let maps = factory.metadata::<ConfigMap>().lease();
    synced(&factory).await;
    let found = factory.informers_of("", "configmaps");
    assert!(found[0].snapshot().unwrap().get(("default", "a")).unwrap().is_metadata_only());
    maps.release().await;
    assert!(found[0].status().is_stopped());
    assert!(factory.informers_of("", "configmaps").is_empty());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-07a, F-07c
#[tokio::test]
async fn kept_informer_runs_without_leases() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let lease = maps.lease();
    let kept = maps.clone();
    kept.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    lease.release().await;
    assert_eq!(kept.status().phase(), Phase::Running);
    watches(&server, 1).await;

    // It can be removed, regardless of its holders.
    let lease = maps.lease();
    assert!(tokio::time::timeout_at(soon(), maps.remove()).await.unwrap());
    assert!(kept.status().is_stopped() && lease.status().is_stopped());
    assert!(!maps.remove().await);
    watches(&server, 0).await;
    drop(lease);

    // A later request creates a new informer.
    let new = factory.core().v1().config_maps();
    synced(&factory).await;
    assert_eq!(new.status().phase(), Phase::Running);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-07c, F-07d
#[tokio::test]
async fn used_view_stays_with_its_removed_informer() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let used = factory.core().v1().config_maps();
    let unused = factory.core().v1().config_maps();
    used.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    assert!(tokio::time::timeout_at(soon(), used.remove()).await.unwrap());
    let lease = used.lease();
    assert!(lease.status().is_stopped() && used.status().is_stopped());
    lease.release().await;

    // The unused view gets a new informer, which the other views do not stop.
    let new = unused.lease();
    assert_eq!(new.status().phase(), Phase::NotStarted);
    synced(&factory).await;
    assert!(!used.remove().await);
    drop(used.lease());
    assert_eq!((new.status().phase(), new.snapshot().unwrap().len()), (Phase::Running, 1));
    assert!(used.status().is_stopped());
    watches(&server, 1).await;
    assert!(tokio::time::timeout_at(soon(), new.remove()).await.unwrap());
    watches(&server, 0).await;
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The first poll of a removal or release stops the informer, also if the future is dropped then.
// contract: F-19d
#[tokio::test]
async fn dropped_removal_and_release_are_done() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    maps.handler().for_each(|_| {}).unwrap();
    let lease = factory.core().v1().secrets().lease();
    let unpolled = factory.core().v1().pods().lease();
    synced(&factory).await;
    watches(&server, 3).await;
    let (secrets, pods) = (Informer::clone(&lease), Informer::clone(&unpolled));
    drop(maps.remove());
    assert_eq!(maps.status().phase(), Phase::Running, "never polled");
    assert!(maps.remove().now_or_never().is_none());
    assert!(lease.release().now_or_never().is_none());
    drop(unpolled.release());
    let stopped = async { tokio::join!(maps.stopped(), secrets.stopped(), pods.stopped()) };
    tokio::time::timeout_at(soon(), stopped).await.unwrap();
    watches(&server, 0).await;
    assert!(!maps.remove().await, "removed before");
    assert_eq!(factory.wait_for_cache_sync().until(soon()).await.iter().len(), 0);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-07f
#[tokio::test]
async fn view_without_its_factory_is_stopped() {
    let server = server().await;
    let factory = builder(&server).name("dropped").build();
    let (maps, metadata) = (factory.core().v1().config_maps(), factory.metadata::<Secret>());
    drop(factory);
    assert!(maps.status().is_stopped() && metadata.lease().status().is_stopped());
    assert_eq!(maps.name(), "dropped/configmaps");
    assert!(maps.handler().for_each(|_| {}).is_err());
    assert!(tokio::time::timeout_at(soon(), maps.wait_for_sync()).await.unwrap().is_err());
    tokio::time::timeout_at(soon(), maps.lease().release()).await.unwrap();
    assert!(!maps.remove().await);
    server.shutdown().await;
}

/// Runs an informer without the factory, until it ends.
async fn run_by_owner(maps: &Informer<ConfigMap>) -> JoinHandle<Result<(), Error>> {
    let running = tokio::spawn({
        let maps = maps.clone();
        async move { maps.run(Default::default()).await }
    });
    maps.wait_for_sync().until(soon()).await.unwrap();
    running
}

/// A removal or a release stops the informer also if the factory does not run it. A start has no effect on it.
// contract: F-07g
#[tokio::test]
async fn informer_run_by_its_owner_is_removed_and_released() {
    let server = server().await;
    let factory = factory(&server);
    for is_started in [false, true] {
        let maps = factory.core().v1().config_maps();
        let running = run_by_owner(&maps).await;
        if is_started {
            factory.start().unwrap();
        }
        assert!(maps.remove().await);
        assert!(maps.status().is_stopped());
        running.await.unwrap().unwrap();

        let lease = factory.core().v1().config_maps().lease();
        let maps = Informer::clone(&lease);
        let running = run_by_owner(&maps).await;
        if is_started {
            factory.start().unwrap();
        }
        lease.release().await;
        assert!(maps.status().is_stopped());
        running.await.unwrap().unwrap();
    }
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-07a
#[tokio::test]
async fn unstarted_informer_is_released() {
    let server = server().await;
    let factory = factory(&server);
    let lease = factory.core().v1().secrets().lease();
    let informer = lease.clone();
    drop(lease);
    let clone = Informer::clone(&informer);
    let waiting = tokio::spawn(async move { clone.wait_for_sync().await });
    tokio::time::timeout_at(soon(), informer.release()).await.unwrap();
    let waited = tokio::time::timeout_at(soon(), waiting).await.unwrap().unwrap();
    assert!(waited.is_err(), "{waited:?}");
    factory.start().unwrap();
    assert_eq!(factory.wait_for_cache_sync().await.iter().len(), 0);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-07a, F-07b
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_are_taken_and_released_concurrently() {
    let server = server().await;
    let factory = factory(&server);
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let factory = factory.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    let lease = factory.core().v1().secrets().lease();
                    assert!(!lease.status().is_stopped(), "a stopped informer was handed out");
                    factory.start().unwrap();
                    let handler = lease.handler().for_each(|_| {}).unwrap();
                    // It runs, and is not stopped while it is held.
                    lease.wait_for_sync().until(soon()).await.unwrap();
                    handler.synced().until(soon()).await.unwrap();
                    assert_eq!(lease.status().phase(), Phase::Running);
                    drop(lease);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    watches(&server, 0).await;
    // The registry is empty as well.
    assert_eq!(factory.wait_for_cache_sync().await.iter().len(), 0);
    let informer = factory.informer::<Secret>();
    factory.informer::<ConfigMap>();
    synced(&factory).await;
    assert_eq!(informer.status().phase(), Phase::Running);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}
