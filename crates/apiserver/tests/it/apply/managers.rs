//! The managers that creates, updates and patches record.

use http::Method;
use serde_json::{Value, json};

use super::{DEPLOYMENTS, MAPS, apply, deployment, entries, fields_of, map, write_as};
use crate::common::{Client, server, version_of};

/// A create records its manager, and the fields as Go writes them.
// contract: E-15d
#[tokio::test]
async fn creates_record_a_manager() {
    let server = server().await;
    let client = Client::new(&server);
    let made =
        write_as(&client, Method::POST, DEPLOYMENTS, "kubectl/v1.37 (linux)", &deployment("web")).await.ok();
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!(entry["manager"], "kubectl");
    assert_eq!(entry["operation"], "Update");
    assert_eq!(entry["apiVersion"], "apps/v1");
    assert!(entry["time"].as_str().unwrap().ends_with('Z'));
    let port = json!({".": {}, "f:containerPort": {}, "f:protocol": {}});
    let container = json!({".": {}, "f:image": {}, "f:name": {}, "f:resources": {}, "f:imagePullPolicy": {},
        "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
        "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": port}});
    let expected = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:replicas": {}, "f:selector": {}, "f:progressDeadlineSeconds": {}, "f:revisionHistoryLimit": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
            "f:template": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": container}, "f:restartPolicy": {}, "f:dnsPolicy": {},
                    "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}}}}});
    assert_eq!(entry["fieldsV1"], expected);

    let unnamed = client.post(MAPS, &map("m", json!({"x": "1"}))).await.ok();
    assert_eq!(entries(&unnamed)[0].0, "unknown");
    let named = client.post(&format!("{MAPS}?fieldManager=me"), &map("n", json!({"x": "1"}))).await.ok();
    assert_eq!(fields_of(&named, "me"), json!({"f:data": {".": {}, "f:x": {}}}));
    let long = format!("{MAPS}?fieldManager={}", "x".repeat(129));
    assert!(client.post(&long, &map("o", json!({}))).await.status(422, "Invalid").contains("Too long"));
}

/// What the storage sets in a new object has no manager: another one can set it without a conflict.
// contract: E-15d
#[tokio::test]
async fn fields_that_the_storage_sets_have_no_manager() {
    let server = server().await;
    let client = Client::new(&server);
    let named = |path: &str| format!("{path}?fieldManager=me");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = client.post(&named("/api/v1/namespaces/default/services"), &service).await.ok();
    let port = json!({".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}});
    let spec = json!({"f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": port},
        "f:internalTrafficPolicy": {}, "f:sessionAffinity": {}, "f:type": {}});
    assert_eq!(fields_of(&made, "me"), json!({"f:spec": spec}));

    let path = "/api/v1/namespaces/default/services/s?fieldManager=other";
    let patched = client.patch(path, "merge-patch", &json!({"spec": {"type": "NodePort"}})).await.ok();
    assert!(patched["spec"]["ports"][0]["nodePort"].is_u64());
    let spec = json!({"f:externalTrafficPolicy": {}, "f:type": {}});
    assert_eq!(fields_of(&patched, "other"), json!({"f:spec": spec}));

    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
    let made = client.post(&named("/apis/batch/v1/namespaces/default/jobs"), &job).await.ok();
    assert!(made["spec"]["selector"].is_object());
    let fields = fields_of(&made, "me");
    assert_eq!(fields.get("f:metadata"), None);
    assert_eq!(fields["f:spec"].get("f:selector"), None);
    assert_eq!(fields["f:spec"]["f:template"].get("f:metadata"), None);
}

/// An update and a patch of each format record what they change, and take it from others.
// contract: E-15d
#[tokio::test]
async fn updates_and_patches_record_what_they_change() {
    let server = server().await;
    let client = Client::new(&server);
    let path = format!("{MAPS}/m");
    let mut object =
        client.post(&format!("{MAPS}?fieldManager=a"), &map("m", json!({"x": "1", "y": "1"}))).await.ok();
    object["data"]["x"] = json!("2");
    let after = client.put(&format!("{path}?fieldManager=b"), &object).await.ok();
    assert_eq!(fields_of(&after, "a"), json!({"f:data": {".": {}, "f:y": {}}}));
    assert_eq!(fields_of(&after, "b"), json!({"f:data": {"f:x": {}}}));
    let formats = [
        ("merge-patch", json!({"data": {"c": "1"}})),
        ("strategic-merge-patch", json!({"data": {"d": "1"}})),
        ("json-patch", json!([{"op": "add", "path": "/data/e", "value": "1"}])),
    ];
    for (format, patch) in formats {
        let after = client.patch(&format!("{path}?fieldManager={format}"), format, &patch).await.ok();
        assert_eq!(fields_of(&after, format)["f:data"].as_object().unwrap().len(), 1, "{format}");
    }
    // an update that changes nothing changes no entry
    let present = client.get(&path).await.ok();
    let same = client.put(&format!("{path}?fieldManager=z"), &present).await.ok();
    assert_eq!(same, present);
    assert_eq!(version_of(&same), server.version());
    // a removed field belongs to no manager
    let removed = client
        .patch(&format!("{path}?fieldManager=z"), "merge-patch", &json!({"data": {"x": null}}))
        .await
        .ok();
    assert_eq!(fields_of(&removed, "b"), Value::Null);
    assert_eq!(fields_of(&removed, "z"), Value::Null);
}

/// An empty list, and a list of one empty entry, forget all managers; later updates are then not recorded.
// contract: E-15f
#[tokio::test]
async fn managers_can_be_reset() {
    let server = server().await;
    let client = Client::new(&server);
    for (name, reset) in [("m", json!([])), ("n", json!([{}]))] {
        let path = format!("{MAPS}/{name}");
        client.post(MAPS, &map(name, json!({"x": "1"}))).await.ok();
        let patch = json!({"metadata": {"managedFields": reset}});
        let after = client.patch(&path, "merge-patch", &patch).await.ok();
        assert_eq!(after["metadata"].get("managedFields"), None);
        let after = client.patch(&path, "merge-patch", &json!({"data": {"y": "1"}})).await.ok();
        assert_eq!(after["metadata"].get("managedFields"), None);
        // the first apply records what the object has
        let applied = apply(&client, &path, "fieldManager=a", &map(name, json!({"x": "1"}))).await.ok();
        assert_eq!(fields_of(&applied, "a"), json!({"f:data": {"f:x": {}}}));
        assert_eq!(
            fields_of(&applied, "before-first-apply"),
            json!({"f:data": {".": {}, "f:x": {}, "f:y": {}}})
        );
    }
    let missing = client.put(&format!("{MAPS}/m"), &map("m", json!({"x": "5"}))).await.ok();
    assert!(!entries(&missing).is_empty(), "an update without managedFields keeps them");
    let text = json!({"metadata": {"managedFields": "x"}});
    assert!(
        client
            .patch(&format!("{MAPS}/m"), "merge-patch", &text)
            .await
            .status(422, "Invalid")
            .contains("managedFields")
    );
}

/// The oldest of more than ten updates are merged.
// contract: E-15d
#[tokio::test]
async fn oldest_updates_are_merged() {
    let server = server().await;
    let client = Client::new(&server);
    client.post(&format!("{MAPS}?fieldManager=m00"), &map("m", json!({"k00": "1"}))).await.ok();
    for number in 1..13 {
        let path = format!("{MAPS}/m?fieldManager=m{number:02}");
        client.patch(&path, "merge-patch", &json!({"data": {format!("k{number:02}"): "1"}})).await.ok();
    }
    let object = client.get(&format!("{MAPS}/m")).await.ok();
    let names: Vec<String> = entries(&object).into_iter().map(|entry| entry.0).collect();
    assert_eq!(names.len(), 10);
    assert!(names.contains(&"ancient-changes".to_owned()) && names.contains(&"m12".to_owned()), "{names:?}");
    let oldest = fields_of(&object, "ancient-changes");
    assert!(oldest["f:data"].as_object().unwrap().len() >= 4, "{oldest}");
}

/// Objects of the in-process API are stored as they are.
// contract: E-15i
#[tokio::test]
async fn objects_of_the_program_have_no_managers() {
    let server = server().await;
    let client = Client::new(&server);
    let mut object = map("m", json!({"x": "1"}));
    object["metadata"]["namespace"] = json!("default");
    let made = server.create(object).unwrap();
    assert_eq!(made["metadata"].get("managedFields"), None);
    let path = format!("{MAPS}/m");
    let mut applied = apply(&client, &path, "fieldManager=a", &map("m", json!({"y": "1"}))).await.ok();
    assert_eq!(fields_of(&applied, "before-first-apply"), json!({"f:data": {".": {}, "f:x": {}}}));
    applied["data"]["y"] = json!("2");
    let after = server.update(applied).unwrap();
    assert_eq!(fields_of(&after, "kinformer-apiserver"), json!({"f:data": {"f:y": {}}}));
}

/// A write of a status changes no metadata of a custom resource, and owns none.
// contract: E-15d
#[tokio::test]
async fn status_writes_of_custom_resources_own_no_metadata() {
    let server = crate::common::server().await;
    let client = Client::new(&server);
    server.create(crate::common::widget_definition()).unwrap();
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let mut widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"color": "red"}});
    widget = client.post(widgets, &widget).await.ok();
    widget["metadata"]["labels"] = json!({"a": "b"});
    widget["status"] = json!({"phase": "ready"});
    let written = client.put(&format!("{widgets}/w/status?fieldManager=status"), &widget).await.ok();
    assert!(written["metadata"]["labels"].is_null());
    let entries = written["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == "status").unwrap();
    assert_eq!(entry["fieldsV1"], json!({"f:status": {".": {}, "f:phase": {}}}));
}
