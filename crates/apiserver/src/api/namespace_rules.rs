//! Rules that apply only to namespace objects.

use serde_json::{Value, json};

use crate::clock::Clock;
use crate::registry::Resource;
use crate::status::Status;
use crate::storage::{DELETE_DEPENDENTS, ORPHAN_DEPENDENTS};

use super::delete_options::{DeleteOptions, Propagation};
use super::deletion::{Step, ThenRemove};
use super::{Object, metadata};

/// Sets the fields that the server sets on a new namespace.
pub(super) fn complete(object: &mut Object, name: &str) {
    let labels = metadata::of(object).entry("labels").or_insert_with(|| json!({}));
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
    let spec = metadata::member(object, "spec");
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(finalizers) =
        finalizers.as_array_mut().filter(|list| !list.iter().any(|it| it == "kubernetes"))
    {
        finalizers.push("kubernetes".into());
    }
    object.insert("status".into(), json!({"phase": "Active"}));
}

/// Whether a terminating object without finalizers may be removed: a namespace only when it is empty.
pub(super) fn may_leave(resource: &Resource, object: &Object) -> bool {
    !resource.kind.is("", "namespaces") || spec_finalizers(object).is_empty()
}

/// Returns `spec.finalizers`.
pub(crate) fn spec_finalizers(namespace: &Object) -> Vec<&str> {
    let list = namespace.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
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

/// Returns what a deletion does with a namespace; `None` if it is as for other kinds. The options say what happens to the
/// dependents, if objects are collected.
///
/// Follows Kubernetes 1.37 (`namespace.REST.Delete`).
pub(super) fn deletion(
    namespace: &mut Object,
    options: Option<&DeleteOptions>,
    clock: &Clock,
) -> Option<Step> {
    if metadata::is_terminating(namespace) {
        return (!spec_finalizers(namespace).is_empty()).then_some(Step::Pending);
    }
    metadata::of(namespace).insert("deletionTimestamp".into(), clock.rfc3339().into());
    metadata::member(namespace, "status").insert("phase".into(), "Terminating".into());
    if let Some(options) = options {
        set_finalizers(namespace, options);
    }
    Some(Step::Update(std::mem::take(namespace), ThenRemove::No))
}

/// Sets the finalizers of garbage collection as the options say. Those of the namespace stay if they say nothing.
fn set_finalizers(namespace: &mut Object, options: &DeleteOptions) {
    let wanted = match (options.orphan_dependents, options.propagation) {
        (Some(true), _) | (None, Some(Propagation::Orphan)) => Some(ORPHAN_DEPENDENTS),
        (Some(false), _) | (None, Some(Propagation::Foreground)) => Some(DELETE_DEPENDENTS),
        (None, Some(Propagation::Background)) => None,
        (None, None) => return,
    };
    let is_other = |finalizer: &&str| ![ORPHAN_DEPENDENTS, DELETE_DEPENDENTS].contains(finalizer);
    let others = metadata::finalizers(namespace).into_iter().filter(is_other);
    let finalizers: Value = others.chain(wanted).collect();
    metadata::set_finalizers(namespace, finalizers);
}
