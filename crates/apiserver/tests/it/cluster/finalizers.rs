//! `finalizer()` of kube-runtime, unchanged.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::DeleteParams;
use kube_client::{Api, Error, ResourceExt as _};
use kube_runtime::controller::Action;
use kube_runtime::finalizer::{self, Event, finalizer};

use super::{cluster, config_map};

const NAME: &str = "example.com/cleanup";

async fn reconcile(maps: &Api<ConfigMap>) -> Result<&'static str, finalizer::Error<Error>> {
    let map = Arc::new(maps.get("a").await.unwrap());
    let called = parking_lot::Mutex::new("nothing");
    finalizer(maps, NAME, map, async |event| {
        *called.lock() = match event {
            Event::Apply(_) => "apply",
            Event::Cleanup(_) => "cleanup",
        };
        Ok(Action::await_change())
    })
    .await?;
    Ok(called.into_inner())
}

// contract: E-01r
#[tokio::test]
async fn finalizer_of_kube_runtime_is_added_and_removed() {
    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    cluster.create(&config_map("a")).unwrap();
    // The first call adds the finalizer: a test for null of a list that does not exist.
    assert_eq!(reconcile(&maps).await.unwrap(), "nothing");
    assert_eq!(maps.get("a").await.unwrap().finalizers(), [NAME]);
    assert_eq!(reconcile(&maps).await.unwrap(), "apply");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(reconcile(&maps).await.unwrap(), "cleanup");
    assert!(maps.get_opt("a").await.unwrap().is_none());
    cluster.shutdown().await;
}
