//! The rules of the type and the metadata of an embedded resource.

use serde_json::{Map, Value};

use crate::selectors::{key_fault, value_fault};
use crate::status::Cause;

use super::super::definition::{dns_1035_fault, dns_1123_label_fault};
use super::fields;
use crate::causes::{invalid, required};

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
    let of = |field: &str| metadata.get(field).and_then(Value::as_object).into_iter().flatten();
    let at = format!("{path}.labels");
    for (key, value) in of("labels") {
        found.extend(key_fault(key).map(|why| invalid(&at, &key.as_str().into(), why)));
        let why = value_fault(value.as_str().unwrap_or(""));
        found.extend(why.map(|why| invalid(&at, value, why)));
    }
    let at = format!("{path}.annotations");
    for (key, _) in of("annotations") {
        found.extend(key_fault(&key.to_lowercase()).map(|why| invalid(&at, &key.as_str().into(), why)));
    }
    found
}
