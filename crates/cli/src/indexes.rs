//! The indexes that `kinformer get` offers, on objects of any kind.

use std::sync::Arc;

use kinformer::{IndexFunction, IndexValues, NAMESPACE_INDEX};
use kinformer_store::Indexers;

use crate::shown::{self, Fields, Shown, Whole};

/// By the name of the node that a pod is on.
const NODE: &str = "node";
/// By each label, as `key=value`.
const LABEL: &str = "label";
/// By each owner, as `Kind/name`.
const OWNER: &str = "owner";

/// All of them, for one resource.
pub(crate) fn all() -> Indexers<Whole> {
    let fields = Fields::default();
    let node = move |object: &Arc<Whole>, values: &mut IndexValues| {
        object.node(&fields).into_iter().for_each(|node| values.push(&node));
    };
    let owner = |object: &Arc<Whole>, values: &mut IndexValues| {
        shown::owners(object).iter().for_each(|owner| values.push(owner));
    };
    Indexers::new()
        .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
        .index(LABEL, IndexFunction::by_any_label())
        .index(NODE, IndexFunction::new(node))
        .index(OWNER, IndexFunction::new(owner))
}
