//! Objects that kube-apiserver 1.37.1 refuses, and what it keeps.

use serde_json::{Value, json};

use crate::common::{Client, config_map, server, version_of, widget, widget_definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn with_metadata(metadata: Value) -> Value {
    let mut map = config_map("a", "1");
    map["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    map
}

// contract: E-01u
#[tokio::test]
async fn metadata_is_validated() {
    let server = server().await;
    let client = Client::new(&server);
    let managers = json!([{"manager": "m".repeat(129), "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:key": {}}}}]);
    for (metadata, message) in [
        (
            json!({"annotations": {"a": "x".repeat(256 * 1024)}}),
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            json!({"finalizers": ["example.com/a", "nodomain"]}),
            "metadata.finalizers[1]: Invalid value: \"nodomain\": name is neither a standard finalizer name nor is it fully \
             qualified",
        ),
        (
            json!({"managedFields": managers}),
            "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
        ),
    ] {
        let refused = client.post(MAPS, &with_metadata(metadata)).await.status(422, "Invalid");
        assert_eq!(refused, format!("ConfigMap \"a\" is invalid: {message}"));
    }
    client.post(MAPS, &with_metadata(json!({"finalizers": ["orphan"]}))).await.ok();
    client.post(&format!("{MAPS}?dryRun=All"), &config_map("b", "1")).await.ok();
    let path = format!("{MAPS}/a");
    let patch = |metadata: Value| json!({"metadata": metadata});
    let refused = client.patch(&path, "merge-patch", &patch(json!({"uid": "other"}))).await;
    let uid = "metadata.uid: Invalid value: \"other\": field is immutable";
    assert_eq!(refused.status(422, "Invalid"), format!("ConfigMap \"a\" is invalid: {uid}"));
    assert_eq!(refused.body["details"]["causes"].as_array().unwrap().len(), 1);
    let time = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let refused = client.patch(&path, "merge-patch", &patch(time)).await.status(422, "Invalid");
    assert!(refused.ends_with(
        "metadata.deletionTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable"
    ));
    let annotated = patch(json!({"annotations": {"a": "x".repeat(256 * 1024)}}));
    client.patch(&path, "merge-patch", &annotated).await.status(422, "Invalid");
}

// contract: E-01x
#[tokio::test]
async fn generations_of_kinds_without_them_are_kept() {
    let server = server().await;
    let client = Client::new(&server);
    let made = client.post(MAPS, &with_metadata(json!({"generation": 7}))).await.ok();
    assert_eq!(made["metadata"]["generation"], 7);
    let path = format!("{MAPS}/a");
    let patched = client.patch(&path, "merge-patch", &json!({"metadata": {"generation": 9}})).await.ok();
    assert_eq!(patched["metadata"]["generation"], 7);
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widget_definition()).await.ok();
    let mut object = widget("w");
    object["metadata"]["generation"] = json!(7);
    assert_eq!(client.post(WIDGETS, &object).await.ok()["metadata"]["generation"], 1);
}

// contract: E-01v
#[tokio::test]
async fn immutable_objects_stay_as_they_are() {
    let server = server().await;
    let client = Client::new(&server);
    for (all, kind, data) in
        [(MAPS, "ConfigMap", json!({"a": "b"})), (SECRETS, "Secret", json!({"a": "Yg=="}))]
    {
        client.post(all, &json!({"metadata": {"name": "a"}, "data": data, "immutable": true})).await.ok();
        let path = format!("{all}/a");
        let patch = json!({"data": {"a": null}, "immutable": null});
        let refused = client.patch(&path, "merge-patch", &patch).await.status(422, "Invalid");
        let why = "Forbidden: field is immutable when `immutable` is set";
        assert_eq!(refused, format!("{kind} \"a\" is invalid: [immutable: {why}, data: {why}]"));
        client.patch(&path, "merge-patch", &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    }
}

// contract: E-01v
#[tokio::test]
async fn large_objects_are_refused() {
    let server = server().await;
    let client = Client::new(&server);
    let large = json!({"metadata": {"name": "a"}, "data": {"a": "x".repeat(1024 * 1024 + 1)}});
    let refused = client.post(MAPS, &large).await.status(422, "Invalid");
    assert_eq!(refused, "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes");
    let large = json!({"metadata": {"name": "a"}, "stringData": {"a": "x".repeat(1024 * 1024 + 1)}});
    let refused = client.post(SECRETS, &large).await.status(422, "Invalid");
    assert_eq!(refused, "Secret \"a\" is invalid: data: Too long: may not be more than 1048576 bytes");
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widget_definition()).await.ok();
    let mut large = widget("w");
    large["spec"]["text"] = json!("x".repeat(1024 * 1024 * 3 / 2));
    assert_eq!(client.post(WIDGETS, &large).await.status(500, ""), "etcdserver: request is too large");
    large["spec"]["text"] = json!("x".repeat(1024 * 1024));
    client.post(WIDGETS, &large).await.ok();
}

// contract: E-01w
#[tokio::test]
async fn scales_of_custom_objects() {
    let server = server().await;
    let client = Client::new(&server);
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widget_definition()).await.ok();
    let without =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
    client.post(WIDGETS, &without).await.ok();
    let path = format!("{WIDGETS}/w/scale");
    assert_eq!(
        client.get(&path).await.status(500, "InternalError"),
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let nothing = client.patch(&path, "merge-patch", &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(
        nothing.status(400, "BadRequest"),
        "the spec replicas field \".spec.replicas\" cannot be empty"
    );
    let scaled = client.patch(&path, "merge-patch", &json!({"spec": {"replicas": 2}})).await.ok();
    assert_eq!(scaled["spec"]["replicas"], 2);
    let below = client.patch(&path, "merge-patch", &json!({"spec": {"replicas": -1}})).await;
    assert_eq!(
        below.status(422, "Invalid"),
        "Widget.example.com \"w\" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer"
    );
    let below =
        client.patch(&format!("{WIDGETS}/w"), "merge-patch", &json!({"spec": {"replicas": -1}})).await;
    below.status(422, "Invalid");
    let applied = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 3}});
    let apply = async |applied: &Value| {
        let path = format!("{path}?fieldManager=me&force=true");
        let headers = [("content-type", "application/apply-patch+yaml")];
        client.send(http::Method::PATCH, &path, &headers, applied.to_string()).await
    };
    let mut same = applied.clone();
    same["spec"]["replicas"] = json!(2);
    apply(&same).await.ok();
    let applied_by = client.get(&format!("{WIDGETS}/w")).await.ok()["metadata"]["managedFields"].clone();
    assert_eq!(applied_by[0]["manager"], "me", "{applied_by}");
    let refused = apply(&applied).await.status(500, "");
    assert_eq!(
        refused,
        "failed to convert new object (/w; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an \
         invalid group/version: autoscaling/v1"
    );
    let renamed = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "v"}, "spec": {"replicas": 3}});
    client.put(&path, &renamed).await.status(400, "BadRequest");
}

/// Go omits a count of zero, so that the patch sets nothing that could have an owner.
// contract: E-01w
#[tokio::test]
async fn nobody_owns_a_count_of_zero() {
    let server = server().await;
    let client = Client::new(&server);
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {"replicas": 2,
        "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
    let made = client.post(&format!("{STATEFUL_SETS}?fieldManager=me"), &set).await.ok();
    let path = format!("{STATEFUL_SETS}/s/scale?fieldManager=scaler");
    let scaled = client.patch(&path, "merge-patch", &json!({"spec": {"replicas": 0}})).await.ok();
    assert_eq!(scaled["spec"], json!({}));
    let after = client.get(&format!("{STATEFUL_SETS}/s")).await.ok();
    assert_eq!(after["spec"]["replicas"], 0);
    assert!(version_of(&after) > version_of(&made));
    let owners: Vec<&Value> = after["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null())
        .collect();
    assert_eq!(owners, Vec::<&Value>::new());
}
