//! Updates of objects from which the cache has dropped fields.

use std::error::Error as _;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinformer_cache::{FieldPath, IncompleteUpdate};
use kube_client::Api;
use kube_client::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::common::pod;
use crate::gate::Gated;

fn map(data: serde_json::Value) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "team-a"}, "data": data})
}

/// The fields that a refused update lacks.
fn refused(error: &kube_client::Error) -> &[FieldPath] {
    let kube_client::Error::Service(source) = error else { panic!("{error}") };
    &source.downcast_ref::<IncompleteUpdate>().unwrap_or_else(|| panic!("{error}")).fields
}

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
        "configmaps \"team-a/m\" was not updated: the cache does not have data, so the update would remove them; use a patch \
         or apply"
    );
    for version in [None, Some(String::new())] {
        read.metadata.resource_version = version;
        api.replace("m", &PostParams::default(), &read).await.unwrap_err();
    }

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

/// Controllers read from the listers of the factory.
// contract: C-10e
#[tokio::test]
async fn update_of_an_object_from_a_lister_is_refused() {
    let drop = [FieldPath::new(&["data"])];
    let gated = Gated::new(|cache| {
        cache.options(|options| options.of_kind::<ConfigMap>(|maps| maps.drop_fields(drop)))
    })
    .await;
    gated.server.create(map(json!({"a": "1"}))).unwrap();
    let informer = gated.cache.factory().informer::<ConfigMap>();
    gated.cache.start().unwrap();
    informer.wait_for_sync().await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(gated.cache.client(), "team-a");
    let read = informer.lister().get("team-a/m").unwrap().decode_owned().unwrap().into_arc();
    let error = api.replace("m", &PostParams::default(), &read).await.unwrap_err();
    assert_eq!(refused(&error), [FieldPath::new(&["data"])]);
    assert_eq!(api.get("m").await.unwrap().data.unwrap()["a"], "1");
    gated.shutdown().await;
}

/// The usual way to save memory in controller-runtime.
// contract: C-10d
#[tokio::test]
async fn update_without_what_a_transform_removed_is_refused() {
    let gated = Gated::new(|cache| {
        cache.options(|options| {
            options
                .transform::<ConfigMap>(|map| {
                    map.data.iter_mut().for_each(|data| data.retain(|name, _| name == "kept"));
                    Ok(())
                })
                .transform::<Pod>(|pod| {
                    let containers = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers);
                    containers.for_each(|container| container.env = None);
                    Ok(())
                })
        })
    })
    .await;
    gated.server.create(map(json!({"kept": "1", "other": "2"}))).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(gated.cache.client(), "team-a");
    let read = gated.cache.get::<ConfigMap>("team-a/m").await.unwrap().decode_owned().unwrap().into_arc();
    let mut read = read.as_ref().clone();
    read.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    let error = api.replace("m", &PostParams::default(), &read).await.unwrap_err();
    assert_eq!(refused(&error), [FieldPath::new(&["data", "other"])]);
    // What the server has, what the cache has and removes, and what is new.
    let mut live = api.get("m").await.unwrap();
    live.data.as_mut().unwrap().remove("kept");
    api.replace("m", &PostParams::default(), &live).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"kept": "1", "other": null}}));
    api.patch("m", &PatchParams::default(), &patch).await.unwrap();
    let read = gated.cache.get::<ConfigMap>("team-a/m").await.unwrap().decode_owned().unwrap().into_arc();
    let mut read = read.as_ref().clone();
    read.data.as_mut().unwrap().insert("new".to_owned(), "3".to_owned());
    gated.requests();
    api.replace("m", &PostParams::default(), &read).await.unwrap();
    let list = "GET /api/v1/namespaces/team-a/configmaps?&fieldSelector=metadata.name%3Dm&limit=1";
    assert_eq!(gated.requests()[0], list);

    // Within a list.
    let mut created = pod("team-a", "web", "web", "");
    created["spec"]["containers"][0]["env"] = json!([{"name": "a", "value": "1"}]);
    gated.server.create(created).unwrap();
    let api: Api<Pod> = Api::namespaced(gated.cache.client(), "team-a");
    let read = gated.cache.get::<Pod>("team-a/web").await.unwrap().decode_owned().unwrap().into_arc();
    let error = api.replace("web", &PostParams::default(), &read).await.unwrap_err();
    assert_eq!(refused(&error), [FieldPath::new(&["spec", "containers", "0", "env"])]);
    gated.shutdown().await;
}

/// The server accepts an update without a version, also when the cache is behind.
// contract: C-10f
#[tokio::test]
async fn update_without_a_version_is_refused_while_the_cache_is_behind() {
    let gated = Gated::new(|cache| {
        cache.options(|options| {
            options.transform::<ConfigMap>(|map| {
                map.data.iter_mut().for_each(|data| data.retain(|name, _| name == "kept"));
                Ok(())
            })
        })
    })
    .await;
    gated.server.create(map(json!({"kept": "1", "other": "2"}))).unwrap();
    let read = gated.cache.get::<ConfigMap>("team-a/m").await.unwrap().decode_owned().unwrap().into_arc();
    let mut read = read.as_ref().clone();
    gated.close();
    gated.server.update(map(json!({"kept": "2", "other": "2"}))).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(gated.cache.client(), "team-a");
    let error = api.replace("m", &PostParams::default(), &read).await.unwrap_err();
    assert!(matches!(&error, kube_client::Error::Api(status) if status.code == 409), "{error}");
    read.metadata.resource_version = None;
    let error = api.replace("m", &PostParams::default(), &read).await.unwrap_err();
    assert_eq!(refused(&error), [FieldPath::new(&["data", "other"])]);
    assert_eq!(api.get("m").await.unwrap().data.unwrap()["other"], "2");
    gated.shutdown().await;
}

/// The cached state did not have the field that is dropped, and the server has got it since.
// contract: C-10f
#[tokio::test]
async fn update_without_a_version_keeps_what_the_server_has_got_of_the_dropped_fields() {
    let gated =
        Gated::new(|cache| cache.options(|all| all.drop_fields::<ConfigMap>([FieldPath::new(&["data"])])))
            .await;
    gated.server.create(map(serde_json::Value::Null)).unwrap();
    let read = gated.cache.get::<ConfigMap>("team-a/m").await.unwrap().decode_owned().unwrap().into_arc();
    let mut read = read.as_ref().clone();
    gated.close();
    gated.server.update(map(json!({"other": "2"}))).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(gated.cache.client(), "team-a");
    read.metadata.resource_version = None;
    let error = api.replace("m", &PostParams::default(), &read).await.unwrap_err();
    assert_eq!(refused(&error), [FieldPath::new(&["data"])]);
    assert_eq!(api.get("m").await.unwrap().data.unwrap()["other"], "2");
    gated.shutdown().await;
}

/// Subresources take single fields of an object.
// contract: C-10c
#[tokio::test]
async fn updates_of_subresources_need_only_their_fields() {
    let drop = [FieldPath::new(&["spec", "template"])];
    let gated = Gated::new(|cache| {
        cache.options(|options| options.of_kind::<Deployment>(|deployments| deployments.drop_fields(drop)))
    })
    .await;
    let labels = json!({"app": "web"});
    gated
        .server
        .create(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "team-a"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}}))
        .unwrap();
    let api: Api<Deployment> = Api::namespaced(gated.cache.client(), "team-a");
    gated.cache.get::<Deployment>("team-a/web").await.unwrap();
    let mut body = gated.server.get("apps/v1", "Deployment", "team-a", "web").unwrap().unwrap();
    body["spec"].as_object_mut().unwrap().remove("template");
    let put = |path: &str| {
        let path = format!("/apis/apps/v1/namespaces/team-a/deployments/web{path}");
        let request = http::Request::put(path).header("content-type", "application/json");
        let body = serde_json::to_vec(&body).unwrap();
        let client = gated.cache.client();
        async move { client.request_text(request.body(body).unwrap()).await }
    };
    put("/status").await.unwrap();
    put("").await.unwrap_err();
    let mut scale = api.get_scale("web").await.unwrap();
    scale.spec.as_mut().unwrap().replicas = Some(3);
    api.replace_scale("web", &PostParams::default(), &scale).await.unwrap();
    let read = gated.cache.get::<Deployment>("team-a/web").await.unwrap();
    assert_eq!(read.field::<i32>(&FieldPath::new(&["spec", "replicas"])).unwrap(), Some(3));
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
