//! The form in which definitions are stored.

use serde_json::json;

use super::{DEFINITIONS, definition, serving};

/// Empty lists and maps, zeros and unknown fields are not stored, but for those that Go writes.
// contract: E-23l
#[tokio::test]
async fn definitions_have_the_form_of_go() {
    let kept = json!({"type": "string", "minLength": 0, "enum": ["", null], "nullable": true, "default": ""});
    let mut given = definition(
        &json!({"type": "object", "title": "", "required": [], "allOf": [], "properties": {
            "kept": kept,
            "list": {"type": "array", "default": [], "items": {"type": "string", "pattern": "", "enum": []}},
            "map": {"type": "object", "additionalProperties": {"type": "string", "description": "", "unknown": 1}},
        }}),
    );
    given["spec"]["preserveUnknownFields"] = false.into();
    given["spec"]["names"]["categories"] = json!([]);
    given["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
    given["spec"]["versions"][0]["deprecated"] = false.into();
    given["spec"]["versions"][0]["subresources"] = json!({});
    let (_server, client) = serving(&given).await;
    let path = format!("{DEFINITIONS}/things.example.com");
    let stored = client.get(&path).await.ok();
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {}, "schema": {
        "openAPIV3Schema": {"type": "object", "properties": {
            "kept": kept,
            "list": {"type": "array", "default": [], "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
    }});
    let names = json!({"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
        "names": names, "versions": [version]});
    assert_eq!(stored["spec"], spec);

    given["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    assert_eq!(client.put(&path, &given).await.ok()["metadata"], stored["metadata"]);
}
