//! The types of the variables that expressions read.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::schema::structural::Structural;

/// The fields of `request`, with their types.
///
/// Follows Kubernetes 1.37 (`BuildRequestType`).
pub(super) static REQUEST: LazyLock<Structural> = LazyLock::new(|| {
    let kind = named("kubernetes.GroupVersionKind", object(&["group", "version", "kind"]));
    let resource = named("kubernetes.GroupVersionResource", object(&["group", "version", "resource"]));
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let extra = json!({"type": "object", "additionalProperties": texts});
    let user = json!({"type": "object", "properties": {"username": {"type": "string"}, "uid": {"type": "string"},
        "groups": texts, "extra": extra}});
    let mut request = object(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    let others = json!({"kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "userInfo": user, "dryRun": {"type": "boolean"}, "options": {"x-kubernetes-int-or-string": true}});
    add(&mut request, others);
    Structural::parse(&request)
});

/// The fields of `namespaceObject`, with their types.
///
/// Follows Kubernetes 1.37 (`BuildNamespaceType`).
pub(super) static NAMESPACE: LazyLock<Structural> = LazyLock::new(|| {
    let time = json!({"type": "string", "format": "date-time"});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let mut metadata = object(&["name", "generateName", "namespace", "UID", "resourceVersion"]);
    let others = json!({"labels": map, "annotations": map, "creationTimestamp": time, "deletionTimestamp": time,
        "deletionGracePeriodSeconds": {"type": "integer"}, "generation": {"type": "integer"}, "finalizers": texts});
    add(&mut metadata, others);
    let mut condition = object(&["status", "type", "message", "reason"]);
    add(&mut condition, json!({"lastTransitionTime": time}));
    let mut status = object(&["phase"]);
    add(&mut status, json!({"conditions": {"type": "array", "items": condition}}));
    let spec = json!({"type": "object", "properties": {"finalizers": texts}});
    Structural::parse(
        &json!({"type": "object", "properties": {"metadata": metadata, "spec": spec, "status": status}}),
    )
});

pub(super) static EMPTY: LazyLock<Structural> =
    LazyLock::new(|| Structural::parse(&json!({"type": "object"})));

fn object(texts: &[&str]) -> Value {
    let properties: serde_json::Map<_, _> =
        texts.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties})
}

/// Names a type that several fields have.
fn named(name: &str, mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("format".into(), name.into());
    }
    object
}

fn add(object: &mut Value, others: Value) {
    let properties = object.get_mut("properties").and_then(Value::as_object_mut);
    if let (Some(properties), Value::Object(others)) = (properties, others) {
        properties.extend(others);
    }
}
