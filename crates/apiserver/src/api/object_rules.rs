//! Validation of the objects that clients write, as far as clients rely on it.

use serde_json::Value;

use crate::builtin::MAX_ANNOTATIONS;
use crate::causes;
use crate::registry::Kind;
use crate::status::Cause;

use crate::owner_references::finalizer_faults;

use super::{Object, metadata, scale};

/// The limit of the name of a manager. Follows Kubernetes 1.37 (`FieldManagerMaxLength`).
const MAX_MANAGER: usize = 128;
/// The limit of the data of a ConfigMap or a Secret. Follows Kubernetes 1.37 (`MaxSecretSize`).
const MAX_DATA: usize = 1024 * 1024;
/// The finalizers without a domain. Follows Kubernetes 1.37 (`IsStandardFinalizerName`).
pub(super) const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Returns the problems with an object that is created or updated.
pub(super) fn faults(kind: &Kind, object: &Object) -> Vec<Cause> {
    let mut faults = metadata::faults(object);
    faults.extend(annotations_fault(object));
    let metadata = object.get("metadata").and_then(Value::as_object);
    faults.extend(metadata.into_iter().flat_map(|metadata| finalizer_faults("metadata", metadata)));
    if requires_domains(kind) {
        faults.extend(domain_faults(object));
    }
    faults.extend(manager_faults(object));
    faults.extend(scale::scale_faults(kind, object));
    faults.extend(data_fault(kind, object));
    faults
}

/// Returns the problems with the change of an object. Follows Kubernetes 1.37 (`ValidateConfigMapUpdate`,
/// `ValidateSecretUpdate`).
pub(super) fn change_faults(kind: &Kind, before: &Object, after: &Object) -> Vec<Cause> {
    let immutable = Value::Bool(true);
    if !has_data(kind) || before.get("immutable") != Some(&immutable) {
        return Vec::new();
    }
    let parts = |object: &Object, name: &str| {
        object.get(name).filter(|value| value.as_object().is_some_and(|map| !map.is_empty())).cloned()
    };
    let mut changed = Vec::new();
    if after.get("immutable") != Some(&immutable) {
        changed.push("immutable");
    }
    changed
        .extend(["data", "binaryData"].into_iter().filter(|name| parts(before, name) != parts(after, name)));
    changed
        .into_iter()
        .map(|field| causes::forbidden(field, "field is immutable when `immutable` is set"))
        .collect()
}

fn has_data(kind: &Kind) -> bool {
    kind.is("", "configmaps") || kind.is("", "secrets")
}

fn members<'a>(object: &'a Object, path: &[&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    let (first, rest) = path.split_first().map_or(("", [].as_slice()), |(first, rest)| (*first, rest));
    let map = rest.iter().try_fold(object.get(first), |value, name| Some(value?.get(*name)));
    let members = map.flatten().and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

fn annotations_fault(object: &Object) -> Option<Cause> {
    let size: usize =
        members(object, &["metadata", "annotations"]).map(|(name, value)| name.len() + value.len()).sum();
    (size > MAX_ANNOTATIONS).then(|| causes::too_long("metadata.annotations", MAX_ANNOTATIONS))
}

/// Whether the kind is validated by the package of the core group, which requires the domains of finalizers.
fn requires_domains(kind: &Kind) -> bool {
    const GROUPS: [&str; 13] = [
        "",
        "apps",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "discovery.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    ];
    !kind.custom && GROUPS.contains(&kind.group.as_str()) && kind.kind != "Event"
}

fn domain_faults(object: &Object) -> Vec<Cause> {
    let finalizers = metadata::finalizers(object).into_iter().enumerate();
    finalizers
        .filter(|(_, name)| !name.contains('/') && !STANDARD_FINALIZERS.contains(name))
        .map(|(position, name)| {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{position}]");
            Cause::invalid(&field, format!("Invalid value: {name:?}: {rule}"))
        })
        .collect()
}

fn manager_faults(object: &Object) -> Vec<Cause> {
    let entries = metadata::managed_fields(object).and_then(Value::as_array).into_iter().flatten();
    entries
        .enumerate()
        .filter(|(_, entry)| {
            let manager = entry.get("manager").and_then(Value::as_str);
            manager.is_some_and(|manager| manager.len() > MAX_MANAGER)
        })
        .map(|(position, _)| {
            causes::too_long(&format!("metadata.managedFields[{position}].manager"), MAX_MANAGER)
        })
        .collect()
}

fn data_fault(kind: &Kind, object: &Object) -> Option<Cause> {
    if !has_data(kind) {
        return None;
    }
    let decoded = |text: &str| {
        let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
        (text.len() / 4 * 3).saturating_sub(padding)
    };
    let is_secret = kind.is("", "secrets");
    let data = members(object, &["data"]).map(|(_, text)| if is_secret { decoded(text) } else { text.len() });
    let binary = members(object, &["binaryData"]).map(|(_, text)| decoded(text));
    let size = data.sum::<usize>() + if is_secret { 0 } else { binary.sum() };
    (size > MAX_DATA).then(|| causes::too_long(if is_secret { "data" } else { "[]" }, MAX_DATA))
}
