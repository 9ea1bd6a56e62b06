//! Objects that were valid under a former schema.

use serde_json::json;

use super::{DEFINITIONS, THINGS, causes, definition, serving, thing};

/// What a write does not change may break the rules of a later schema.
// contract: E-23b
#[tokio::test]
async fn unchanged_fields_are_not_validated() {
    let schema = |max: usize| {
        json!({"type": "object", "properties": {
            "x": {"type": "string", "maxLength": max}, "y": {"type": "integer"},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "value": {"type": "string", "maxLength": max}}}}}})
    };
    let (_server, client) = serving(&definition(&schema(5))).await;
    let items = json!([{"name": "a", "value": "long"}, {"name": "b", "value": "long"}]);
    client.post(THINGS, &thing(&json!({"x": "long", "list": items}))).await.ok();
    client
        .patch(
            &format!("{DEFINITIONS}/things.example.com"),
            "merge-patch",
            &json!({"spec": definition(&schema(2))["spec"]}),
        )
        .await
        .ok();

    let one = format!("{THINGS}/t");
    client.patch(&one, "merge-patch", &json!({"y": 1})).await.ok();
    let changed = client.patch(&one, "merge-patch", &json!({"x": "other"})).await;
    assert_eq!(causes(&changed), ["x TooLong: Too long: may not be more than 2 bytes"]);
    // items are found by their keys
    let moved = json!({"list": [{"name": "b", "value": "long"}, {"name": "c", "value": "long"}]});
    let moved = client.patch(&one, "merge-patch", &moved).await;
    assert_eq!(causes(&moved), ["list[1].value TooLong: Too long: may not be more than 2 bytes"]);
}

/// Alternatives know no former value.
// contract: E-23b
#[tokio::test]
async fn unchanged_fields_are_validated_by_alternatives() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}});
    let (_server, client) = serving(&definition(&schema)).await;
    client.post(THINGS, &thing(&json!({"a": "long"}))).await.ok();
    let mut later = definition(&schema);
    later["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["allOf"] =
        json!([{"properties": {"a": {"maxLength": 2}}}]);
    let change = json!({"spec": {"versions": later["spec"]["versions"]}});
    client.patch(&format!("{DEFINITIONS}/things.example.com"), "merge-patch", &change).await.ok();
    let unchanged = client.patch(&format!("{THINGS}/t"), "merge-patch", &json!({"b": 1})).await;
    assert_eq!(
        causes(&unchanged),
        [
            "a TooLong: Too long: may not be more than 2 bytes",
            "<nil> Invalid: Invalid value: \"\": \"\" must validate all the schemas (allOf). None validated"
        ]
    );
}

/// Objects are served with the defaults and without the fields that a later schema has.
// contract: E-23c
#[tokio::test]
async fn stored_objects_get_the_form_of_a_later_schema() {
    let old = definition(
        &json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}}),
    );
    let new = definition(&json!({"type": "object", "properties": {"x": {"type": "string"},
        "z": {"type": "string", "default": "d"}}}));
    let (_server, client) = serving(&old).await;
    client.post(THINGS, &thing(&json!({"x": "1", "y": "2"}))).await.ok();
    client
        .patch(
            &format!("{DEFINITIONS}/things.example.com"),
            "merge-patch",
            &json!({"spec": {"versions": new["spec"]["versions"]}}),
        )
        .await
        .ok();
    let read = client.get(&format!("{THINGS}/t")).await.ok();
    assert_eq!((&read["x"], read.get("y"), &read["z"]), (&json!("1"), None, &json!("d")));
    let list = client.get(THINGS).await.ok();
    assert_eq!((list["items"][0].get("y"), &list["items"][0]["z"]), (None, &json!("d")));
}
