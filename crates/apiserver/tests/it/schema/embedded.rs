//! Resources inside of objects (`x-kubernetes-embedded-resource`).

use serde_json::{Value, json};

use super::{DEFINITIONS, THINGS, causes, serving, thing, with_field};
use crate::common::{Client, server};

fn embedded(metadata: &Value) -> Value {
    json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"metadata": metadata}})
}

fn resource(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Other", "metadata": metadata})
}

/// The metadata of an embedded resource, and the causes below it.
// contract: E-23h
#[tokio::test]
async fn metadata_is_validated_as_by_kubernetes() {
    let (_server, client) = serving(&with_field(&embedded(&json!({"type": "object"})))).await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    for (metadata, expected) in [
        (
            json!({"generation": -1}),
            vec![".generation Invalid: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            json!({"annotations": {"a": "x".repeat(256 * 1024)}}),
            vec![".annotations TooLong: Too long: may not be more than 262144 bytes"],
        ),
        (
            json!({"ownerReferences": [owner, {"apiVersion": "a/b/c", "kind": "", "name": "n"}]}),
            vec![
                ".ownerReferences[1].apiVersion Invalid: Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
                ".ownerReferences[1].kind Required: Required value: must not be empty",
                ".ownerReferences[1].uid Required: Required value: must not be empty",
            ],
        ),
        (
            json!({"finalizers": ["orphan", "foregroundDeletion"]}),
            vec![
                ".finalizers Invalid: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
            ],
        ),
        (
            json!({"managedFields": [{"manager": "m", "fieldsType": "x"}, {"operation": "Patch"}]}),
            vec![
                ".managedFields[0].operation Required: Required value: must not be empty",
                ".managedFields[0].fieldsType Invalid: Invalid value: \"x\": must be `FieldsV1`",
                ".managedFields[1].operation NotSupported: Unsupported value: \"Patch\": supported values: \"Apply\", \"Update\"",
            ],
        ),
    ] {
        let answer = client.post(THINGS, &thing(&json!({"x": resource(&metadata)}))).await;
        assert_eq!(answer.code, 422, "{metadata}");
        let expected: Vec<String> = expected.iter().map(|cause| format!("x.metadata{cause}")).collect();
        assert_eq!(causes(&answer), expected);
    }
}

/// Values that Go does not omit are kept.
// contract: E-23h
#[tokio::test]
async fn metadata_has_the_form_of_go() {
    let (_server, client) = serving(&with_field(&embedded(&json!({"type": "object"})))).await;
    let given = json!({"generation": 0, "deletionGracePeriodSeconds": 0, "labels": {}, "finalizers": [],
        "managedFields": [{"operation": "Apply", "fieldsV1": {}}]});
    let made = client.post(THINGS, &thing(&json!({"x": resource(&given)}))).await.ok();
    let kept =
        json!({"deletionGracePeriodSeconds": 0, "managedFields": [{"operation": "Apply", "fieldsV1": {}}]});
    assert_eq!(made["x"]["metadata"], kept);
}

/// Objects that were stored before a field became a resource are served without its malformed metadata.
// contract: E-23h
#[tokio::test]
async fn malformed_metadata_of_stored_objects_is_dropped() {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let (_server, client) = serving(&with_field(&free)).await;
    let x = json!({"apiVersion": 1, "kind": "Other", "metadata": {"name": "n", "labels": {"a": 1}, "finalizers": "f"}});
    client.post(THINGS, &thing(&json!({"x": x}))).await.ok();

    let mut changed = with_field(&embedded(&json!({"type": "object"})));
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties";
    changed.pointer_mut(properties).unwrap()["d"] = json!({"type": "string", "default": "set"});
    let one = format!("{DEFINITIONS}/things.example.com");
    client.patch(&one, "merge-patch", &json!({"spec": changed["spec"]})).await.ok();
    let read = client.get(&format!("{THINGS}/t")).await.ok();
    assert_eq!(read["x"], json!({"kind": "Other", "metadata": {"name": "n"}}));
    assert_eq!(read["d"], "set");
}

/// The defaults of the metadata of an embedded resource are those of a valid one.
// contract: E-23h
#[tokio::test]
async fn defaults_of_metadata_are_validated() {
    let server = server().await;
    let client = Client::new(&server);
    let metadata = |name: &Value| {
        let properties = json!({"name": {"type": "string", "default": name}});
        embedded(&json!({"type": "object", "properties": properties}))
    };
    let path = "spec.validation.openAPIV3Schema.properties[x].properties[metadata].properties[name].default";
    let refused = client.post(DEFINITIONS, &with_field(&metadata(&json!("a/b")))).await;
    assert_eq!(
        causes(&refused),
        [format!(
            "{path} Invalid: Invalid value: \"a/b\": must result in valid metadata: metadata.name: Invalid value: \"a/b\": may \
             not contain '/'"
        )]
    );
    let schema =
        json!({"type": "object", "default": {"other": 1}, "x-kubernetes-preserve-unknown-fields": true});
    client.post(DEFINITIONS, &with_field(&embedded(&schema))).await.ok();
    let x = json!({"apiVersion": "v1", "kind": "Other"});
    let made = client.post(THINGS, &thing(&json!({"x": x}))).await.ok();
    assert_eq!(made["x"]["metadata"], json!({}));
}
