//! Fields that other managers own.

use http::Method;
use serde_json::json;

use super::{DEPLOYMENTS, MAPS, apply, deployment, entries, fields_of, map, write_as};
use crate::common::{Client, server};

/// A conflict names the manager, its version and the field; force takes the field.
// contract: E-15c
#[tokio::test]
async fn conflicts_are_refused_unless_forced() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{DEPLOYMENTS}/web");
    write_as(&client, Method::POST, DEPLOYMENTS, "kubectl-client-side-apply/v1", &deployment("web"))
        .await
        .ok();
    let mut applied = deployment("web");
    applied["spec"]["replicas"] = json!(3);
    let refused = apply(&client, &path, "fieldManager=me", &applied).await;
    let message = "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: \
                   .spec.replicas";
    assert_eq!(refused.status(409, "Conflict"), message);
    let cause = json!({"reason": "FieldManagerConflict", "field": ".spec.replicas",
        "message": "conflict with \"kubectl-client-side-apply\" using apps/v1"});
    assert_eq!(refused.body["details"], json!({"causes": [cause]}));

    let forced = apply(&client, &path, "fieldManager=me&force=true", &applied).await.ok();
    assert_eq!(forced["spec"]["replicas"], 3);
    let other = fields_of(&forced, "kubectl-client-side-apply");
    assert_eq!(other["f:spec"].get("f:replicas"), None);
    assert_eq!(other["f:spec"]["f:selector"], json!({}));
    assert_eq!(fields_of(&forced, "me")["f:spec"]["f:replicas"], json!({}));
}

// contract: E-15c
#[tokio::test]
async fn several_conflicts_are_grouped_by_manager() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{MAPS}/m");
    apply(&client, &path, "fieldManager=b", &map("m", json!({"x": "1"}))).await.ok();
    apply(&client, &path, "fieldManager=a", &map("m", json!({"y": "1", "z": "1"}))).await.ok();
    let all = map("m", json!({"x": "2", "y": "2", "z": "2"}));
    let refused = apply(&client, &path, "fieldManager=c", &all).await;
    assert_eq!(
        refused.status(409, "Conflict"),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .data.y\n- .data.z\nconflicts with \"b\":\n- .data.x"
    );
    assert_eq!(refused.body["details"]["causes"].as_array().unwrap().len(), 3);
    // the same values are no conflict
    let shared = map("m", json!({"x": "1"}));
    let after = apply(&client, &path, "fieldManager=c", &shared).await.ok();
    assert_eq!(fields_of(&after, "c"), fields_of(&after, "b"));
}

/// kubectl takes the fields that its own client-side apply has set, and updates the annotation.
// contract: E-15f
#[tokio::test]
async fn kubectl_takes_over_from_its_client_side_apply() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{MAPS}/m");
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut object = map("m", json!({"x": "1", "y": "1"}));
    let last = map("m", json!({"x": "1"}));
    object["metadata"]["annotations"] = json!({annotation: last.to_string()});
    write_as(&client, Method::POST, MAPS, "kubectl-client-side-apply", &object).await.ok();

    let both = map("m", json!({"x": "2", "y": "2"}));
    let refused = apply(&client, &path, "fieldManager=kubectl", &both).await;
    assert_eq!(
        refused.status(409, "Conflict"),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.y"
    );
    let taken = apply(&client, &path, "fieldManager=kubectl", &map("m", json!({"x": "2"}))).await.ok();
    assert_eq!(taken["data"], json!({"x": "2", "y": "1"}));
    let expected = format!("{}\n", map("m", json!({"x": "2"})));
    assert_eq!(taken["metadata"]["annotations"][annotation], expected);
}

/// csaupgrade moves the fields of an update to an apply by a JSON patch of `managedFields`.
// contract: E-15f
#[tokio::test]
async fn managers_can_be_migrated_from_update_to_apply() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{MAPS}/m");
    let agent = "kubectl-client-side-apply";
    let made =
        write_as(&client, Method::POST, MAPS, agent, &map("m", json!({"x": "1", "y": "1"}))).await.ok();
    let mut migrated = made["metadata"]["managedFields"].clone();
    migrated[0]["manager"] = json!("kubectl");
    migrated[0]["operation"] = json!("Apply");
    let version = &made["metadata"]["resourceVersion"];
    let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": migrated},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version}]);
    let patched = client.patch(&path, "json-patch", &patch).await.ok();
    assert_eq!(
        entries(&patched),
        [("kubectl".into(), "Apply".into(), String::new(), entries(&made)[0].3.clone())]
    );
    // what kubectl does not apply any more is removed
    let left = apply(&client, &path, "fieldManager=kubectl", &map("m", json!({"x": "1"}))).await.ok();
    assert_eq!(left["data"], json!({"x": "1"}));
}

/// Managers are sorted as texts of JSON: an entry of a subresource comes before that of the object.
// contract: E-15c
#[tokio::test]
async fn conflicts_with_a_subresource_come_first() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{DEPLOYMENTS}/web");
    let mut object = deployment("web");
    object["metadata"]["labels"] = json!({"p": "x"});
    apply(&client, &path, "fieldManager=a", &object).await.ok();
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
        "spec": {"replicas": 2}});
    apply(&client, &format!("{path}/scale"), "fieldManager=a&force=true", &scale).await.ok();
    object["metadata"]["labels"] = json!({"p": "y"});
    object["spec"]["replicas"] = json!(3);
    let message = apply(&client, &path, "fieldManager=b", &object).await.status(409, "Conflict");
    let scale = message.find("conflicts with \"a\" with subresource \"scale\":").unwrap();
    assert!(scale < message.find("conflicts with \"a\":").unwrap(), "{message}");
}

/// A map that loses its last entry keeps its owner: it is empty, not removed.
// contract: E-15b
#[tokio::test]
async fn an_emptied_map_keeps_its_owner() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{MAPS}/m");
    write_as(&client, Method::POST, MAPS, "creator", &map("m", json!({"p": "x"}))).await.ok();
    apply(&client, &path, "fieldManager=a&force=true", &map("m", json!({"p": "y"}))).await.ok();
    let mut without = map("m", json!({}));
    without.as_object_mut().unwrap().remove("data");
    let emptied = apply(&client, &path, "fieldManager=a", &without).await.ok();
    assert_eq!(emptied.get("data"), None);
    assert_eq!(fields_of(&emptied, "creator"), json!({"f:data": {}}));
}
