//! Definitions with several versions, whose objects are not converted.

use serde_json::{Value, json};

use super::{DEFINITIONS, causes, serving};

/// A definition with two versions and their schemas. The first one is the storage version.
fn versions(v1: &Value, v2: &Value) -> Value {
    let mut definition = super::definition(v1);
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"] = v2.clone();
    definition["spec"]["versions"].as_array_mut().unwrap().push(second);
    definition
}

fn thing(version: &str, name: &str, fields: &Value) -> Value {
    let mut thing = super::thing(fields);
    thing["apiVersion"] = format!("example.com/{version}").into();
    thing["metadata"]["name"] = name.into();
    thing
}

fn path(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/things")
}

/// The fields of an object beside its type and metadata.
fn fields(object: &Value) -> Value {
    let mut fields = object.clone();
    for field in ["apiVersion", "kind", "metadata"] {
        fields.as_object_mut().unwrap().remove(field);
    }
    fields
}

/// An object has the fields that its storage version and the requested version have, and the defaults of the storage version.
// contract: E-23c
#[tokio::test]
async fn objects_are_served_in_the_form_of_each_version() {
    let text = json!({"type": "string"});
    let with_default = |value: &str| json!({"type": "string", "default": value});
    let v1 = json!({"type": "object", "properties": {"a": text, "only1": text, "d": with_default("of v1")}});
    let v2 = json!({"type": "object", "properties": {"a": text, "only2": text, "d": with_default("of v2"),
        "e": with_default("e")}});
    let (_server, client) = serving(&versions(&v1, &v2)).await;

    let first = thing("v1", "first", &json!({"a": "1", "only1": "x"}));
    let made = client.post(&path("v1"), &first).await.ok();
    assert_eq!(fields(&made), json!({"a": "1", "only1": "x", "d": "of v1"}));
    let second = thing("v2", "second", &json!({"a": "1", "only2": "x"}));
    let made = client.post(&path("v2"), &second).await.ok();
    assert_eq!(fields(&made), json!({"a": "1", "d": "of v2"}));

    let read = client.get(&format!("{}/first", path("v2"))).await.ok();
    assert_eq!(fields(&read), json!({"a": "1", "d": "of v1"}));
    let list = client.get(&path("v1")).await.ok();
    assert_eq!(fields(&list["items"][1]), json!({"a": "1", "d": "of v2"}));
}

// contract: E-23f
#[tokio::test]
async fn stored_versions_stay_until_they_are_removed_from_the_status() {
    let text = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let definition = versions(&text, &text);
    let (_server, client) = serving(&definition).await;
    let one = format!("{DEFINITIONS}/things.example.com");
    client.post(&path("v1"), &thing("v1", "t", &json!({"a": "1"}))).await.ok();

    let mut switched = definition["spec"]["versions"].clone();
    switched[0]["storage"] = false.into();
    switched[1]["storage"] = true.into();
    let spec = json!({"spec": {"versions": switched}});
    let changed = client.patch(&one, "merge-patch", &spec).await.ok();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));

    let only = json!({"spec": {"versions": [switched[1]]}});
    let refused = client.patch(&one, "merge-patch", &only).await;
    assert_eq!(
        causes(&refused),
        [
            "status.storedVersions[0] Invalid: Invalid value: \"v1\": missing from spec.versions; v1 was previously a \
          storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in \
          v1 and removes v1 from status.storedVersions"
        ]
    );
    client.patch(&format!("{}/t", path("v2")), "merge-patch", &json!({"a": "2"})).await.ok();
    let status = json!({"status": {"storedVersions": ["v2"]}});
    client.patch(&format!("{one}/status"), "merge-patch", &status).await.ok();
    let changed = client.patch(&one, "merge-patch", &only).await.ok();
    assert_eq!(changed["status"]["storedVersions"], json!(["v2"]));
    assert_eq!(fields(&client.get(&format!("{}/t", path("v2"))).await.ok()), json!({"a": "2"}));
    client.get(&path("v1")).await.status(404, "NotFound");
}
