//! Server-side apply.

use std::sync::Arc;

use serde_json::Value;

use crate::apply::{ApplyError, Conflicts, FieldManager, Writer};
use crate::registry::Resource;
use crate::status::Status;
use crate::storage::Stored;

use super::managers::{Types, filter, subresource};
use super::{Api, Entries, Object, Part, Write, metadata};

/// How often an apply that finds no object tries to create it, and one that finds an object tries to update it.
const ATTEMPTS: usize = 5;

/// The object after an apply.
pub(crate) enum Applied {
    Created(Arc<Stored>),
    Updated(Arc<Stored>),
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
        let missing = Status::not_found(resource.kind.resource_subject(), name);
        let mut result = Err(missing.clone());
        for _ in 0..ATTEMPTS {
            let updated = self.modify(resource, namespace, name, write, |present| {
                self.merged(resource, present, applied, conflicts, write)
            });
            match updated {
                Err(status) if status == missing && write.part == Part::Object => {}
                updated => return updated.map(Applied::Updated),
            }
            result = self.create_applied(resource, namespace, name, applied, write).map(Applied::Created);
            if !matches!(&result, Err(status) if status.reason() == "AlreadyExists") {
                break;
            }
        }
        result
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
        let mut object = managers.apply(Value::Object(present), applied, writer, conflicts)?;
        managers.drop_nulls(&mut object);
        match object {
            Value::Object(object) => Ok(object),
            _ => Err(Status::internal("the applied object is not an object")),
        }
    }
}
