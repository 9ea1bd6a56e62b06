//! `ConversionReview`: what a webhook is sent, and the object that it answers with.
//!
//! Follows Kubernetes 1.37 (`webhookConverter.Convert`).

use serde_json::{Map, Value, json};

use crate::admission::parse_review;
use crate::apply::{go_type, quoted};
use crate::protobuf::json_type;
use crate::schema::{annotation_faults, label_faults};
use crate::status::Cause;

const KIND: &str = "ConversionReview";
const GROUP: &str = "apiextensions.k8s.io";

type Object = Map<String, Value>;

/// Returns the first version of reviews that a webhook accepts and that exists.
pub(super) fn negotiated(accepted: &[String]) -> Option<&str> {
    accepted.iter().map(String::as_str).find(|version| matches!(*version, "v1" | "v1beta1"))
}

/// Returns the review for one object.
pub(super) fn request(version: &str, uid: &str, object: Object, to: &str) -> Value {
    json!({"kind": KIND, "apiVersion": format!("{GROUP}/{version}"),
        "request": {"uid": uid, "desiredAPIVersion": to, "objects": [object]},
        "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}}})
}

fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or("")
}

/// A type as Go prints it.
pub(super) fn type_text(api_version: &str, kind: &str) -> String {
    let separator = if api_version.contains('/') { "" } else { "/" };
    format!("{separator}{api_version}, Kind={kind}")
}

/// Returns the objects of a response.
///
/// # Errors
/// Why there are none.
pub(super) fn objects(version: &str, uid: &str, body: &[u8]) -> Result<Vec<Value>, String> {
    let api_version = format!("{GROUP}/{version}");
    let review = parse_review(body, (&api_version, KIND), 111)?;
    let empty = Map::new();
    let of_review = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or("");
    let (given, expected) =
        (type_text(of_review("apiVersion"), of_review("kind")), type_text(&api_version, KIND));
    if version == "v1" && given != expected {
        return Err(format!("expected webhook response of {expected}, got {given}"));
    }
    let response = review.get("response").filter(|response| !response.is_null());
    let response = response.ok_or("no response provided")?.as_object().unwrap_or(&empty);
    let got = text(response, "uid");
    if version == "v1" && got != uid {
        return Err(format!("expected response.uid={}, got {}", quoted(uid), quoted(got)));
    }
    let result = response.get("result").and_then(Value::as_object).unwrap_or(&empty);
    match (text(result, "status"), text(result, "message")) {
        ("Success", _) => {}
        (status, "") => return Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => return Err(message.to_owned()),
    }
    Ok(response.get("convertedObjects").and_then(Value::as_array).cloned().unwrap_or_default())
}

/// Returns the converted object with the metadata of the original, apart from labels and annotations.
///
/// # Errors
/// Why the answer is not accepted.
pub(super) fn converted(original: &Object, answer: Vec<Value>, to: &str) -> Result<Object, String> {
    let about = type_text(text(original, "apiVersion"), text(original, "kind"));
    let count = answer.len();
    let mut answer = answer.into_iter();
    let (Some(first), None) = (answer.next(), answer.next()) else {
        return Err(format!("conversion webhook for {about} returned {count} objects, expected 1"));
    };
    let mut object = match first {
        Value::Object(object) => object,
        Value::Null => return Err("unexpected end of JSON input".into()),
        other => {
            let given = json_type(&other, "");
            return Err(format!(
                "json: cannot unmarshal {given} into Go value of type map[string]interface {{}}"
            ));
        }
    };
    if text(&object, "kind").is_empty() {
        let shown = Value::Object(object);
        return Err(format!("Object 'Kind' is missing in '{shown}'"));
    }
    let returned = format!("conversion webhook for {about} returned invalid");
    let (version, kind) = (text(&object, "apiVersion"), text(&object, "kind"));
    if version != to {
        let why = format!("invalid groupVersion (expected {to}, received {version})");
        return Err(format!("{returned} object at index 0: {why}"));
    }
    if kind != text(original, "kind") {
        let why = format!("invalid kind (expected {}, received {kind})", text(original, "kind"));
        return Err(format!("{returned} object at index 0: {why}"));
    }
    identity_fault(original, &object).map_err(|why| format!("{returned} object: {why}"))?;
    restore(original, &mut object).map_err(|why| format!("{returned} metadata: {why}"))?;
    Ok(object)
}

/// # Errors
/// The first field that identifies the object and is another one.
fn identity_fault(original: &Object, converted: &Object) -> Result<(), String> {
    fn of<'a>(object: &'a Object, field: &str) -> &'a str {
        object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
    }
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (of(original, field), of(converted, field));
        if before != after {
            return Err(format!("must have the same {name}: {before} != {after}"));
        }
    }
    Ok(())
}

/// # Errors
/// Why the labels or the annotations are not accepted.
fn restore(original: &Object, converted: &mut Object) -> Result<(), String> {
    let given = converted.remove("metadata").ok_or("missing metadata in converted object")?;
    let Value::Object(given) = given else {
        return Err(format!("invalid metadata of type {} in converted object", go_type(&given)));
    };
    let mut metadata = original.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let before = metadata.remove(field);
        let Some(after) = given.get(field).filter(|value| !value.is_null()) else { continue };
        let Value::Object(map) = after else {
            let found = go_type(after);
            return Err(format!("invalid metadata.{field} of type {found} in converted object"));
        };
        if let Some((key, value)) = map.iter().find(|(_, value)| !value.is_string()) {
            let found = go_type(value);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {found} in converted object"
            ));
        }
        if before.as_ref() != Some(after) {
            check_texts(field, map)?;
        }
        metadata.insert(field.into(), after.clone());
    }
    converted.insert("metadata".into(), Value::Object(metadata));
    Ok(())
}

fn check_texts(field: &str, map: &Object) -> Result<(), String> {
    let faults = match field {
        "labels" => label_faults("metadata.labels", map),
        _ => annotation_faults("metadata.annotation", map),
    };
    let text = |cause: &Cause| format!("{}: {}", cause.field.as_deref().unwrap_or(""), cause.message);
    match faults.iter().map(text).collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    }
}
