//! The rules of the type and the metadata of an embedded resource.

use serde_json::{Map, Value};

use crate::apply::is_printable;
use crate::builtin::{MAX_ANNOTATIONS, names};
use crate::owner_references;
use crate::status::Cause;

use super::super::definition::{dns_1035_fault, dns_1123_label_fault};
use super::fields;
use crate::causes::{invalid, not_supported, required, too_long};

/// The limit of the name of a manager. Follows Kubernetes 1.37 (`FieldManagerMaxLength`).
const MAX_MANAGER: usize = 128;
/// Follows Kubernetes 1.37 (`MaxSubresourceNameLength`).
const MAX_SUBRESOURCE: usize = 256;

/// Returns what is wrong with an embedded resource at a path.
pub(super) fn faults(path: &str, resource: &Map<String, Value>) -> Vec<Cause> {
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let mut found = Vec::new();
    for name in ["apiVersion", "kind"] {
        if !resource.contains_key(name) {
            found.push(required(&at(name), ""));
        }
    }
    if let Some(value) = resource.get("apiVersion") {
        let why = match value.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(text) if text.matches('/').count() > 1 => {
                Some(format!("unexpected GroupVersion string: {text}"))
            }
            Some(_) => None,
        };
        found.extend(why.map(|why| invalid(&at("apiVersion"), value, &why)));
    }
    if let Some(value) = resource.get("kind") {
        let why = match value.as_str() {
            None => Some("must be a string".to_owned()),
            Some("") => Some("must not be empty".to_owned()),
            Some(kind) => dns_1035_fault(&kind.to_lowercase())
                .map(|why| format!("may have mixed case, but should otherwise match: {why}")),
        };
        found.extend(why.map(|why| invalid(&at("kind"), value, &why)));
    }
    if let Some(value) = resource.get("metadata") {
        match fields::typed(value, &mut Vec::new()) {
            Ok(metadata) => found.extend(metadata_faults(&at("metadata"), &metadata)),
            Err(why) => found.push(invalid(&at("metadata"), value, &why)),
        }
    }
    found
}

fn metadata_faults(path: &str, metadata: &Map<String, Value>) -> Vec<Cause> {
    let mut found = Vec::new();
    for name in ["generateName", "name"] {
        let Some(value) = metadata.get(name) else { continue };
        let text = value.as_str().unwrap_or("");
        let at = format!("{path}.{name}");
        if name == "name" && matches!(text, "." | "..") {
            found.push(invalid(&at, value, &format!("may not be '{text}'")));
            continue;
        }
        for part in ["/", "%"].iter().filter(|part| text.contains(**part)) {
            found.push(invalid(&at, value, &format!("may not contain '{part}'")));
        }
    }
    if let Some(value) = metadata.get("namespace") {
        let why = dns_1123_label_fault(value.as_str().unwrap_or(""));
        found.extend(why.map(|why| invalid(&format!("{path}.namespace"), value, &why)));
    }
    if let Some(value) = metadata.get("generation").filter(|value| value.as_i64().is_some_and(|n| n < 0)) {
        found.push(invalid(&format!("{path}.generation"), value, "must be greater than or equal to 0"));
    }
    let of = |field: &str| metadata.get(field).and_then(Value::as_object).into_iter();
    found.extend(of("labels").flat_map(|labels| label_faults(&format!("{path}.labels"), labels)));
    let at = format!("{path}.annotations");
    found.extend(of("annotations").flat_map(|annotations| annotation_faults(&at, annotations)));
    found.extend(owner_references::faults(path, metadata));
    found.extend(owner_references::finalizer_faults(path, metadata));
    let entries = metadata.get("managedFields").and_then(Value::as_array).into_iter().flatten();
    for (index, entry) in entries.enumerate() {
        found.extend(entry_faults(&format!("{path}.managedFields[{index}]"), entry));
    }
    found
}

/// Returns what is wrong with labels. Follows Kubernetes 1.37 (`ValidateLabels`).
pub(crate) fn label_faults(path: &str, labels: &Map<String, Value>) -> Vec<Cause> {
    let mut found = Vec::new();
    for (key, value) in labels {
        found.extend(names::qualified_name(key).iter().map(|why| invalid(path, &key.as_str().into(), why)));
        let rules = names::label_value(value.as_str().unwrap_or(""));
        found.extend(rules.iter().map(|why| invalid(path, value, why)));
    }
    found
}

/// Returns what is wrong with annotations. Follows Kubernetes 1.37 (`ValidateAnnotations`).
pub(crate) fn annotation_faults(path: &str, annotations: &Map<String, Value>) -> Vec<Cause> {
    let mut found = Vec::new();
    for key in annotations.keys() {
        let rules = names::qualified_name(&key.to_lowercase());
        found.extend(rules.iter().map(|why| invalid(path, &key.as_str().into(), why)));
    }
    let size = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if size.sum::<usize>() > MAX_ANNOTATIONS {
        found.push(too_long(path, MAX_ANNOTATIONS));
    }
    found
}

/// Returns what is wrong with an entry of `managedFields`.
///
/// Follows Kubernetes 1.37 (`ValidateManagedFields`).
fn entry_faults(path: &str, entry: &Value) -> Vec<Cause> {
    let mut found = Vec::new();
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or("");
    let at = |field: &str| format!("{path}.{field}");
    match text("operation") {
        "" => found.push(required(&at("operation"), "must not be empty")),
        "Apply" | "Update" => {}
        other => found.push(not_supported(&at("operation"), &other.into(), &["Apply", "Update"])),
    }
    let kind = text("fieldsType");
    if !kind.is_empty() && kind != "FieldsV1" {
        found.push(invalid(&at("fieldsType"), &kind.into(), "must be `FieldsV1`"));
    }
    let manager = text("manager");
    if manager.len() > MAX_MANAGER {
        found.push(too_long(&at("manager"), MAX_MANAGER));
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let why = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        found.push(invalid(&at("manager"), &manager.into(), &why));
    }
    if text("subresource").len() > MAX_SUBRESOURCE {
        found.push(too_long(&at("subresource"), MAX_SUBRESOURCE));
    }
    found
}
