//! Serialization of stored objects in responses: another version, a list item, metadata only.

use bytes::Bytes;

use crate::registry::{Conversion, Resource};
use crate::selectors::Selection;
use crate::storage::{Stored, write_json};

use super::Api;

/// Whether an object is serialized alone or as a list item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListItem {
    No,
    /// List items of built-in kinds have no `apiVersion` and `kind`, as in Kubernetes.
    Yes,
}

/// Whether a selection has an object in the resource's version.
pub(crate) fn selects(selection: &Selection, resource: &Resource, stored: &Stored) -> bool {
    selection.matches(stored, || Api::served(resource, stored))
}

/// Appends an object in the resource's version. Parses the object only if the versions differ in more than their
/// name.
pub(crate) fn write_object(out: &mut Vec<u8>, resource: &Resource, stored: &Stored, item: ListItem) {
    match resource.conversion {
        _ if resource.is_revised => write_json(out, &Api::served(resource, stored)),
        Some(Conversion::Events | Conversion::Autoscalers) => {
            let mut object = Api::served(resource, stored);
            if item == ListItem::Yes {
                object.remove("apiVersion");
                object.remove("kind");
            }
            write_json(out, &object);
        }
        Some(Conversion::Rename) | None => {
            out.push(b'{');
            if item == ListItem::No || resource.kind.custom {
                out.extend_from_slice(b"\"apiVersion\":");
                write_json(out, &resource.kind.api_version());
                out.extend_from_slice(b",\"kind\":");
                write_json(out, &resource.kind.kind);
                out.push(b',');
            }
            stored.write_members(out);
            out.push(b'}');
        }
    }
}

/// Returns an object on its own, without a copy if it is served as it is stored.
pub(crate) fn converted(resource: &Resource, stored: &Stored) -> Bytes {
    if resource.serves_as_stored() {
        return stored.object();
    }
    let mut out = Vec::new();
    write_object(&mut out, resource, stored, ListItem::No);
    out.into()
}
