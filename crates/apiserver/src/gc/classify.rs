//! The state of the owners of an object.

use crate::registry::{Registry, Resource};
use crate::storage::{Key, OwnerReference, Stored};

use super::graph::Graph;

/// The owners of an object by their state.
#[derive(Debug, Default)]
pub(super) struct Owners<'a> {
    /// Owners that keep the object.
    pub(super) solid: Vec<&'a OwnerReference>,
    /// Owners that do not exist.
    pub(super) absent: Vec<&'a OwnerReference>,
    /// Owners that wait until their dependents are deleted.
    pub(super) waiting: Vec<&'a OwnerReference>,
}

/// Why the owners of an object cannot be found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The kind of an owner is not served.
    Kind,
    /// A cluster-scoped object has a namespaced owner.
    Scope(OwnerReference),
}

/// Finds the owners of an object. Follows Kubernetes 1.37 (`GarbageCollector.classifyReferences`).
///
/// # Errors
/// The first owner that cannot be looked up.
pub(super) fn classify<'a>(
    registry: &Registry,
    graph: &Graph,
    resource: &Resource,
    object: &'a Stored,
) -> Result<Owners<'a>, Unknown> {
    let mut owners = Owners::default();
    for reference in object.owners() {
        let Some(kind) = registry.of_kind(&reference.api_version, &reference.kind) else {
            if !graph.was_removed(&reference.uid) {
                return Err(Unknown::Kind);
            }
            owners.absent.push(reference);
            continue;
        };
        if kind.kind.namespaced && !resource.kind.namespaced {
            return Err(Unknown::Scope(reference.clone()));
        }
        let namespace = if kind.kind.namespaced { object.key().namespace() } else { "" };
        let owner = kind.store.get(&Key::new(namespace, &reference.name));
        match owner.filter(|owner| owner.uid() == &*reference.uid) {
            None => owners.absent.push(reference),
            Some(owner) if owner.deletes_dependents() => owners.waiting.push(reference),
            Some(_) => owners.solid.push(reference),
        }
    }
    Ok(owners)
}
