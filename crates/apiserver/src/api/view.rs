//! Serialization of stored objects in responses: another version, a list item, metadata only.

use bytes::Bytes;
use serde_json::Value;

use crate::registry::{Conversion, Resource};
use crate::selectors::Selection;
use crate::storage::{ManagedFields, Stored, write_json};

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
pub(crate) fn write_object(
    out: &mut Vec<u8>,
    resource: &Resource,
    stored: &Stored,
    item: ListItem,
    managed_fields: ManagedFields,
) {
    let parsed = || {
        let mut object = Api::served(resource, stored);
        if managed_fields == ManagedFields::Dropped
            && let Some(Value::Object(metadata)) = object.get_mut("metadata")
        {
            metadata.remove("managedFields");
        }
        object
    };
    match resource.conversion {
        _ if resource.is_revised => write_json(out, &parsed()),
        Some(Conversion::Events | Conversion::Autoscalers) => {
            let mut object = parsed();
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
            stored.write_members(out, managed_fields);
            out.push(b'}');
        }
    }
}

/// Returns an object on its own, without a copy if it is served as it is stored.
pub(crate) fn converted(resource: &Resource, stored: &Stored, managed_fields: ManagedFields) -> Bytes {
    if resource.serves_as_stored() && managed_fields == ManagedFields::Sent {
        return stored.object();
    }
    let mut out = Vec::new();
    write_object(&mut out, resource, stored, ListItem::No, managed_fields);
    out.into()
}
