//! The conditions of a terminating namespace.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::registry::Resource;
use crate::status::Status;
use crate::storage::Stored;

/// What is still in a namespace.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    errors: Vec<String>,
}

impl Remaining {
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.errors.is_empty()
    }

    pub(super) fn add(&mut self, resource: &Resource, object: &Stored) {
        let name = format!("{}.{}", resource.kind.plural, resource.kind.group);
        *self.resources.entry(name).or_default() += 1;
        let object = object.parse();
        let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
        for finalizer in finalizers.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }

    pub(super) fn fail(&mut self, error: &Status) {
        self.errors.push(error.message().to_owned());
    }
}

/// A condition: its type, and its reason and message if it does not hold and if it holds.
struct Condition {
    kind: &'static str,
    fine: (&'static str, &'static str),
    problem: Option<(&'static str, String)>,
}

/// Sets the conditions of a terminating namespace. Follows Kubernetes 1.37 (`namespaceConditionUpdater`).
pub(super) fn conditions(status: &mut Map<String, Value>, remaining: &Remaining, now: &str) {
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(list) = list else { return };
    for condition in all(remaining) {
        let (value, reason, message) = match condition.problem {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", condition.fine.0, condition.fine.1.to_owned()),
        };
        let mut new = json!({"type": condition.kind, "status": value, "lastTransitionTime": now,
            "reason": reason, "message": message});
        match list.iter_mut().find(|present| present.get("type").is_some_and(|kind| kind == condition.kind)) {
            Some(present) => {
                if present.get("status").is_some_and(|status| status == value)
                    && let (Some(since), Some(new)) =
                        (present.get("lastTransitionTime").cloned(), new.as_object_mut())
                {
                    new.insert("lastTransitionTime".into(), since);
                }
                *present = new;
            }
            None => list.push(new),
        }
    }
}

fn all(remaining: &Remaining) -> [Condition; 5] {
    let counted = |counts: &BTreeMap<String, usize>, link: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, n)| format!("{name} {link} {n} resource instances")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    let content = counted(&remaining.resources, "has")
        .map(|parts| ("SomeResourcesRemain", format!("Some resources are remaining: {parts}")));
    let finalizers = counted(&remaining.finalizers, "in").map(|parts| {
        ("SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {parts}"))
    });
    let failure = (!remaining.errors.is_empty()).then(|| {
        let (number, errors) = (remaining.errors.len(), remaining.errors.join(", "));
        (
            "ContentDeletionFailed",
            format!("Failed to delete all resource types, {number} remaining: {errors}"),
        )
    });
    let removed = ("ContentRemoved", "All content successfully removed");
    [
        Condition {
            kind: "NamespaceDeletionDiscoveryFailure",
            fine: ("ResourcesDiscovered", "All resources successfully discovered"),
            problem: None,
        },
        Condition {
            kind: "NamespaceDeletionGroupVersionParsingFailure",
            fine: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            problem: None,
        },
        Condition {
            kind: "NamespaceDeletionContentFailure",
            fine: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            problem: failure,
        },
        Condition { kind: "NamespaceContentRemaining", fine: removed, problem: content },
        Condition { kind: "NamespaceFinalizersRemaining", fine: removed, problem: finalizers },
    ]
}
