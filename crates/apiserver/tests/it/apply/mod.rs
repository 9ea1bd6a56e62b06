//! Server-side apply, and the managers that other writes record.

mod conflicts;
mod managers;
mod objects;
mod subresources;

use http::Method;
use serde_json::{Value, json};

use crate::common::{Answer, Client};

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(super) async fn apply(client: &Client, path: &str, query: &str, object: &Value) -> Answer {
    let path = format!("{path}?{query}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    client.send(Method::PATCH, &path, &headers, object.to_string()).await
}

/// Writes as a program with this name.
pub(super) async fn write_as(
    client: &Client,
    method: Method,
    path: &str,
    agent: &str,
    body: &Value,
) -> Answer {
    client.send(method, path, &[("user-agent", agent)], body.to_string()).await
}

/// Manager, operation, subresource and fields of each entry.
pub(super) fn entries(object: &Value) -> Vec<(String, String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("").to_owned();
    let entries = entries.iter().map(|entry| {
        assert_eq!(entry["fieldsType"], "FieldsV1");
        (
            text(entry, "manager"),
            text(entry, "operation"),
            text(entry, "subresource"),
            entry["fieldsV1"].clone(),
        )
    });
    entries.collect()
}

/// The fields of a manager.
pub(super) fn fields_of(object: &Value, manager: &str) -> Value {
    let found = entries(object).into_iter().find(|entry| entry.0 == manager);
    found.map_or(Value::Null, |entry| entry.3)
}

pub(super) fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(super) fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "a", "image": "1", "ports": [{"containerPort": 80}]}]}}}})
}
