//! The indexes that `kinformer get` offers, on objects of any kind.

use kinformer_store::{IndexFunction, Indexers, NAMESPACE_INDEX};
use kube_core::{DynamicObject, Resource};

/// By the name of the node that a pod is on.
pub(crate) const NODE: &str = "node";
/// By each label, as `key=value`.
pub(crate) const LABEL: &str = "label";
/// By each owner, as `Kind/name`.
pub(crate) const OWNER: &str = "owner";

/// All of them.
pub(crate) fn all() -> Indexers<DynamicObject> {
    Indexers::new()
        .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
        .index(LABEL, IndexFunction::by_any_label())
        .index(
            NODE,
            IndexFunction::new(|object: &DynamicObject, values| {
                if let Some(node) = node(object) {
                    values.push(node);
                }
            }),
        )
        .index(
            OWNER,
            IndexFunction::new(|object: &DynamicObject, values| {
                for owner in object.meta().owner_references.iter().flatten() {
                    values.push_fmt(format_args!("{}/{}", owner.kind, owner.name));
                }
            }),
        )
}

/// The node that a pod is on.
pub(crate) fn node(object: &DynamicObject) -> Option<&str> {
    object.data.get("spec")?.get("nodeName")?.as_str()
}

/// The phase of what has one: pods, namespaces, volumes.
pub(crate) fn phase(object: &DynamicObject) -> Option<&str> {
    object.data.get("status")?.get("phase")?.as_str()
}
