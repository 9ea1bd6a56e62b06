//! Responses in protobuf.

use bytes::Bytes;
use serde_json::Value;

use crate::api::Api;
use crate::protobuf;
use crate::registry::Resource;
use crate::storage::{EventType, ManagedFields, Stored};

use super::negotiate::Form;

/// `apiVersion` and `kind` of an object in this form.
pub(super) fn type_of(resource: &Resource, form: Form) -> (String, String) {
    match form {
        Form::Metadata => ("meta.k8s.io/v1".into(), "PartialObjectMetadata".into()),
        _ => (resource.kind.api_version(), resource.kind.kind.clone()),
    }
}

/// The message of an object without its type. Encoded once for an object that is served as it is stored.
pub(super) fn message(
    resource: &Resource,
    stored: &Stored,
    form: Form,
    managed_fields: ManagedFields,
) -> Bytes {
    let message = complete_message(resource, stored, form);
    match managed_fields {
        ManagedFields::Sent => message,
        ManagedFields::Dropped => protobuf::without_managed_fields(&message).map_or(message, Bytes::from),
    }
}

fn complete_message(resource: &Resource, stored: &Stored, form: Form) -> Bytes {
    if form == Form::Metadata {
        let metadata = serde_json::from_slice(&stored.metadata()).unwrap_or(Value::Null);
        return protobuf::metadata_message(&metadata).into();
    }
    if resource.conversion.is_none() {
        return stored.protobuf().cloned().unwrap_or_default();
    }
    let object = Api::served(resource, stored);
    let (api_version, kind) = type_of(resource, form);
    protobuf::message(&api_version, &kind, &object).unwrap_or_default().into()
}

/// The message of an object, truncated after its metadata.
pub(super) fn malformed_message(stored: &Stored) -> Bytes {
    let metadata = serde_json::from_slice(&stored.metadata()).unwrap_or(Value::Null);
    let mut message = protobuf::metadata_message(&metadata);
    // The length of the spec is larger than the rest of the message.
    message.extend_from_slice(&[2 << 3 | 2, 0x7f, 0xff]);
    message.into()
}

/// A single object with its type.
pub(super) fn object(
    resource: &Resource,
    stored: &Stored,
    form: Form,
    managed_fields: ManagedFields,
) -> Vec<u8> {
    let (api_version, kind) = type_of(resource, form);
    protobuf::envelope(&api_version, &kind, &message(resource, stored, form, managed_fields))
}

/// A frame of a watch.
pub(super) fn write_frame(
    out: &mut Vec<u8>,
    event_type: EventType,
    resource: &Resource,
    message: &[u8],
    form: Form,
) {
    let (api_version, name) = type_of(resource, form);
    protobuf::watch_frame(out, event_type.as_str(), &protobuf::envelope(&api_version, &name, message));
}

/// A frame of a watch for an object in JSON: bookmarks and errors.
pub(super) fn json_frame(event: &str, object: &Value) -> Bytes {
    let text = |member: &str| object.get(member).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let message = if kind == "PartialObjectMetadata" {
        protobuf::metadata_message(object.get("metadata").unwrap_or(&Value::Null))
    } else {
        object.as_object().and_then(|object| protobuf::message(api_version, kind, object)).unwrap_or_default()
    };
    let mut out = Vec::new();
    protobuf::watch_frame(&mut out, event, &protobuf::envelope(api_version, kind, &message));
    out.into()
}
