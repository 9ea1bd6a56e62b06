//! Objects that are created and changed by apply.

use http::Method;
use serde_json::json;

use super::{DEPLOYMENTS, MAPS, apply, deployment, entries, fields_of, map};
use crate::common::{Client, server, version_of, widget_definition};

/// An apply creates a missing object and owns its fields.
// contract: E-15a
#[tokio::test]
async fn apply_creates_and_updates() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{DEPLOYMENTS}/web");
    let made = apply(&client, &path, "fieldManager=me", &deployment("web")).await;
    assert_eq!(made.code, 201);
    let made = made.ok();
    assert_eq!(made["metadata"]["generation"], 1);
    let (manager, operation, subresource, fields) = entries(&made).remove(0);
    assert_eq!((manager.as_str(), operation.as_str(), subresource.as_str()), ("me", "Apply", ""));
    let container = json!({".": {}, "f:image": {}, "f:name": {}, "f:ports": {
        "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}});
    let expected = json!({"f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {"f:replicas": {}, "f:selector": {},
            "f:template": {"f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": container}}}}});
    assert_eq!(fields, expected);
    assert_eq!(client.get(&path).await.ok(), made);

    // the same again changes nothing
    let again = apply(&client, &path, "fieldManager=me", &deployment("web")).await;
    assert_eq!(again.code, 200);
    assert_eq!(again.ok(), made);
    assert_eq!(version_of(&made), server.version());

    let mut changed = deployment("web");
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("2");
    let after = apply(&client, &path, "fieldManager=me", &changed).await.ok();
    assert_eq!(after["spec"]["template"]["spec"]["containers"][0]["image"], "2");
    assert_eq!(after["metadata"]["generation"], 2);
    assert_eq!(entries(&after), entries(&made));
}

/// Fields that no manager applies any more are removed; those of others stay.
// contract: E-15b
#[tokio::test]
async fn fields_that_are_not_applied_any_more_are_removed() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{MAPS}/m");
    apply(&client, &path, "fieldManager=a", &map("m", json!({"x": "1", "y": "1"}))).await.ok();
    let both = apply(&client, &path, "fieldManager=b", &map("m", json!({"y": "1", "z": "1"}))).await.ok();
    assert_eq!(both["data"], json!({"x": "1", "y": "1", "z": "1"}));
    let left = apply(&client, &path, "fieldManager=a", &map("m", json!({}))).await.ok();
    assert_eq!(left["data"], json!({"y": "1", "z": "1"}));
    assert_eq!(fields_of(&left, "a"), json!({"f:data": {}}));
    let none = apply(&client, &path, "fieldManager=b", &map("m", json!({}))).await.ok();
    assert_eq!(none.get("data"), None);
}

/// The items of lists are merged by their keys, in the order of the applied list.
// contract: E-15a
#[tokio::test]
async fn lists_are_merged_by_keys() {
    let server = server().await;
    let client = Client::new(&server);
    let path = "/api/v1/namespaces/default/services/s";
    let service = |ports: serde_json::Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    let dns = |protocol: &str, name: &str| json!({"port": 53, "protocol": protocol, "name": name, "targetPort": 53});
    let http = json!({"port": 80, "protocol": "TCP", "name": "http", "targetPort": 80});
    apply(&client, path, "fieldManager=a", &service(json!([dns("TCP", "t"), dns("UDP", "u")]))).await.ok();
    let more = service(json!([{"port": 80, "name": "http"}, {"port": 53, "name": "t"}]));
    let merged = apply(&client, path, "fieldManager=b", &more).await.ok();
    assert_eq!(merged["spec"]["ports"], json!([http, dns("TCP", "t"), dns("UDP", "u")]));
    let left = apply(&client, path, "fieldManager=a", &service(json!([dns("UDP", "u")]))).await.ok();
    assert_eq!(left["spec"]["ports"], json!([http, dns("TCP", "t"), dns("UDP", "u")]));

    let twice = apply(&client, path, "fieldManager=a", &service(json!([{"port": 1}, {"port": 1}]))).await;
    assert_eq!(
        twice.status(500, ""),
        "failed to create typed patch object (/s; /v1, Kind=Service): .spec.ports: duplicate entries for key \
         [port=1,protocol=\"TCP\"]"
    );
}

// contract: E-15g
#[tokio::test]
async fn dry_run_changes_nothing() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{MAPS}/m");
    let query = "fieldManager=a&dryRun=All";
    let made = apply(&client, &path, query, &map("m", json!({"x": "1"}))).await;
    assert_eq!(made.code, 201);
    assert_eq!(fields_of(&made.ok(), "a"), json!({"f:data": {"f:x": {}}}));
    assert_eq!(client.get(&path).await.code, 404);
    apply(&client, &path, "fieldManager=a", &map("m", json!({"x": "1"}))).await.ok();
    let changed = apply(&client, &path, query, &map("m", json!({"x": "2"}))).await.ok();
    assert_eq!(changed["data"]["x"], "2");
    assert_eq!(client.get(&path).await.ok()["data"]["x"], "1");
}

/// The version of an applied object has to be the newest one.
#[tokio::test]
async fn applied_version_is_a_precondition() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{MAPS}/m");
    let made = apply(&client, &path, "fieldManager=a", &map("m", json!({"x": "1"}))).await.ok();
    let mut applied = map("m", json!({"x": "2"}));
    applied["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let after = apply(&client, &path, "fieldManager=a", &applied).await.ok();
    assert_eq!(fields_of(&after, "a"), json!({"f:data": {"f:x": {}}}));
    applied["data"]["x"] = json!("3");
    let stale = apply(&client, &path, "fieldManager=a", &applied).await;
    assert!(stale.status(409, "Conflict").contains("the object has been modified"));

    let mut foreign = map("other", json!({}));
    foreign["metadata"]["uid"] = json!("u");
    let missing = apply(&client, &format!("{MAPS}/other"), "fieldManager=a", &foreign).await;
    assert_eq!(
        missing.status(409, "Conflict"),
        "Operation cannot be fulfilled on configmaps \"other\": uid mismatch: the provided object specified uid u, \
         and no existing object was found"
    );
}

/// Invalid requests are refused with the messages of Kubernetes.
// contract: E-15g
#[tokio::test]
async fn invalid_applies_are_refused() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{DEPLOYMENTS}/web");
    let query = "fieldManager=me";
    let unnamed = apply(&client, &path, "", &deployment("web")).await;
    assert_eq!(
        unnamed.status(422, "Invalid"),
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    let merge = format!("{path}?force=true");
    assert!(client.patch(&merge, "merge-patch", &json!({})).await.status(422, "Invalid").contains("force"));

    let subject = "failed to create typed patch object (/web; apps/v1, Kind=Deployment)";
    let cases = [
        ("/spec/unknown", json!(1), 500, format!("{subject}: .spec.unknown: field not declared in schema")),
        (
            "/spec/replicas",
            json!("1"),
            500,
            format!("{subject}: .spec.replicas: expected numeric (int or float), got string"),
        ),
        (
            "/metadata/labels/app",
            json!(1),
            500,
            format!(
                "{subject}: .metadata.labels.app: expected string, got &value.valueUnstructured{{Value:1}}"
            ),
        ),
        ("/spec/template", json!("x"), 500, format!("{subject}: .spec.template: expected map, got &{{x}}")),
        ("/metadata/managedFields", json!([]), 400, "metadata.managedFields must be nil".into()),
        ("/kind", json!("Pod"), 400, "invalid object type: apps/v1, Kind=Pod".into()),
        ("/apiVersion", json!("v1"), 400, "invalid object type: /v1, Kind=Deployment".into()),
        (
            "/metadata/name",
            json!("x"),
            400,
            "the name of the object (x) does not match the name on the URL (web)".into(),
        ),
        (
            "/metadata/name",
            json!(null),
            400,
            "the name of the object (web based on URL) was undeterminable: name must be provided".into(),
        ),
    ];
    for (pointer, value, code, message) in cases {
        let mut object = deployment("web");
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        let reason = if code == 400 { "BadRequest" } else { "" };
        assert_eq!(apply(&client, &path, query, &object).await.status(code, reason), message);
    }
    let headers = [("content-type", "application/apply-patch+yaml")];
    for body in ["[1]", "a: b: c", "{"] {
        let url = format!("{path}?{query}");
        let answer = client.send(Method::PATCH, &url, &headers, body).await;
        assert!(answer.status(400, "BadRequest").starts_with("error decoding patch: "), "{body}");
    }
    let empty = client.send(Method::PATCH, &format!("{path}?{query}"), &headers, "").await;
    assert_eq!(empty.status(400, "BadRequest"), "invalid object type: /, Kind=");
    assert_eq!(client.get(&path).await.code, 404);
    let missing = "/api/v1/namespaces/missing/configmaps/m";
    let answer = apply(&client, missing, query, &map("m", json!({}))).await;
    assert_eq!(answer.status(404, "NotFound"), "namespaces \"missing\" not found");
}

/// YAML is applied as JSON is.
#[cfg(feature = "yaml")]
#[tokio::test]
async fn yaml_is_applied() {
    let server = server().await;
    let client = Client::new(&server);
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  a: \"1\"\n";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{MAPS}/m?fieldManager=a");
    let made = client.send(Method::PATCH, &path, &headers, body).await.ok();
    assert_eq!(made["data"], json!({"a": "1"}));
}

/// The lists and maps of custom resources are merged as their definition says.
// contract: E-15a
#[tokio::test]
async fn custom_resources_are_merged_by_their_schema() {
    let server = server().await;
    let client = Client::new(&server);
    let mut definition = widget_definition();
    let text = json!({"type": "string"});
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": text, "value": text}}});
    let spec = json!({"type": "object", "properties": {
        "items": keyed,
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "list": {"type": "array", "items": text},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": spec}});
        version["selectableFields"] = json!([]);
    }
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.ok();
    let path = "/apis/example.com/v1/namespaces/default/widgets/w";
    let widget = |spec: serde_json::Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    let first = widget(json!({"items": [{"name": "a", "value": "1"}], "tags": ["x"], "list": ["l"],
        "whole": {"a": "1"}, "free": {"a": {"b": 1}}}));
    let made = apply(&client, path, "fieldManager=a", &first).await.ok();
    let fields = json!({"f:spec": {"f:items": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:value": {}}},
        "f:tags": {"v:\"x\"": {}}, "f:list": {}, "f:whole": {}, "f:free": {"f:a": {".": {}, "f:b": {}}}}});
    assert_eq!(fields_of(&made, "a"), fields);

    let second = widget(json!({"items": [{"name": "b"}], "tags": ["y"], "free": {"a": {"c": 2}}}));
    let merged = apply(&client, path, "fieldManager=b", &second).await.ok();
    assert_eq!(merged["spec"]["items"], json!([{"name": "a", "value": "1"}, {"name": "b"}]));
    assert_eq!(merged["spec"]["tags"], json!(["x", "y"]));
    assert_eq!(merged["spec"]["free"], json!({"a": {"b": 1, "c": 2}}));
    let taken =
        apply(&client, path, "fieldManager=b", &widget(json!({"list": ["m"], "whole": {"b": "2"}}))).await;
    assert_eq!(
        taken.status(409, "Conflict"),
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.list\n- .spec.whole"
    );
    // the entries of one version are those of the other
    let other = "/apis/example.com/v1beta1/namespaces/default/widgets/w";
    let mut applied = widget(json!({"tags": ["z"]}));
    applied["apiVersion"] = json!("example.com/v1beta1");
    let after = apply(&client, other, "fieldManager=a", &applied).await.ok();
    assert_eq!(after["spec"]["tags"], json!(["y", "z"]));
    assert_eq!(after["spec"].get("list"), None);
    let unknown = apply(&client, path, "fieldManager=a", &widget(json!({"x": 1}))).await;
    assert!(unknown.status(500, "").ends_with(".spec.x: field not declared in schema"));
}
