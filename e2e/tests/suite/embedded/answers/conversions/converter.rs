//! The webhook that converts things, well or badly.

use serde_json::{Value, json};

/// How the webhook answers. The first ones are accepted.
pub(super) const GOOD: [&str; 7] =
    ["ok", "labels", "no-labels", "metadata", "extra", "no-managers", "managers"];
pub(super) const BAD: [&str; 36] = [
    "none",
    "two",
    "name",
    "namespace",
    "uid",
    "no-uid",
    "review-uid",
    "review-version",
    "review-kind",
    "untyped",
    "same-version",
    "other-version",
    "other-kind",
    "no-kind",
    "no-metadata",
    "text-metadata",
    "bad-label",
    "number-label",
    "text-labels",
    "bad-annotation",
    "text-object",
    "null-object",
    "no-response",
    "no-result",
    "failed",
    "failed-silently",
    "text",
    "empty",
    "list",
    "404",
    "500",
    "500-json",
    "500-status",
    "201",
    "close",
    "v2-only",
];

const JSON: &str = "application/json";

/// Returns an object in another version: `v1` has a color and a size, `v2` has both in `spec.paint`.
fn converted(object: &Value, to: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = to.into();
    let Some(spec) = object["spec"].as_object_mut() else { return object };
    if to.ends_with("/v2") {
        let mut paint = serde_json::Map::new();
        for field in ["color", "size"] {
            paint.extend(spec.remove(field).map(|value| (field.to_owned(), value)));
        }
        if !paint.is_empty() {
            spec.insert("paint".into(), Value::Object(paint));
        }
    } else if let Some(Value::Object(paint)) = spec.remove("paint") {
        spec.extend(paint);
    }
    object
}

/// Returns the answer of a behaviour: code, media type and body.
pub(super) fn answer(behaviour: &str, review: &Value) -> (u16, &'static str, String) {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let mut objects: Vec<Value> =
        request["objects"].as_array().unwrap().iter().map(|object| converted(object, to)).collect();
    change(behaviour, &mut objects, request);
    let mut review = json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "response": {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}});
    let response = &mut review["response"];
    match behaviour {
        "review-uid" => response["uid"] = "other".into(),
        "review-version" => review["apiVersion"] = "apiextensions.k8s.io/v1beta1".into(),
        "review-kind" => review["kind"] = "Review".into(),
        "untyped" => return (200, JSON, json!({"response": response}).to_string()),
        "no-response" => review["response"] = Value::Null,
        "no-result" => response["result"] = Value::Null,
        "failed" => {
            response["result"] =
                json!({"status": "Failure", "message": "not today", "reason": "Because", "code": 418})
        }
        "failed-silently" => response["result"] = json!({"status": "Failure"}),
        "text" => return (200, "text/plain", "hello".into()),
        "empty" => return (200, JSON, String::new()),
        "list" => return (200, JSON, "[]".into()),
        "404" => return (404, "text/plain", "none".into()),
        "500" => return (500, "text/plain", "broken\n".into()),
        "500-json" => return (500, JSON, json!({"error": "broken"}).to_string()),
        "500-status" => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "a status", "code": 500});
            return (500, JSON, status.to_string());
        }
        "201" => return (201, JSON, review.to_string()),
        _ => {}
    }
    (200, JSON, review.to_string())
}

/// Changes the converted objects.
fn change(behaviour: &str, objects: &mut Vec<Value>, request: &Value) {
    if let Some(object) = objects.first_mut() {
        let before = request["objects"][0]["apiVersion"].clone();
        match behaviour {
            "labels" => object["metadata"]["labels"] = json!({"converted": "yes"}),
            "no-labels" => {
                object["metadata"]["labels"] = Value::Null;
                remove(&mut object["metadata"], "annotations");
            }
            "metadata" => {
                object["metadata"]["generation"] = 77.into();
                object["metadata"]["finalizers"] = json!(["example.com/added"]);
                object["metadata"]["resourceVersion"] = "1".into();
                object["metadata"]["annotations"] = json!({"a": "b"});
            }
            "extra" => {
                object["other"] = 1.into();
                object["spec"]["other"] = json!({"a": [1]});
            }
            "no-managers" => remove(&mut object["metadata"], "managedFields"),
            "managers" => {
                object["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Update"}])
            }
            "name" => object["metadata"]["name"] = "renamed".into(),
            "namespace" => object["metadata"]["namespace"] = "elsewhere".into(),
            "uid" => object["metadata"]["uid"] = "other".into(),
            "no-uid" => remove(&mut object["metadata"], "uid"),
            "same-version" => object["apiVersion"] = before,
            "other-version" => object["apiVersion"] = "example.com/v9".into(),
            "other-kind" => object["kind"] = "Other".into(),
            "no-kind" => remove(object, "kind"),
            "no-metadata" => remove(object, "metadata"),
            "text-metadata" => object["metadata"] = "a".into(),
            "bad-label" => object["metadata"]["labels"] = json!({"a b": "c d"}),
            "number-label" => object["metadata"]["labels"] = json!({"a": 1}),
            "text-labels" => object["metadata"]["labels"] = "a".into(),
            "bad-annotation" => object["metadata"]["annotations"] = json!({"a b": "c"}),
            "text-object" => *object = "a".into(),
            "null-object" => *object = Value::Null,
            _ => {}
        }
    }
    match behaviour {
        "none" => objects.clear(),
        "two" => objects.extend(objects.clone()),
        _ => {}
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
