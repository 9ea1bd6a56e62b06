//! Pods that carry a value, in lists and in the lines of a watch.

use kinformer_testing::scripted_http::Answer;
use serde_json::{Value, json};

/// A pod that carries a value.
pub(crate) fn pod(name: &str, version: u64, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": {"value": value},
        },
    })
}

pub(crate) fn list(version: &str, items: Vec<Value>) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

/// A list of pods, as an answer.
pub(crate) fn answer_list(version: &str, items: Vec<Value>) -> Answer {
    Answer::json(&list(version, items))
}

/// A line of a watch.
pub(crate) fn event(event_type: &str, object: Value) -> String {
    json!({"type": event_type, "object": object}).to_string()
}

pub(crate) fn bookmark(version: &str) -> String {
    event("BOOKMARK", json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version}}))
}

/// The same line with a byte that JSON does not allow, in the field name of the metadata.
pub(crate) fn damaged(line: &str) -> String {
    let damaged = line.replace("\"metadata\"", "\"metad\u{1}ta\"");
    assert_ne!(damaged, line);
    damaged
}
