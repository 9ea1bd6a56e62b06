//! The rules of printer columns, selectable fields, scale paths and deprecations.

use std::collections::HashSet;

use serde_json::Value;

use crate::status::Cause;

use super::node::Node;
use crate::causes::{duplicate, invalid, required, too_many};

const MAX_SELECTABLE: usize = 8;

/// A path that starts with a dot.
fn path_fault(path: &str, at: &str) -> Option<Cause> {
    (!path.starts_with('.')).then(|| invalid(at, &path.into(), "must be a simple json path starting with ."))
}

pub(super) fn column_faults(column: Node<'_>, path: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    if column.text("name").is_empty() {
        found.push(required(&format!("{path}.name"), ""));
    }
    let types = ["boolean", "date", "integer", "number", "string"];
    let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let (kind, format) = (column.text("type"), column.text("format"));
    let rule = format!("must be one of {}", types.join(","));
    if kind.is_empty() {
        found.push(required(&format!("{path}.type"), &rule));
    } else if !types.contains(&kind) {
        found.push(invalid(&format!("{path}.type"), &kind.into(), &rule));
    }
    if !format.is_empty() && !formats.contains(&format) {
        let rule = format!("must be one of {}", formats.join(","));
        found.push(invalid(&format!("{path}.format"), &format.into(), &rule));
    }
    let at = format!("{path}.JSONPath");
    match column.text("jsonPath") {
        "" => found.push(required(&at, "")),
        text => found.extend(path_fault(text, &at)),
    }
    found
}

pub(super) fn scale_faults(scale: Node<'_>, path: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    let fields: [(&str, &[&str], &str); 3] = [
        ("specReplicasPath", &[".spec."], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ];
    for (field, roots, rule) in fields {
        let (text, at) = (scale.text(field), format!("{path}.scale.{field}"));
        if text.is_empty() {
            if field != "labelSelectorPath" {
                found.push(required(&at, ""));
            }
        } else if let Some(cause) = path_fault(text, &at) {
            found.push(cause);
        } else if !roots.iter().any(|root| text.starts_with(root)) {
            found.push(invalid(&at, &text.into(), rule));
        }
    }
    found
}

/// The selectable fields of a version. Their paths are dotted names.
pub(super) fn selectable_faults(version: Node<'_>, path: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    let schema = version.node("schema").and_then(|schema| schema.node("openAPIV3Schema"));
    let mut seen = HashSet::new();
    for (index, field) in version.listed("selectableFields") {
        let (text, at) = (field.text("jsonPath"), format!("{path}[{index}].jsonPath"));
        if text.is_empty() {
            found.push(required(&at, ""));
            continue;
        }
        let value = Value::from(text);
        let declared = match declared_type(schema, text) {
            Ok(declared) => declared,
            Err(why) => {
                found.push(invalid(&at, &value, &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if text.trim_start_matches('.').split('.').next() == Some("metadata") {
            found.push(invalid(&at, &value, "must not point to fields in metadata"));
        }
        if !matches!(declared, "string" | "boolean" | "integer") {
            let rule = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                        formats are allowed.";
            found.push(invalid(&at, &value, rule));
        }
        if !seen.insert(text) {
            found.push(duplicate(&at, &value));
        }
    }
    if seen.len() > MAX_SELECTABLE {
        found.push(too_many(path, seen.len(), 8));
    }
    found
}

/// Returns the type at a path; empty if it has none.
///
/// # Errors
/// Why there is no such field.
fn declared_type<'a>(schema: Option<Node<'a>>, path: &str) -> Result<&'a str, String> {
    if path.contains(['[', ']']) {
        return Err("array notation is not allowed".into());
    }
    let Some(rest) = path.strip_prefix('.') else {
        return Err(format!("expected [ or . but got: {}", path.split('.').next().unwrap_or("")));
    };
    let mut node = schema;
    for name in rest.split('.') {
        let next = node.and_then(|node| match node.is_filled("properties") {
            true => node.property(name),
            false => node.node("additionalProperties"),
        });
        node = Some(next.ok_or("does not refer to a valid field")?);
    }
    Ok(node.map_or("", |node| node.text("type")))
}

pub(super) fn deprecation_faults(version: Node<'_>, path: &str) -> Vec<Cause> {
    let Some(warning) = version.get("deprecationWarning") else { return Vec::new() };
    let text = warning.as_str().unwrap_or("");
    let mut rules = Vec::new();
    if !version.flag("deprecated") {
        rules.push("can only be set for deprecated versions".to_owned());
    } else {
        if text.len() > 256 {
            rules.push("must be <= 256 characters long".to_owned());
        }
        if text.is_empty() {
            rules.push("must not be an empty string".to_owned());
        }
        if let Some((index, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
            rules.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    }
    rules.iter().map(|rule| invalid(&format!("{path}.deprecationWarning"), warning, rule)).collect()
}
