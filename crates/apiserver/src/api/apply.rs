//! Server-side apply.

use std::sync::Arc;

use serde_json::Value;

use crate::apply::{self, ApplyError, Conflicts, FieldManager, Versions, Writer};
use crate::registry::Resource;
use crate::status::Status;
use crate::storage::Stored;

use super::managers::{Types, filter, subresource};
use super::{Api, Entries, Object, Part, Write, metadata};

/// How often a write that finds no object tries to create it, and one that finds an object tries to update it.
const ATTEMPTS: usize = 5;

/// The object after a write that may create it.
pub(crate) enum Applied {
    Created(Arc<Stored>),
    Updated(Arc<Stored>),
}

impl Applied {
    pub(crate) fn into_stored(self) -> Arc<Stored> {
        match self {
            Self::Created(stored) | Self::Updated(stored) => stored,
        }
    }
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Conflicts { message, causes } => Self::apply_conflict(message, causes),
            ApplyError::BadRequest(message) => Self::bad_request(message),
            ApplyError::Failed(message) => Self::new(500, "", message),
        }
    }
}

/// Updates an object, or creates it if there is none.
pub(super) fn update_or_create(
    resource: &Resource,
    name: &str,
    update: impl Fn() -> Result<Arc<Stored>, Status>,
    create: impl Fn() -> Result<Arc<Stored>, Status>,
) -> Result<Applied, Status> {
    let missing = Status::not_found(resource.kind.resource_subject(), name);
    let mut result = Err(missing.clone());
    for _ in 0..ATTEMPTS {
        match update() {
            Err(status) if status == missing => {}
            updated => return updated.map(Applied::Updated),
        }
        result = create().map(Applied::Created);
        if !matches!(&result, Err(status) if status.reason() == "AlreadyExists") {
            break;
        }
    }
    result
}

impl Api {
    /// Merges an applied object into the current one, or creates the object.
    ///
    /// # Errors
    /// The errors of [`Api::update`] and [`Api::create`]; 409 for fields that other managers own; 400 for an object of
    /// another type; 500 for fields that do not fit their type. Nothing has changed then.
    pub(crate) fn apply(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        applied: &Value,
        conflicts: Conflicts,
        write: Write<'_>,
    ) -> Result<Applied, Status> {
        let write = Write { entries: Entries::Given, ..write };
        let update = || {
            self.modify(resource, namespace, name, write, &mut |present| {
                self.merged(resource, present, applied, conflicts, write)
            })
        };
        let create = || self.create_applied(resource, namespace, name, applied, write);
        match write.part {
            Part::Object => update_or_create(resource, name, update, create),
            _ => update().map(Applied::Updated),
        }
    }

    fn create_applied(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        applied: &Value,
        write: Write<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let object = self.merged(resource, Object::new(), applied, Conflicts::Refused, write)?;
        let uid = metadata::text(&object, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(resource.kind.resource_subject(), name, &why));
        }
        match metadata::text(&object, "name") {
            given if given == name => {}
            "" => {
                return Err(Status::bad_request(format!(
                    "the name of the object ({name} based on URL) was undeterminable: name must be provided"
                )));
            }
            given => {
                return Err(Status::bad_request(format!(
                    "the name of the object ({given}) does not match the name on the URL ({name})"
                )));
            }
        }
        self.create(resource, namespace, object, write)
    }

    fn merged(
        &self,
        resource: &Resource,
        present: Object,
        applied: &Value,
        conflicts: Conflicts,
        write: Write<'_>,
    ) -> Result<Object, Status> {
        let types = Types::of(self, resource);
        let api_version = resource.kind.api_version();
        let managers = FieldManager {
            versions: &types,
            api_version: &api_version,
            kind: &resource.kind.kind,
            subresource: subresource(write.part),
            filter: filter(resource, write),
        };
        let now = self.clock.rfc3339();
        let writer = Writer { manager: write.manager, now: &now };
        match managers.apply(Value::Object(present), applied, writer, conflicts)? {
            Value::Object(mut object) => {
                // nulls in custom resources are errors of their schema
                if resource.kind.checks.is_none() {
                    apply::drop_unset(types.schema(), &api_version, &resource.kind.kind, &mut object);
                }
                Ok(object)
            }
            _ => Err(Status::internal("the applied object is not an object")),
        }
    }
}
