//! The indexes that `kinformer get` offers, on objects of any kind.

use kinformer::{FieldPath, IndexValues, Informer, InformerError, NAMESPACE_INDEX, PackedRef};

use crate::shown::{self, Shown, Text};

/// By the name of the node that a pod is on.
const NODE: &str = "node";
/// By each label, as `key=value`.
const LABEL: &str = "label";
/// By each owner, as `Kind/name`.
const OWNER: &str = "owner";

/// Their names; that by namespace is the informer's own.
pub(crate) const NAMES: [&str; 4] = [NAMESPACE_INDEX, LABEL, NODE, OWNER];

/// Adds all of them to the informer of one resource.
///
/// # Errors
/// Two indexes have the same name, which would be a mistake of this program.
pub(crate) fn add_to(informer: &Informer<Shown>) -> Result<(), InformerError> {
    informer.index(LABEL, |object: PackedRef<'_, Shown>, values: &mut IndexValues| {
        object.labels().for_each(|(key, value)| values.push_fmt(format_args!("{key}={value}")));
        Ok(())
    })?;
    let node_name = FieldPath::new(&["spec", "nodeName"]);
    informer.index(NODE, move |object: PackedRef<'_, Shown>, values: &mut IndexValues| {
        let node = object.field::<Text>(&node_name).ok().flatten();
        node.and_then(|Text(node)| node).iter().for_each(|node| values.push(node));
        Ok(())
    })?;
    informer.index(OWNER, |object: PackedRef<'_, Shown>, values: &mut IndexValues| {
        shown::owners(&object).iter().for_each(|owner| values.push(owner));
        Ok(())
    })
}
