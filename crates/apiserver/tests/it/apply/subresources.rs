//! Managers of the subresources status and scale.

use serde_json::{Value, json};

use super::{DEPLOYMENTS, apply, deployment, entries, fields_of};
use crate::common::{Client, pod, server};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The status has its own managers, and is changed only through its subresource.
// contract: E-15e
#[tokio::test]
async fn status_is_applied_through_its_subresource() {
    let server = server().await;
    let client = Client::new(&server);
    let status = |phase: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"phase": phase,
            "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let missing =
        apply(&client, &format!("{PODS}/a/status"), "fieldManager=kubelet", &status("Running")).await;
    assert_eq!(missing.status(404, "NotFound"), "pods \"a\" not found");
    client.post(&format!("{PODS}?fieldManager=me"), &pod("a")).await.ok();
    let refused = apply(&client, &format!("{PODS}/a"), "fieldManager=x", &status("Failed")).await.ok();
    assert_eq!(refused["status"]["phase"], "Pending");
    assert_eq!(fields_of(&refused, "x"), Value::Null);
    let after =
        apply(&client, &format!("{PODS}/a/status"), "fieldManager=kubelet", &status("Running")).await.ok();
    assert_eq!(after["status"]["phase"], "Running");
    let entry = entries(&after).into_iter().find(|entry| entry.0 == "kubelet").unwrap();
    assert_eq!((entry.1.as_str(), entry.2.as_str()), ("Apply", "status"));
    let condition = json!({".": {}, "f:status": {}, "f:type": {}});
    let fields = json!({"f:status": {"f:phase": {}, "f:conditions": {"k:{\"type\":\"Ready\"}": condition}}});
    assert_eq!(entry.3, fields);

    let patch = json!({"status": {"message": "m"}});
    let path = format!("{PODS}/a/status?fieldManager=agent");
    let after = client.patch(&path, "merge-patch", &patch).await.ok();
    assert_eq!(fields_of(&after, "agent"), json!({"f:status": {"f:message": {}}}));
    let conflict = apply(&client, &format!("{PODS}/a/status"), "fieldManager=other", &status("Failed")).await;
    assert_eq!(
        conflict.status(409, "Conflict"),
        "Apply failed with 1 conflict: conflict with \"kubelet\" with subresource \"status\": .status.phase"
    );
}

/// A scale takes the replica count from the manager of the object.
// contract: E-15e
#[tokio::test]
async fn scale_takes_the_replica_count() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{DEPLOYMENTS}/web");
    apply(&client, &path, "fieldManager=me", &deployment("web")).await.ok();
    let patch = json!({"spec": {"replicas": 5}});
    client.patch(&format!("{path}/scale?fieldManager=scaler"), "merge-patch", &patch).await.ok();
    let after = client.get(&path).await.ok();
    assert_eq!(after["spec"]["replicas"], 5);
    assert_eq!(fields_of(&after, "scaler"), json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(fields_of(&after, "me")["f:spec"].get("f:replicas"), None);
    let entry = entries(&after).into_iter().find(|entry| entry.0 == "scaler").unwrap();
    assert_eq!((entry.1.as_str(), entry.2.as_str()), ("Update", "scale"));
    let refused = apply(&client, &path, "fieldManager=me", &deployment("web")).await;
    assert_eq!(
        refused.status(409, "Conflict"),
        "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using apps/v1: \
         .spec.replicas"
    );

    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
        "spec": {"replicas": 2}});
    let refused = apply(&client, &format!("{path}/scale"), "fieldManager=hpa", &scale).await;
    assert!(refused.status(409, "Conflict").contains(".spec.replicas"));
    let scaled = apply(&client, &format!("{path}/scale"), "fieldManager=hpa&force=true", &scale).await.ok();
    assert_eq!(scaled["spec"]["replicas"], 2);
    let after = client.get(&path).await.ok();
    assert_eq!(fields_of(&after, "hpa"), json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(fields_of(&after, "scaler"), Value::Null);
    let wrong = apply(&client, &format!("{path}/scale"), "fieldManager=hpa", &deployment("web")).await;
    assert_eq!(wrong.status(400, "BadRequest"), "invalid object type: apps/v1, Kind=Deployment");
}
