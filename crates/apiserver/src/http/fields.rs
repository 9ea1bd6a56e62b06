//! Fields that an object has and its type does not: `fieldValidation`.

use std::sync::Arc;

use serde_json::Value;

use crate::api::{Api, Object, Write};
use crate::apply::{Schema, go_text, unknown_fields};
use crate::patch::Patch;
use crate::protobuf::MEDIA_TYPE;
use crate::registry::Kind;
use crate::status::{Cause, Status, Subject};
use crate::storage::Stored;

use super::field_manager::Validation;
use super::objects::Call;
use super::request::media_type;

impl Call<'_> {
    /// Applies a patch, whose result is checked.
    ///
    /// # Errors
    /// 422 for fields that the type of the object does not have, in a strict write; the errors of [`crate::api::Api::modify`] and of
    /// the patch.
    pub(super) fn write_patch(
        &mut self,
        name: &str,
        namespace: &str,
        patch: &Patch,
        write: Write<'_>,
        validation: Validation,
    ) -> Result<Arc<Stored>, Status> {
        let (kind, mut found) = (&self.resource.kind, Vec::new());
        let stored = self.api().modify(self.resource, namespace, name, write, |present| {
            // this server has stored the unknown fields of earlier writes
            let is_ignored = validation == Validation::Ignored;
            let known = if is_ignored { Vec::new() } else { unknown_of(kind, &present) };
            let mut patched = patch.apply(present, kind.kind_subject(), name)?;
            let whole = kind.custom.then(|| patched.clone());
            let error = |patched: &Object, why: &str| {
                strict_patch_error(patch, whole.as_ref().unwrap_or(patched), why)
            };
            found = decoded(kind, &mut patched).map_err(|why| error(&patched, &why))?;
            found.retain(|field| !is_ignored && !known.contains(field));
            if validation == Validation::Strict && !found.is_empty() {
                return Err(error(&patched, &strict_error(&found)));
            }
            Ok(patched)
        });
        self.warnings.extend(found.iter().map(|field| unknown_field(field)));
        stored
    }

    /// # Errors
    /// 400 for an object with fields that its type does not have, in a strict write.
    pub(super) fn check_fields(&mut self, object: &mut Object, validation: Validation) -> Result<(), Status> {
        if validation == Validation::Ignored || media_type(self.headers) == MEDIA_TYPE {
            return Ok(());
        }
        let Kind { kind, version, .. } = &self.resource.kind;
        let found = decoded(&self.resource.kind, object).map_err(|why| {
            Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
        })?;
        if validation == Validation::Strict && !found.is_empty() {
            let why = strict_error(&found);
            return Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            )));
        }
        self.warnings.extend(found.iter().map(|field| unknown_field(field)));
        Ok(())
    }
}

fn unknown_of(kind: &Kind, object: &Object) -> Vec<String> {
    let schema = kind.schema.as_deref().unwrap_or_else(|| Schema::builtin());
    unknown_fields(schema, &kind.api_version(), &kind.kind, object)
}

/// Decodes an object and returns the paths of the fields that its type does not have.
///
/// # Errors
/// Why a custom resource cannot be decoded.
fn decoded(kind: &Kind, object: &mut Object) -> Result<Vec<String>, String> {
    if kind.checks.is_none() {
        return Ok(unknown_of(kind, object));
    }
    let mut found = unknown_of(kind, object);
    found.retain(|field| field.starts_with("metadata."));
    found.extend(Api::decode_fields(kind, object)?);
    Ok(found)
}

fn unknown_field(field: &str) -> String {
    format!("unknown field \"{field}\"")
}

fn strict_error(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| unknown_field(field)).collect();
    format!("strict decoding error: {}", fields.join(", "))
}

/// Follows Kubernetes 1.37: the error names a strategic merge patch, or the result of another one.
fn strict_patch_error(patch: &Patch, patched: &Object, why: &str) -> Status {
    let value = match patch {
        Patch::Strategic(patch) => go_text(&Value::Object(patch.clone())),
        Patch::Json(_) | Patch::Merge(_) => serde_json::to_string(patched).unwrap_or_default(),
    };
    let cause = Cause::invalid("patch", format!("Invalid value: {value:?}: {why}"));
    Status::invalid(Subject { group: "", resource: "" }, "", vec![cause])
}
