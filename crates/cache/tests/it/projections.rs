//! Reads of metadata and of whole objects of one kind.

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Packed, Projection};
use kinformer_cache::{Cache, Error};
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::common::{builder, server, started};
use crate::gate::Gated;

fn map(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value},
        "metadata": {"name": "a", "namespace": "team-a", "labels": {"value": value}}})
}

async fn write(cache: &Cache, value: &str) {
    let api = Api::<ConfigMap>::namespaced(cache.client(), "team-a");
    api.patch("a", &PatchParams::default(), &Patch::Merge(map(value))).await.unwrap();
}

fn value_of(map: &Packed<ConfigMap>) -> String {
    map.decode().unwrap().data.as_ref().unwrap()["key"].clone()
}

/// The second informer of a kind begins with its first read, and either of them may be behind.
// contract: C-14a, C-14b
#[tokio::test]
async fn each_read_waits_for_the_informer_that_answers_it() {
    let gated = Gated::new(|cache| cache).await;
    gated.server.create(map("1")).unwrap();
    let cache = &gated.cache;
    let (metadata, whole) = (cache.metadata::<ConfigMap>(), cache.kind::<ConfigMap>());
    assert_eq!(metadata.get("team-a/a").await.unwrap().label("value"), Some("1"));
    write(cache, "2").await;
    assert_eq!(value_of(&whole.get("team-a/a").await.unwrap()), "2");
    write(cache, "3").await;
    assert_eq!(metadata.get("team-a/a").await.unwrap().label("value"), Some("3"));
    assert_eq!(value_of(&whole.get("team-a/a").await.unwrap()), "3");

    gated.close_for("PartialObjectMetadata");
    write(cache, "4").await;
    assert_eq!(value_of(&whole.get("team-a/a").await.unwrap()), "4");
    assert_eq!(gated.waits(metadata.get("team-a/a")).await.unwrap().label("value"), Some("4"));
    gated.open();
    gated.close_for("application/vnd.kubernetes.protobuf;drop=");
    write(cache, "5").await;
    assert_eq!(metadata.get("team-a/a").await.unwrap().label("value"), Some("5"));
    assert_eq!(cache.pending_writes(), 1, "the other informer does not have it");
    assert_eq!(value_of(&gated.waits(whole.get("team-a/a")).await.unwrap()), "5");
    assert_eq!(cache.pending_writes(), 0);
    gated.shutdown().await;
}

// contract: C-14c
#[tokio::test]
async fn reads_of_metadata_stay_with_their_informer() {
    let server = server().await;
    server.create(map("1")).unwrap();
    let cache = started(&server).await;
    let read = async || {
        let metadata = cache.metadata::<ConfigMap>();
        metadata.get("team-a/a").await.unwrap();
        metadata.informer().unwrap()
    };
    let first = read().await;
    cache.get::<ConfigMap>("team-a/a").await.unwrap();
    assert_eq!(read().await.id(), first.id(), "although there are whole objects now");
    assert_eq!(first.selection().projection(), Projection::Metadata);
    assert!(cache.metadata::<ConfigMap>().remove_informer().await && first.status().is_stopped());
    let second = read().await;
    assert_eq!(second.selection().projection(), Projection::Whole);
    assert!(cache.kind::<ConfigMap>().remove_informer().await && second.status().is_stopped());
    assert_eq!(read().await.selection().projection(), Projection::Metadata);
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-05
#[tokio::test]
async fn informer_of_metadata_has_no_whole_objects() {
    let server = server().await;
    server.create(map("1")).unwrap();
    let cache = builder(&server).fail_on_missing_informer().build().await.unwrap();
    cache.metadata::<ConfigMap>().informer().unwrap();
    cache.start().unwrap();
    cache.metadata::<ConfigMap>().get("team-a/a").await.unwrap();
    let missing = cache.get::<ConfigMap>("team-a/a").await.unwrap_err();
    assert!(matches!(missing, Error::NotCached { .. }), "{missing:?}");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}
