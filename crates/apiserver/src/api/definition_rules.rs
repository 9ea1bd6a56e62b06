//! Rules that apply only to CustomResourceDefinitions that are being deleted.

use serde_json::Value;

use crate::clock::Clock;
use crate::registry::set_condition;

use super::{Object, metadata};

/// The finalizer of a definition whose objects are not yet deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition as terminating. Follows Kubernetes 1.37 (`customresourcedefinition.REST.Delete`).
pub(super) fn begin_deletion(definition: &mut Object, clock: &Clock) {
    let mut finalizers: Vec<Value> = metadata::finalizers(definition).into_iter().map(Value::from).collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    metadata::set_finalizers(definition, finalizers.into());
    metadata::of(definition).insert("deletionTimestamp".into(), clock.rfc3339().into());
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_terminating(definition, "True", "InstanceDeletionPending", message, clock);
}

/// Sets the condition `Terminating`.
pub(crate) fn set_terminating(
    definition: &mut Object,
    status: &str,
    reason: &str,
    message: &str,
    clock: &Clock,
) {
    let condition = ["Terminating", status, reason, message];
    set_condition(metadata::member(definition, "status"), condition, &clock.rfc3339());
}
