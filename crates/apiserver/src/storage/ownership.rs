//! The part of the metadata that garbage collection reads.

use serde_json::{Map, Value};

/// The finalizer of an object that waits until its dependents are deleted.
pub(crate) const DELETE_DEPENDENTS: &str = "foregroundDeletion";
/// The finalizer of an object that waits until its dependents no longer refer to it.
pub(crate) const ORPHAN_DEPENDENTS: &str = "orphan";

/// An owner of an object, as its metadata names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerReference {
    pub(crate) api_version: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    /// Whether the owner waits for this dependent when it is deleted in the foreground.
    pub(crate) blocks_deletion: bool,
}

/// The owners of an object, and what its deletion does to its dependents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ownership {
    pub(super) owners: Box<[OwnerReference]>,
    pub(super) deletes_dependents: bool,
    pub(super) orphans_dependents: bool,
}

impl Ownership {
    /// Returns `None` for an object without owners and without the finalizers of garbage collection. Allocates nothing
    /// then.
    pub(super) fn of(metadata: &Map<String, Value>) -> Option<Box<Self>> {
        let list = |field: &str| metadata.get(field).and_then(Value::as_array).into_iter().flatten();
        let has = |finalizer: &str| list("finalizers").any(|other| other == finalizer);
        let owners: Vec<OwnerReference> = list("ownerReferences").map(reference).collect();
        let (deletes_dependents, orphans_dependents) = (has(DELETE_DEPENDENTS), has(ORPHAN_DEPENDENTS));
        if owners.is_empty() && !deletes_dependents && !orphans_dependents {
            return None;
        }
        Some(Box::new(Self { owners: owners.into(), deletes_dependents, orphans_dependents }))
    }
}

fn reference(value: &Value) -> OwnerReference {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("").into();
    OwnerReference {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: text("name"),
        uid: text("uid"),
        blocks_deletion: value.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
    }
}
