//! Patches that kube-apiserver 1.37.1 takes or refuses otherwise than the specifications say.

use serde_json::{Value, json};

use crate::common::{Client, config_map, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REFUSED: &str = "the server rejected our request due to an error in our request";

/// Applies operations to an object of its own, and returns the answer.
async fn patched(operations: &Value) -> crate::common::Answer {
    let server = server().await;
    let mut map = config_map("a", "1");
    map["data"]["text"] = json!("b<c");
    map["metadata"]["finalizers"] = json!(["x.io/0", "x.io/1", "x.io/2"]);
    server.create(map).unwrap();
    Client::new(&server).patch(&format!("{MAPS}/a"), "json-patch", operations).await
}

/// The RFC refuses most of these.
// contract: E-01r
#[tokio::test]
async fn json_patches_that_kubernetes_applies() {
    for (operations, pointer, expected) in [
        (json!([{"op": "test", "path": "/metadata/annotations", "value": null}]), "/data/key", json!("1")),
        (json!([{"op": "test", "path": "/metadata/annotations"}]), "/data/key", json!("1")),
        (json!([{"op": "replace", "path": "/data/new", "value": "2"}]), "/data/new", json!("2")),
        (json!([{"op": "copy", "from": "/none", "path": "/immutable"}]), "/immutable", Value::Null),
        (
            json!([{"op": "test", "path": "/metadata/finalizers/-1", "value": "x.io/2"}]),
            "/data/key",
            json!("1"),
        ),
        (
            json!([{"op": "remove", "path": "/metadata/finalizers/-3"}]),
            "/metadata/finalizers",
            json!(["x.io/1", "x.io/2"]),
        ),
        (
            json!([{"op": "add", "path": "/metadata/finalizers/-1", "value": "x.io/3"}]),
            "/metadata/finalizers/3",
            json!("x.io/3"),
        ),
        (
            json!([{"op": "add", "path": "/metadata/finalizers/3", "value": "x.io/3"}]),
            "/metadata/finalizers/3",
            json!("x.io/3"),
        ),
        (
            json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/3"}]),
            "/metadata/finalizers/3",
            json!("x.io/3"),
        ),
        (
            json!([{"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-"}]),
            "/metadata/finalizers",
            json!(["x.io/1", "x.io/2", "x.io/0"]),
        ),
        (
            json!([{"op": "add", "path": "/data/a~1b~0c", "value": "2"}, {"op": "move", "from": "/data/a~1b~0c", "path": "/data/n"}]),
            "/data/n",
            json!("2"),
        ),
        (json!([{"op": "remove", "path": "x/data/key"}]), "/data/key", Value::Null),
        (
            json!([{"op": "add", "path": "/data", "value": {"l": "m>n"}}, {"op": "test", "path": "/data", "value": {"l": "m>n"}}]),
            "/data/l",
            json!("m>n"),
        ),
    ] {
        let object = patched(&operations).await.ok();
        assert_eq!(object.pointer(pointer).unwrap_or(&Value::Null), &expected, "{operations}");
    }
}

// contract: E-01r
#[tokio::test]
async fn json_patches_that_kubernetes_refuses() {
    for operations in [
        json!([{"op": "x", "path": "/data/key"}]),
        json!([{"path": "/data/key"}]),
        json!([null]),
        json!([{"op": "add", "value": 1}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "add", "path": "data", "value": {}}]),
        json!([{"op": "add", "path": "/data/none/a", "value": "1"}]),
        json!([{"op": "add", "path": "/data/key/a", "value": "1"}]),
        json!([{"op": "add", "path": "/metadata/finalizers/4", "value": "x.io/3"}]),
        json!([{"op": "add", "path": "/metadata/finalizers/x", "value": "x.io/3"}]),
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "remove", "path": "/metadata/finalizers/3"}]),
        json!([{"op": "remove", "path": "/metadata/finalizers/-4"}]),
        json!([{"op": "replace", "path": "/metadata/finalizers/3", "value": "x.io/3"}]),
        json!([{"op": "replace", "path": "/metadata/finalizers/-", "value": "x.io/3"}]),
        json!([{"op": "replace", "path": "", "value": null}]),
        json!([{"op": "move", "from": "/data/none", "path": "/data/b"}]),
        json!([{"op": "copy", "path": "/data/b"}]),
        json!([{"op": "test", "path": "/data/key", "value": "2"}]),
        json!([{"op": "test", "path": "/data/key", "value": null}]),
        json!([{"op": "test", "path": "/data/key"}]),
        json!([{"op": "test", "path": "/data/none", "value": "2"}]),
        // The texts are compared, and Go escapes this character.
        json!([{"op": "test", "path": "/data/text", "value": "b<c"}]),
    ] {
        let answer = patched(&operations).await;
        assert_eq!(answer.status(422, "Invalid"), REFUSED, "{operations}");
        assert_eq!(answer.body["details"], json!({}), "{operations}");
    }
    for (operations, message) in [
        (
            json!({}),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            json!([1]),
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            json!([{"op": 1, "path": "/data"}]),
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ] {
        assert_eq!(patched(&operations).await.status(400, "BadRequest"), message, "{operations}");
    }
}

/// A field of another type: 400 for a body, 422 for the result of a patch.
// contract: E-01t
#[tokio::test]
async fn fields_of_other_types_are_refused() {
    let server = server().await;
    let client = Client::new(&server);
    let wrong = |name: &str| json!({"metadata": {"name": name}, "data": {"a": 1}});
    let why = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string";
    let message = client.post(MAPS, &wrong("a")).await.status(400, "BadRequest");
    assert_eq!(message, format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: {why}"));
    server.create(config_map("a", "1")).unwrap();
    let path = format!("{MAPS}/a");
    client.put(&path, &wrong("a")).await.status(400, "BadRequest");
    let answer = client.patch(&path, "merge-patch", &json!({"data": {"a": 1}})).await;
    let message = answer.status(422, "Invalid");
    assert!(
        message.starts_with(" \"\" is invalid: patch: Invalid value: \"{") && message.ends_with(why),
        "{message}"
    );
    let answer = client.patch(&path, "strategic-merge-patch", &json!({"data": {"a": 1}})).await;
    assert_eq!(
        answer.status(422, "Invalid"),
        " \"\" is invalid: patch: Invalid value: \"map[data:map[a:1]]\": cannot convert int64 to string"
    );
    let other = json!({"kind": "Pod"});
    client.patch(&path, "merge-patch", &other).await.status(422, "Invalid");
    client.patch(&path, "strategic-merge-patch", &other).await.ok();
    let secret = json!({"metadata": {"name": "s"}, "data": {"b": "%%%"}});
    let message = client.post("/api/v1/namespaces/default/secrets", &secret).await.status(400, "BadRequest");
    assert!(message.ends_with("illegal base64 data at input byte 0"), "{message}");
    assert_eq!(client.get(&path).await.ok()["data"], json!({"key": "1"}));
}
