//! Rules that apply only to namespace objects.

use serde_json::{Value, json};

use crate::registry::Resource;
use crate::status::Status;

use super::{Object, metadata};

/// Sets the fields that the server sets on a new namespace.
pub(super) fn complete(object: &mut Object, name: &str) {
    let labels = metadata::of(object).entry("labels").or_insert_with(|| json!({}));
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
    object.insert("spec".into(), json!({"finalizers": ["kubernetes"]}));
    object.insert("status".into(), json!({"phase": "Active"}));
}

/// Whether a terminating object without finalizers may be removed: a namespace only when it is empty.
pub(super) fn may_leave(resource: &Resource, object: &Object) -> bool {
    let held = || object.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    !resource.kind.is("", "namespaces") || held().is_none_or(Vec::is_empty)
}

/// # Errors
/// 403 for the namespaces that every cluster needs.
pub(super) fn check_deletable(name: &str) -> Result<(), Status> {
    if matches!(name, "default" | "kube-system" | "kube-public") {
        let subject = crate::status::Subject { group: "", resource: "namespaces" };
        return Err(Status::forbidden(subject, name, "this namespace may not be deleted"));
    }
    Ok(())
}
