//! The indexes of `kinformer get`, for objects of any kind.

use kinformer::{Error, FieldPath, IndexValues, Informer, NAMESPACE_INDEX, PackedRef};

use crate::display_fields::{self, DisplayFields, Text};

/// By the node name of a pod.
const NODE: &str = "node";
/// By each label, as `key=value`.
const LABEL: &str = "label";
/// By each owner, as `Kind/name`.
const OWNER: &str = "owner";

/// The names of all indexes. The namespace index is built into the informer.
pub(crate) const NAMES: [&str; 4] = [NAMESPACE_INDEX, LABEL, NODE, OWNER];

/// The fields that the indexes read.
pub(crate) const FIELDS: [(&str, &str); 3] =
    [(LABEL, "metadata.labels"), (NODE, "spec.nodeName"), (OWNER, "metadata.ownerReferences")];

/// Adds all indexes to an informer.
///
/// # Errors
/// Two indexes have the same name, which is a bug in this program.
pub(crate) fn add_to(informer: &Informer<DisplayFields>) -> Result<(), Error> {
    informer.index(LABEL, |object: PackedRef<'_, DisplayFields>, values: &mut IndexValues| {
        object.labels().for_each(|(key, value)| values.push_fmt(format_args!("{key}={value}")));
        Ok(())
    })?;
    let node_name = FieldPath::new(&["spec", "nodeName"]);
    informer.index(NODE, move |object: PackedRef<'_, DisplayFields>, values: &mut IndexValues| {
        let node = object.field::<Text>(&node_name).ok().flatten();
        node.and_then(|Text(node)| node).iter().for_each(|node| values.push(node));
        Ok(())
    })?;
    informer.index(OWNER, |object: PackedRef<'_, DisplayFields>, values: &mut IndexValues| {
        display_fields::owners(&object).iter().for_each(|owner| values.push(owner));
        Ok(())
    })
}
