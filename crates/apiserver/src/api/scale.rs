//! The scale subresource.

use serde_json::{Value, json};

use crate::registry::{ScalePaths, assign, lookup};
use crate::status::{Cause, Status, Subject};

use super::{Object, metadata};

/// Returns the `autoscaling/v1` Scale of an object.
pub(crate) fn scale_of(object: &Object, paths: &ScalePaths) -> Object {
    let number = |path: &[String]| lookup(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let text = metadata::text(object, field);
        if !text.is_empty() {
            metadata.insert(field.into(), text.into());
        }
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = paths.selector.as_ref().and_then(|path| lookup(object, path)).map(selector_text);
    if let (Some(selector), Some(status)) = (selector, status.as_object_mut()) {
        status.insert("selector".into(), selector.into());
    }
    let scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(&paths.spec_replicas)}, "status": status});
    scale.as_object().cloned().unwrap_or_default()
}

/// Applies the replica count of a Scale to its object.
///
/// # Errors
/// 400 for a body that is not a Scale, 422 for a negative count.
pub(crate) fn apply_scale(object: &mut Object, scale: &Object, paths: &ScalePaths) -> Result<(), Status> {
    if scale.get("kind").is_some_and(|kind| kind != "Scale") {
        return Err(Status::bad_request("the object provided is unrecognized (must be of type Scale)"));
    }
    let replicas = match scale.get("spec").and_then(|spec| spec.get("replicas")) {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().ok_or_else(|| {
            Status::bad_request(
                "json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32",
            )
        })?,
    };
    if replicas < 0 || replicas > i64::from(i32::MAX) {
        let cause = Cause::invalid(
            "spec.replicas",
            format!("Invalid value: {replicas}: must be greater than or equal to 0"),
        );
        let subject = Subject { group: "autoscaling", resource: "Scale" };
        return Err(Status::invalid(subject, metadata::text(object, "name"), vec![cause]));
    }
    let version = metadata::text(scale, "resourceVersion").to_owned();
    assign(object, &paths.spec_replicas, replicas.into());
    if !version.is_empty() {
        metadata::of(object).insert("resourceVersion".into(), version.into());
    }
    Ok(())
}

/// Formats a label selector as text. It may be a `LabelSelector`, a plain map or text already.
fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let equal = |map: &serde_json::Map<String, Value>| -> Vec<String> {
        map.iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
    };
    let Value::Object(map) = selector else { return text(selector) };
    let labels = map.get("matchLabels").and_then(Value::as_object);
    let expressions = map.get("matchExpressions").and_then(Value::as_array);
    if labels.is_none() && expressions.is_none() {
        return equal(map).join(",");
    }
    let mut parts = labels.map(equal).unwrap_or_default();
    for expression in expressions.into_iter().flatten() {
        let member = |name: &str| expression.get(name).map(&text).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_array);
        let values: Vec<String> = values.into_iter().flatten().map(&text).collect();
        let (key, values) = (member("key"), values.join(","));
        parts.push(match member("operator").as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key,
        });
    }
    parts.join(",")
}
