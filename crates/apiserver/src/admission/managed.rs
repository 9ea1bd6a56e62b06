//! `managedFields` after mutating webhooks.

use serde_json::Value;

use super::attributes::Object;
use crate::apply::{entries_fault, refuse_packed};

/// Restores the managers of an object if webhooks have made them invalid. Returns the warning about it.
///
/// Follows Kubernetes 1.37 (`managedFieldsValidatingAdmissionController`, `DecodeManagedFields`).
pub(super) fn restore(before: &Object, after: &mut Object) -> Option<String> {
    refuse_packed(after);
    let why = entries_fault(managers(after))?;
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
