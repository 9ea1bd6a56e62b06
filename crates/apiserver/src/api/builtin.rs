//! The rules of built-in kinds in writes.

use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::builtin::{self, Validation};
use crate::conversion::{unreadable, unwritable};
use crate::registry::{Kind, Resource, set_defaults};
use crate::status::{Cause, Status};
use crate::storage::Stored;

use super::{Api, DryRun, Object, Part, Write, create};

impl Api {
    /// Whether objects of a kind get the defaults of Kubernetes, and are validated.
    pub(super) fn has_builtin_rules(&self, kind: &Kind) -> bool {
        self.settings.validation == Validation::On && !kind.custom && !kind.is_definition()
    }

    /// Brings an object of a built-in kind into the form that Kubernetes stores.
    pub(super) fn complete_builtin(&self, kind: &Kind, object: &mut Object) {
        if kind.is_definition() {
            complete_definition(kind, object);
        } else if self.has_builtin_rules(kind) {
            if kind.is("", "secrets") {
                create::encode_strings(object);
            }
            builtin::complete(&kind.api_version(), &kind.kind, object);
        }
    }

    /// Brings the result of an update into the form that Kubernetes stores.
    pub(super) fn complete_update(
        &self,
        resource: &Resource,
        object: &mut Object,
        write: Write<'_>,
    ) -> Result<(), Status> {
        let kind = &resource.kind;
        if !self.has_builtin_rules(kind) && !kind.is_definition() {
            return Self::decode_update(resource, object, write);
        }
        match write.part {
            Part::Object | Part::Finalize => self.complete_builtin(kind, object),
            // the rest of the object is not used
            Part::Status => builtin::complete_status(&kind.api_version(), &kind.kind, object),
        }
        Ok(())
    }

    /// Returns a stored object, with packed entries of managers, in the form that Kubernetes stores. Whether it was not stored
    /// in this form: the state is that of a server without validation.
    ///
    /// # Errors
    /// That of a conversion webhook.
    pub(super) fn former(
        &self,
        resource: &Resource,
        stored: &Stored,
        write: Write<'_>,
    ) -> Result<(Value, bool), Status> {
        let present = Self::present(resource, stored, write.session);
        let mut object = present.map_err(|error| match write.dry_run {
            // it reads the object first
            DryRun::All => unreadable(&resource.kind, stored, &error),
            DryRun::No => unwritable(stored, &error),
        })?;
        if !self.has_incomplete.load(Ordering::Relaxed) {
            return Ok((Value::Object(object), false));
        }
        let before = object.clone();
        self.complete_builtin(&resource.kind, &mut object);
        self.created_builtin(&resource.kind, &mut object);
        let is_completed = object != before;
        Ok((Value::Object(object), is_completed))
    }

    /// Sets the fields of an object of a built-in kind that an update leaves out and that its storage keeps.
    pub(super) fn updated_builtin(&self, kind: &Kind, before: &Object, object: &mut Object, part: Part) {
        if !self.has_builtin_rules(kind) {
            return;
        }
        let (api_version, kind, now) = (&kind.api_version(), &kind.kind, &self.clock.rfc3339());
        match part {
            Part::Object => {
                builtin::updated(api_version, kind, before, object);
                builtin::status_updated(api_version, kind, before, object, now);
            }
            Part::Status => builtin::status_written(api_version, kind, before, object, now),
            Part::Finalize => {}
        }
    }

    /// Sets what the storage of a built-in kind sets in a new object.
    pub(super) fn created_builtin(&self, kind: &Kind, object: &mut Object) {
        if self.has_builtin_rules(kind) {
            builtin::created(&kind.api_version(), &kind.kind, object, &self.clock.rfc3339());
        }
    }

    /// As [`Self::created_builtin`], for a write. Returns whether the manager is recorded: the fields that some storages set have
    /// none.
    pub(super) fn create_builtin(&self, resource: &Resource, object: &mut Object, write: Write<'_>) -> bool {
        let kind = &resource.kind;
        let is_recorded =
            self.has_builtin_rules(kind) && builtin::sets_unmanaged(&kind.api_version(), &kind.kind);
        if is_recorded {
            self.record_created(resource, object, None, write);
        }
        self.created_builtin(kind, object);
        is_recorded
    }

    /// Adds the warnings about a valid object of a built-in kind.
    pub(super) fn warn_of_builtin(&self, kind: &Kind, object: &Object, write: Write<'_>) {
        if self.has_builtin_rules(kind)
            && let Some(warnings) = write.warnings
        {
            warnings.lock().extend(builtin::warnings(&kind.api_version(), &kind.kind, object));
        }
    }

    /// Returns what is wrong with an object of a built-in kind, apart from its metadata.
    pub(super) fn builtin_faults(
        &self,
        kind: &Kind,
        object: &Object,
        before: Option<&Object>,
        write: Write<'_>,
    ) -> Vec<Cause> {
        if !self.has_builtin_rules(kind) || write.part == Part::Finalize {
            return Vec::new();
        }
        match (write.part, before) {
            (Part::Status, Some(before)) => builtin::status_faults(&kind.kind, object, before),
            _ => {
                let is_dry_run = write.dry_run == DryRun::All;
                builtin::faults(&kind.api_version(), &kind.kind, object, before, is_dry_run)
            }
        }
    }
}

/// Brings a definition into the form that Kubernetes stores, apart from its status, which the server sets.
fn complete_definition(kind: &Kind, object: &mut Object) {
    let status = object.remove("status");
    builtin::complete(&kind.api_version(), &kind.kind, object);
    set_defaults(object);
    match status {
        Some(status) => object.insert("status".to_owned(), status),
        None => object.remove("status"),
    };
}
