//! A row of a list: the key, the age and the status of an object, read without decoding it.

use std::sync::LazyLock;

use kinformer::{FieldPath, PackedObject};
use serde::{Deserialize, Serialize};

use crate::hidden::HiddenFields;

/// A row of a list of objects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    key: String,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
    resource_version: String,
    created: Option<String>,
    status: String,
    deleting: bool,
}

/// The parts of an object's metadata that a row needs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    reason: Option<String>,
    container_statuses: Option<Vec<ContainerStatus>>,
    conditions: Option<Vec<Condition>>,
    ready_replicas: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: Option<ContainerState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Reason>,
    terminated: Option<Reason>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reason {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    name: String,
    status: String,
    reason: Option<String>,
}

static STATUS: LazyLock<FieldPath> = LazyLock::new(|| FieldPath::new(&["status"]));
static REPLICAS: LazyLock<FieldPath> = LazyLock::new(|| FieldPath::new(&["spec", "replicas"]));

/// The kinds whose status is the number of ready replicas.
const WITH_REPLICAS: [&str; 4] = ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"];

impl Row {
    pub(crate) fn of(object: &PackedObject, kind: &str, hidden: &HiddenFields) -> Self {
        let metadata = metadata(object);
        let deleting = metadata.deletion_timestamp.is_some() && !hidden.hides("metadata.deletionTimestamp");
        Self {
            key: object.key().to_string(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
            uid: object.uid().map(str::to_owned),
            resource_version: object.resource_version().to_string(),
            created: metadata.creation_timestamp.filter(|_| !hidden.hides("metadata.creationTimestamp")),
            status: if deleting { "Terminating".into() } else { status(object, kind, hidden) },
            deleting,
        }
    }
}

fn metadata(object: &PackedObject) -> Metadata {
    object.metadata_as().ok().flatten().unwrap_or_default()
}

/// The creation time, for sorting: RFC 3339 times in UTC are in the order of their texts.
pub(crate) fn created(object: &PackedObject) -> String {
    metadata(object).creation_timestamp.unwrap_or_default()
}

/// The status as `kubectl get` would show it, or a condition; empty if there is none, or if its fields are hidden.
///
/// Follows kubectl 1.37 (`printPod`, `printNode`, `printDeployment`) where a kind has such a column.
pub(crate) fn status(object: &PackedObject, kind: &str, hidden: &HiddenFields) -> String {
    if hidden.touches("status") {
        return String::new();
    }
    // A status of other types than expected has no summary.
    let status: Status = object.field(&STATUS).ok().flatten().unwrap_or_default();
    if WITH_REPLICAS.contains(&kind) {
        if hidden.hides("spec.replicas") {
            return String::new();
        }
        let wanted: Option<i64> = object.field(&REPLICAS).ok().flatten();
        return format!("{}/{} ready", status.ready_replicas.unwrap_or(0), wanted.unwrap_or(1));
    }
    if kind == "Pod"
        && let Some(reason) = status.reason.clone().or_else(|| container_reason(&status))
    {
        return reason;
    }
    if let Some(phase) = status.phase {
        return phase;
    }
    let condition = |name: &str| status.conditions.iter().flatten().find(|condition| condition.name == name);
    let Some(condition) = condition("Ready").or_else(|| condition("Available")) else { return String::new() };
    match (condition.status.as_str(), &condition.reason) {
        ("True", _) => condition.name.clone(),
        (_, Some(reason)) if kind != "Node" => format!("Not{}: {reason}", condition.name),
        _ => format!("Not{}", condition.name),
    }
}

/// Why a container waits or has ended, such as `CrashLoopBackOff`.
fn container_reason(status: &Status) -> Option<String> {
    let states = status.container_statuses.iter().flatten().filter_map(|container| container.state.as_ref());
    let reasons = states.filter_map(|state| state.waiting.as_ref().or(state.terminated.as_ref()));
    reasons.filter_map(|reason| reason.reason.clone()).find(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests {
    use kinformer::ObjectDecoder;
    use serde_json::{Value, json};

    use super::*;

    fn packed(mut object: Value) -> PackedObject {
        let name = json!({"name": "a", "namespace": "b"});
        let metadata = object.as_object_mut().unwrap().entry("metadata").or_insert(json!({}));
        metadata.as_object_mut().unwrap().extend(name.as_object().unwrap().clone());
        PackedObject::encode(&object, &ObjectDecoder::json()).unwrap()
    }

    #[test]
    fn statuses_are_those_of_kubectl() {
        let waiting = json!({"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
        let condition = |name: &str, status: &str| json!({"conditions": [{"type": name, "status": status, "reason": "Why"}]});
        for (kind, object, expected) in [
            ("Pod", json!({"status": {"phase": "Pending"}}), "Pending"),
            ("Pod", json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted"),
            ("Pod", json!({"status": waiting}), "CrashLoopBackOff"),
            ("Deployment", json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 2}}), "2/3 ready"),
            ("Deployment", json!({}), "0/1 ready"),
            ("Node", json!({"status": condition("Ready", "True")}), "Ready"),
            ("Node", json!({"status": condition("Ready", "Unknown")}), "NotReady"),
            ("Widget", json!({"status": condition("Available", "False")}), "NotAvailable: Why"),
            ("Widget", json!({"status": {"phase": 7}}), ""),
            ("ConfigMap", json!({"data": {}}), ""),
        ] {
            let object = packed(object);
            let row = Row::of(&object, kind, &HiddenFields::default());
            assert_eq!(row.status, expected, "{object:?}");
        }
    }

    #[test]
    fn deletion_precedes_the_status() {
        let times =
            json!({"creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z"});
        let object = packed(json!({"metadata": times, "status": {"phase": "Running"}}));
        let row = Row::of(&object, "Pod", &HiddenFields::default());
        assert_eq!((row.status.as_str(), row.deleting), ("Terminating", true));
        assert_eq!(row.created.as_deref(), Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn hidden_fields_have_no_summary() {
        let object = packed(
            json!({"status": {"phase": "Running"}, "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}),
        );
        let hidden = ["status.phase".to_owned(), "metadata.creationTimestamp".to_owned()];
        let row = Row::of(&object, "Pod", &HiddenFields::new(hidden).unwrap());
        assert_eq!((row.status.as_str(), row.created), ("", None));
    }
}
