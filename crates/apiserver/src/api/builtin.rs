//! The rules of built-in kinds in writes.

use crate::builtin::{self, Changed, Validation};
use crate::registry::{Kind, Resource};
use crate::status::{Cause, Status};

use super::{Api, Object, Part, Write, create};

impl Api {
    /// Whether objects of a kind get the defaults of Kubernetes.
    pub(super) fn is_complete(&self, kind: &Kind) -> bool {
        self.settings.validation == Validation::On && !kind.custom && !kind.is_definition()
    }

    /// Brings an object of a built-in kind into the form that Kubernetes stores.
    pub(super) fn complete_builtin(&self, kind: &Kind, object: &mut Object) {
        if self.is_complete(kind) {
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
        if self.is_complete(&resource.kind) {
            self.complete_builtin(&resource.kind, object);
            return Ok(());
        }
        Self::decode_update(resource, object, write)
    }

    /// Sets what the storage of a built-in kind sets in a new object.
    pub(super) fn created_builtin(&self, kind: &Kind, object: &mut Object) {
        if self.is_complete(kind) {
            builtin::created(&kind.api_version(), &kind.kind, object, &self.clock.rfc3339());
        }
    }

    /// Returns what is wrong with an object of a built-in kind, apart from its metadata.
    pub(super) fn builtin_faults(
        &self,
        kind: &Kind,
        object: &Object,
        before: Option<&Object>,
        part: Part,
    ) -> Vec<Cause> {
        if !self.is_complete(kind) || part == Part::Finalize {
            return Vec::new();
        }
        let changed = if part == Part::Status { Changed::Status } else { Changed::Object };
        builtin::faults(&kind.api_version(), &kind.kind, object, before, changed)
    }
}
