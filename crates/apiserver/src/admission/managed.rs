//! `managedFields` after mutating webhooks.

use serde_json::Value;

use super::attributes::Object;

/// Restores the managers of an object if webhooks have made them invalid. Returns the warning about it.
///
/// Follows Kubernetes 1.37 (`managedFieldsValidatingAdmissionController`, `DecodeManagedFields`).
pub(super) fn restore(before: &Object, after: &mut Object) -> Option<String> {
    let why = managers(after).and_then(Value::as_array)?.iter().enumerate().find_map(fault)?;
    let given = managers(before).cloned();
    if let Some(Value::Object(metadata)) = after.get_mut("metadata") {
        match given {
            Some(given) => metadata.insert("managedFields".into(), given),
            None => metadata.remove("managedFields"),
        };
    }
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
         admission controller; please fix your requests: {why}"
    ))
}

fn managers(object: &Object) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn fault((index, entry): (usize, &Value)) -> Option<String> {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or("");
    if !matches!(text("operation"), "Apply" | "Update") {
        return Some("operation must be `Apply` or `Update`".into());
    }
    if text("apiVersion").is_empty() {
        return Some("apiVersion must not be empty".into());
    }
    match text("fieldsType") {
        "FieldsV1" => None,
        "" => Some(format!("missing fieldsType in managed fields entry {index}")),
        other => Some(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
    }
}
