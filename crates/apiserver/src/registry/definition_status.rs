//! The status of a definition: its names, its versions, and its conditions.
//!
//! Follows Kubernetes 1.37 (the controllers of `apiextensions-apiserver`), without their delay. There is no condition
//! `NonStructuralSchema`, since definitions with such schemas are refused.

use serde_json::{Map, Value, json};

use crate::schema::definition::{Approval, approval};

use super::names::{Names, Used};

/// Whether a write sets the conditions of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conditions {
    /// The server sets them.
    Set,
    /// Those of the object stay, if it has some.
    Given,
}

fn status_of(definition: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let status = definition.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    status.as_object_mut()
}

/// Adds the storage version to the versions in which objects may be stored.
pub(super) fn complete_versions(definition: &mut Map<String, Value>) {
    let versions = definition.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let stored = versions.into_iter().flatten().find(is_stored);
    let name = stored.and_then(|version| version.get("name")).cloned();
    let (Some(name), Some(status)) = (name, status_of(definition)) else { return };
    match status.entry("storedVersions").or_insert_with(|| json!([])) {
        Value::Array(listed) if listed.contains(&name) => {}
        Value::Array(listed) => listed.push(name),
        other => *other = json!([name]),
    }
}

/// Sets the names and the conditions. Returns the names that the definition has got.
pub(super) fn complete(
    definition: &mut Map<String, Value>,
    requested: &Names,
    used: &Used<'_>,
    conditions: Conditions,
    now: &str,
) -> Names {
    let approval = approval(definition);
    let Some(status) = status_of(definition) else { return requested.clone() };
    let accepted = status.get("acceptedNames").map(Names::of).unwrap_or_default();
    // names that a definition has are not checked again, whatever its conditions say
    if accepted == *requested && conditions == Conditions::Set && has_condition(status, "NamesAccepted") {
        set_approval(status, approval, now);
        return accepted;
    }
    let (names, conflict) = accepted.accept(requested, used);
    status.insert("acceptedNames".into(), names.to_json());
    if conditions == Conditions::Given && status.contains_key("conditions") {
        return names;
    }
    let accepted: [&str; 4] = match &conflict {
        None => ["NamesAccepted", "True", "NoConflicts", "no conflicts found"],
        Some(conflict) => ["NamesAccepted", "False", conflict.reason, &conflict.message],
    };
    set_condition(status, accepted, now);
    if !has_established(status, "True") {
        let established: [&str; 4] = match &conflict {
            None => ["Established", "True", "InitialNamesAccepted", "the initial names have been accepted"],
            Some(_) => ["Established", "False", "NotAccepted", "not all names are accepted"],
        };
        set_condition(status, established, now);
    }
    set_approval(status, approval, now);
    names
}

fn set_approval(status: &mut Map<String, Value>, approval: Option<Approval>, now: &str) {
    if let Some(approval) = approval {
        let name = "KubernetesAPIApprovalPolicyConformant";
        set_condition(status, [name, approval.status, approval.reason, &approval.message], now);
    }
}

fn has_condition(status: &Map<String, Value>, name: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| condition.get("type").is_some_and(|other| other == name))
}

/// Sets a condition: type, status, reason and message.
pub(crate) fn set_condition(status: &mut Map<String, Value>, condition: [&str; 4], now: &str) {
    let [name, state, reason, message] = condition;
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let present =
        conditions.iter_mut().find(|condition| condition.get("type").is_some_and(|other| other == name));
    let mut condition = json!({"type": name, "status": state, "lastTransitionTime": now,
        "reason": reason, "message": message});
    match present {
        Some(present) => {
            if present.get("status") == condition.get("status")
                && let (Some(since), Some(new)) =
                    (present.get("lastTransitionTime").cloned(), condition.as_object_mut())
            {
                new.insert("lastTransitionTime".into(), since);
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
}

fn has_established(status: &Map<String, Value>, state: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").is_some_and(|name| name == "Established")
            && condition.get("status").is_some_and(|status| status == state)
    })
}

/// Whether a definition is served: the in-process API may leave out the condition.
pub(super) fn is_established(definition: &Map<String, Value>) -> bool {
    let status = definition.get("status").and_then(Value::as_object);
    !status.is_some_and(|status| has_established(status, "False"))
}
