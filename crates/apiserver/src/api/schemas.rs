//! The schemas of custom resources in writes.

use serde_json::Value;

use crate::registry::{Kind, Resource};
use crate::schema::{Changed, Scale};
use crate::status::{Cause, Status};

use super::{Api, Entries, Object, Part, Write};

impl Api {
    /// Removes the fields that the schema of a custom resource does not have, and sets the defaults. Returns the paths of the
    /// removed fields.
    ///
    /// # Errors
    /// 400 for an embedded resource that cannot be decoded.
    pub(crate) fn decode(kind: &Kind, object: &mut Object) -> Result<Vec<String>, Status> {
        Self::decode_fields(kind, object).map_err(|why| {
            let Kind { kind, version, .. } = kind;
            Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
        })
    }

    /// As [`Self::decode`].
    ///
    /// # Errors
    /// Why the object cannot be decoded.
    pub(crate) fn decode_fields(kind: &Kind, object: &mut Object) -> Result<Vec<String>, String> {
        let Some(schema) = &kind.checks else { return Ok(Vec::new()) };
        schema
            .decode(object)
            .map_err(|cause| format!("{}: {}", cause.field.unwrap_or_default(), cause.message))
    }

    /// As [`Self::decode`]; the result of server-side apply only gets the defaults.
    pub(super) fn decode_write(kind: &Kind, object: &mut Object, entries: Entries) -> Result<(), Status> {
        match (&kind.checks, entries) {
            (Some(schema), Entries::Given) => schema.set_defaults(object),
            _ => drop(Self::decode(kind, object)?),
        }
        Ok(())
    }

    /// Decodes the result of an update, and removes the fields that kube-apiserver does not keep.
    pub(super) fn decode_update(
        resource: &Resource,
        object: &mut Object,
        write: Write<'_>,
    ) -> Result<(), Status> {
        Self::decode_write(&resource.kind, object, write.entries)?;
        Self::drop_unset(resource, object, write);
        Ok(())
    }

    /// Returns what is wrong with an object of a custom resource, of which a write has changed a part.
    pub(super) fn schema_faults(
        kind: &Kind,
        object: &mut Object,
        before: Option<&Object>,
        part: Part,
    ) -> Vec<Cause> {
        let Some(schema) = &kind.checks else { return Vec::new() };
        let scale = kind.scale.as_ref().map(|paths| Scale {
            spec_replicas: &paths.spec_replicas,
            status_replicas: &paths.status_replicas,
            selector: paths.selector.as_deref(),
        });
        let changed = if part == Part::Status { Changed::Status } else { Changed::Object };
        let value = Value::Object(std::mem::take(object));
        let found = schema.faults(&value, before, changed, scale);
        if let Value::Object(fields) = value {
            *object = fields;
        }
        found
    }

    /// Brings an object that was stored with another schema into the form of the current one.
    pub(super) fn complete(resource: &Resource, object: &mut Object) {
        if let Some(schema) = resource.kind.checks.as_ref().filter(|_| resource.is_revised) {
            schema.complete(object);
        }
    }
}
