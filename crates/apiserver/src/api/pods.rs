//! Subresources of pods that are not objects: bindings and evictions.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::registry::Resource;
use crate::status::{Status, Subject};
use crate::storage::{Change, Outcome, Stored};

use super::{Api, DeleteOptions, Deleted, DryRun, Object, Preconditions, metadata};

/// `pods/binding`: assigns a pod to a node, which need not exist. The UID and version of the binding are
/// preconditions on the pod; its labels and annotations are copied to the pod.
///
/// # Errors
/// 404 for a missing pod; 409 for a failed precondition, or for a pod that is bound, terminating or blocked by a
/// scheduling gate; 400 without a target. Nothing has changed then.
///
/// Follows Kubernetes 1.37 (`BindingREST`).
pub(crate) fn bind(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
    binding: &Object,
    dry_run: DryRun,
) -> Result<Arc<Stored>, Status> {
    let target = binding.get("target").and_then(|target| target.get("name"));
    let node = target.and_then(Value::as_str).unwrap_or("");
    if node.is_empty() {
        return Err(Status::bad_request("target.name: Required value"));
    }
    let given = |field: &str| Some(metadata::text(binding, field).to_owned()).filter(|text| !text.is_empty());
    let preconditions = Preconditions { uid: given("uid"), version: given("resourceVersion") };
    let refused =
        |why: String| Err(Status::conflict(Subject { group: "", resource: "pods/binding" }, name, &why));
    let key = Api::key(resource, namespace, name);
    let outcome = resource.store.write(&key, |present| {
        let present = present.ok_or_else(|| Status::not_found(resource.kind.resource_subject(), name))?;
        preconditions.check(resource, present)?;
        let mut object = present.parse();
        if metadata::is_terminating(&object) {
            return refused(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let spec = metadata::member(&mut object, "spec");
        if let Some(taken) = spec.get("nodeName").and_then(Value::as_str).filter(|name| !name.is_empty()) {
            return refused(format!("pod {name} is already assigned to node {taken:?}"));
        }
        if spec.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
            return refused(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        spec.insert("nodeName".into(), node.into());
        let status = metadata::member(&mut object, "status");
        status.remove("nominatedNodeName");
        let condition =
            json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": api.clock.rfc3339()});
        if let Some(conditions) = status.entry("conditions").or_insert_with(|| json!([])).as_array_mut() {
            conditions.retain(|other| other.get("type") != condition.get("type"));
            conditions.push(condition);
        }
        for field in ["annotations", "labels"] {
            let given = binding.get("metadata").and_then(|metadata| metadata.get(field));
            if let Some(given) = given.and_then(Value::as_object).filter(|given| !given.is_empty()) {
                metadata::member(metadata::of(&mut object), field).extend(given.clone());
            }
        }
        Ok(if dry_run == DryRun::All { Change::Keep } else { Change::Put(object) })
    })?;
    match outcome {
        Outcome::Stored(stored) | Outcome::Removed(stored) | Outcome::Kept(Some(stored)) => Ok(stored),
        Outcome::Kept(None) => Err(Status::not_found(resource.kind.resource_subject(), name)),
    }
}

/// `pods/eviction`: deletes a pod. Disruption budgets are ignored.
///
/// # Errors
/// The same as for a deletion.
pub(crate) fn evict(
    api: &Api,
    resource: &Arc<Resource>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Arc<Stored>, Status> {
    let (Deleted::Gone(stored) | Deleted::Terminating(stored)) =
        api.delete(resource, namespace, name, options)?;
    Ok(stored)
}
