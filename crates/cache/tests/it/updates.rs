//! Updates of objects from which the cache has dropped fields.

use std::error::Error as _;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_cache::{FieldPath, IncompleteUpdate};
use kube_client::Api;
use kube_client::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::gate::Gated;

// contract: C-10a, C-10b
#[tokio::test]
async fn update_without_dropped_fields_is_refused() {
    let drop = [FieldPath::new(&["data"]), FieldPath::new(&["metadata", "annotations"])];
    let gated = Gated::new(|cache| {
        cache.options(|options| options.of_kind::<ConfigMap>(|maps| maps.drop_fields(drop)))
    })
    .await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "team-a",
        "managedFields": [{"manager": "test", "operation": "Update"}]}, "data": {"a": "1"}});
    gated.server.create(map).unwrap();
    let maps = gated.cache.kind::<ConfigMap>();
    let api: Api<ConfigMap> = Api::namespaced(gated.cache.client(), "team-a");
    let mut read = maps.get("team-a/m").await.unwrap().decode_owned().unwrap().into_arc().as_ref().clone();
    read.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    let error = api.replace("m", &PostParams::default(), &read).await.unwrap_err();
    let kube_client::Error::Service(source) = &error else { panic!("{error}") };
    let refused = source.downcast_ref::<IncompleteUpdate>().unwrap();
    assert_eq!((&*refused.resource, &*refused.key), ("configmaps", "team-a/m"));
    assert_eq!(refused.fields, [FieldPath::new(&["data"])], "there are no annotations");
    assert!(refused.source().is_none());
    assert_eq!(
        refused.to_string(),
        "configmaps \"team-a/m\" was not updated: the cache has dropped data, so the update would remove them; use a patch or \
         apply"
    );
    read.metadata.resource_version = None;
    api.replace("m", &PostParams::default(), &read).await.unwrap_err();

    // A patch does what was meant.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    api.patch("m", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(maps.get("team-a/m").await.unwrap().label("app"), Some("web"));
    // So does an update of what the server has, at the same version.
    let mut live = api.get("m").await.unwrap();
    live.metadata.labels = None;
    api.replace("m", &PostParams::default(), &live).await.unwrap();
    assert_eq!(api.get("m").await.unwrap().data.unwrap()["a"], "1");
    gated.shutdown().await;
}

/// The server keeps the managed fields of an update that has none.
// contract: C-10a
#[tokio::test]
async fn managed_fields_may_be_missing() {
    let gated = Gated::new(|cache| cache).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "team-a"}, "data": {"a": "1"}});
    gated.server.create(map).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(gated.cache.client(), "team-a");
    let read = gated.cache.get::<ConfigMap>("team-a/m").await.unwrap();
    let mut read = read.decode_owned().unwrap().into_arc().as_ref().clone();
    read.data = Some([("a".to_owned(), "2".to_owned())].into());
    api.replace("m", &PostParams::default(), &read).await.unwrap();
    let read = gated.cache.get::<ConfigMap>("team-a/m").await.unwrap();
    assert_eq!(read.decode().unwrap().data.as_ref().unwrap()["a"], "2");
    gated.shutdown().await;
}
