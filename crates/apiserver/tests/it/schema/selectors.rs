//! Field selectors of custom resources whose definition changes.

use serde_json::{Value, json};

use super::{DEFINITIONS, THINGS, serving, thing, with_field};
use crate::common::names;

/// A definition with a selectable field.
fn selectable(x: &Value) -> Value {
    let mut definition = with_field(x);
    definition["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".x"}]);
    definition
}

/// Selectors see the objects as they are served: with later fields, and with later defaults.
// contract: E-23i
#[tokio::test]
async fn selectors_see_objects_as_they_are_served() {
    let (_server, client) = serving(&with_field(&json!({"type": "string"}))).await;
    for (name, fields) in [("a", json!({"x": "1"})), ("b", json!({}))] {
        let mut thing = thing(&fields);
        thing["metadata"]["name"] = name.into();
        client.post(THINGS, &thing).await.ok();
    }
    let selected = |value: &str| format!("{THINGS}?fieldSelector=x%3D{value}");
    assert_eq!(client.get(&selected("1")).await.status(400, "BadRequest"), "field label not supported: x");

    let one = format!("{DEFINITIONS}/things.example.com");
    let spec = json!({"spec": selectable(&json!({"type": "string"}))["spec"]});
    client.patch(&one, "merge-patch", &spec).await.ok();
    assert_eq!(names(&client.get(&selected("1")).await.ok()), ["a"]);

    let spec = json!({"spec": selectable(&json!({"type": "string", "default": "2"}))["spec"]});
    client.patch(&one, "merge-patch", &spec).await.ok();
    assert_eq!(names(&client.get(&selected("2")).await.ok()), ["b"]);
    let mut watch = client.watch(&format!("{}&watch=1", selected("2"))).await;
    assert_eq!(watch.kind_and_name().await.1, "b");
}
