//! The serialized forms of one object.

use std::sync::Arc;

use ::http::StatusCode;
use serde_json::json;

use crate::api::converted;
use crate::protobuf::MEDIA_TYPE;
use crate::registry::Resource;
use crate::storage::{ManagedFields, Stored, write_json};
use crate::table::{self, Columns, IncludeObject};

use super::answer::{self, Answer};
use super::binary;
use super::context::Context;
use super::negotiate::{Encoding, Form, Representation};

pub(super) fn object(
    context: &Context,
    resource: &Arc<Resource>,
    stored: &Arc<Stored>,
    code: StatusCode,
    representation: Representation,
    include: IncludeObject,
) -> Answer {
    let Representation { form, encoding, managed_fields } = representation;
    if encoding == Encoding::Protobuf {
        let object = binary::object(resource, stored, form, managed_fields);
        let mut answer = answer::bytes_as(MEDIA_TYPE, object);
        *answer.status_mut() = code;
        return answer;
    }
    match form {
        Form::Objects => answer::json_bytes(code, converted(resource, stored, managed_fields)),
        Form::Metadata => {
            let mut out = Vec::new();
            write_metadata(&mut out, stored, managed_fields);
            answer::json_bytes(code, out.into())
        }
        Form::Table => {
            let metadata = json!({"resourceVersion": stored.version().to_string()});
            let table = table::of(resource, std::iter::once(stored.as_ref()), include, &context.api.clock);
            answer::json(code, &table.to_json(metadata, Columns::Shown))
        }
    }
}

/// An object as `PartialObjectMetadata`: a part of its bytes.
pub(super) fn write_metadata(out: &mut Vec<u8>, stored: &Stored, managed_fields: ManagedFields) {
    out.push(b'{');
    out.extend_from_slice(b"\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",");
    out.extend_from_slice(b"\"metadata\":");
    stored.write_metadata(out, managed_fields);
    out.push(b'}');
}

/// An object with readable metadata and other fields of wrong types.
pub(super) fn write_malformed(out: &mut Vec<u8>, resource: &Resource, stored: &Stored) {
    out.extend_from_slice(b"{\"apiVersion\":");
    write_json(out, &resource.kind.api_version());
    out.extend_from_slice(b",\"kind\":");
    write_json(out, &resource.kind.kind);
    out.extend_from_slice(b",\"metadata\":");
    stored.write_metadata(out, ManagedFields::Sent);
    out.extend_from_slice(b",\"spec\":\"malformed\",\"status\":\"malformed\",\"data\":\"malformed\"}");
}
