//! Writes by other means than the cache's client.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinformer::ObjectKey;
use kinformer_cache::WriteTracker;
use kube_core::discovery::ApiResource;

use crate::common::pod;
use crate::gate::Gated;

// contract: C-11a, C-11b
#[tokio::test]
async fn owner_is_ready_when_the_cache_has_what_was_written() {
    let gated = Gated::new(|cache| cache).await;
    let pods = gated.cache.kind::<Pod>();
    let resource = ApiResource::erase::<Pod>(&());
    let tracker = WriteTracker::new(&gated.cache);
    let owner = ObjectKey::new("team-a", "owner").unwrap();
    tracker.ensure_ready(&owner).unwrap();
    pods.synced_informer().await.unwrap();
    gated.close();
    let version = |name: &str| {
        let created = gated.server.create(pod("team-a", name, "web", "node-1")).unwrap();
        created["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    };
    let (first, second) = (version("web-0"), version("web-1"));
    tracker.wrote(&owner, "uid-1", &resource, second.as_str().into());
    tracker.wrote(&owner, "uid-1", &resource, first.as_str().into());
    let error = tracker.ensure_ready(&owner).unwrap_err();
    assert_eq!((&*error.resource, error.written.to_string()), ("pods", second.clone()));
    let start = format!(
        "team-a/owner is not ready: pods were written at version {second}, and the cache is at version "
    );
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(tracker.ensure_ready(&ObjectKey::new("team-a", "other").unwrap()).is_ok());

    // An owner with another UID begins anew, and only its own end is one.
    tracker.clear(&owner, "uid-0");
    assert!(tracker.ensure_ready(&owner).is_err());
    tracker.wrote(&owner, "uid-2", &resource, "1".into());
    tracker.ensure_ready(&owner).unwrap();
    tracker.wrote(&owner, "uid-2", &resource, second.as_str().into());
    tracker.clear(&owner, "uid-2");
    tracker.ensure_ready(&owner).unwrap();

    tracker.wrote(&owner, "uid-2", &resource, second.as_str().into());
    assert!(tracker.ensure_ready(&owner).is_err());
    gated.open();
    let informer = pods.informer().unwrap();
    informer.wait_for(("team-a", "web-1"), &second.as_str().into()).await.unwrap();
    tracker.ensure_ready(&owner).unwrap();
    gated.shutdown().await;
}

/// Controllers read from the informers of the factory.
// contract: C-11b
#[tokio::test]
async fn owner_is_ready_when_an_informer_of_the_factory_has_what_was_written() {
    let gated = Gated::new(|cache| cache).await;
    let pods = gated.cache.factory().informer::<Pod>();
    gated.cache.start().unwrap();
    pods.wait_for_sync().await.unwrap();
    let tracker = WriteTracker::new(&gated.cache);
    let owner = ObjectKey::named("owner").unwrap();
    let created = gated.server.create(pod("team-a", "web", "web", "")).unwrap();
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    tracker.wrote(&owner, "uid-1", &ApiResource::erase::<Pod>(&()), version.into());
    pods.wait_for(("team-a", "web"), &version.into()).await.unwrap();
    tracker.ensure_ready(&owner).unwrap();
    gated.shutdown().await;
}

/// A resource without an informer has no version.
// contract: C-11b
#[tokio::test]
async fn resource_without_informer_is_not_ready() {
    let gated = Gated::new(|cache| cache).await;
    let tracker = WriteTracker::new(&gated.cache);
    let owner = ObjectKey::named("owner").unwrap();
    tracker.wrote(&owner, "uid-1", &ApiResource::erase::<ConfigMap>(&()), "5".into());
    let error = tracker.ensure_ready(&owner).unwrap_err();
    assert!(error.read.is_unset());
    gated.shutdown().await;
}
