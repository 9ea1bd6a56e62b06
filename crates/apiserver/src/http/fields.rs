//! Fields that an object has and its type does not: `fieldValidation`.

use std::sync::Arc;

use ::http::HeaderMap;
use serde_json::Value;

use crate::api::{Api, Form, Object, Origin, Write, check_type};
use crate::apply::{Schema, go_text, go_type, unknown_fields};
use crate::causes;
use crate::patch::Patch;
use crate::protobuf::{Decoder, MEDIA_TYPE, json_type, metadata_fault, type_fault};
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
        let (kind, mut found, mut dropped) = (&self.resource.kind, Vec::new(), Vec::new());
        let write = Write { form: Form::Decoded, ..write };
        let stored = self.api().modify(self.resource, namespace, name, write, &mut |present| {
            let mut object = Self::patched(kind, patch, present, validation, &mut found)?;
            dropped = crate::owner_references::drop_duplicates(&mut object);
            Ok(object)
        });
        self.warnings.extend(found);
        self.warnings.extend(crate::owner_references::duplicates_warning(
            &dropped,
            " after mutating admission happens",
        ));
        stored
    }

    /// Returns the form in which the object is then.
    ///
    /// # Errors
    /// 400 for an object with a field of another type, and, in a strict write, with fields that its type does not have.
    pub(super) fn check_fields(
        &mut self,
        of: &Kind,
        object: &mut Object,
        validation: Validation,
    ) -> Result<Form, Status> {
        let version = object.get("apiVersion").and_then(Value::as_str);
        if of.custom && version.is_some_and(|version| version != of.api_version()) {
            // an object of another version is refused before its fields are looked at
            check_type(object, of, Origin::Client)?;
        }
        let (form, warnings) = fields_warnings(of, self.headers, object, validation)?;
        self.warnings.extend(warnings);
        Ok(form)
    }

    /// Returns a patched object, and sets `found` to the warnings about the patch.
    ///
    /// # Errors
    /// The errors of the patch; 422 for a result of another type, and, in a strict write, for fields that its type does not have.
    pub(super) fn patched(
        kind: &Kind,
        patch: &Patch,
        mut present: Object,
        validation: Validation,
        found: &mut Vec<String>,
    ) -> Result<Object, Status> {
        found.clear();
        let is_ignored = validation == Validation::Ignored;
        // this server has stored the unknown fields of earlier writes
        let known = if is_ignored {
            Vec::new()
        } else if kind.checks.is_some() {
            unknown_metadata(kind, &mut present)
        } else {
            unknown_of(kind, &present)
        };
        if let Patch::Json(operations) = patch
            && !is_ignored
        {
            operations.check_types()?;
        }
        let mut object = patched_object(kind, patch, patch.apply(present)?)?;
        let whole = kind.checks.is_some().then(|| object.clone());
        let error = |object: &Object, why: &str| {
            patch_error(patch, &Value::Object(whole.as_ref().unwrap_or(object).clone()), why)
        };
        let unknown = decoded(kind, &mut object).map_err(|why| error(&object, &why))?;
        if is_ignored {
            return Ok(object);
        }
        if let Patch::Json(operations) = patch {
            found.extend_from_slice(operations.unknown_fields());
        }
        found.extend(unknown.iter().filter(|field| !known.contains(field)).map(|field| unknown_field(field)));
        if validation == Validation::Strict && !found.is_empty() {
            // the error has them instead of warnings
            let unknown = std::mem::take(found).join(", ");
            return Err(error(&object, &format!("strict decoding error: {unknown}")));
        }
        Ok(object)
    }
}

/// Returns the form in which the object is then, and the warnings about unknown fields.
///
/// # Errors
/// 400 for an object with a field of another type, and, in a strict write, with fields that its type does not have.
pub(super) fn fields_warnings(
    of: &Kind,
    headers: &HeaderMap,
    object: &mut Object,
    validation: Validation,
) -> Result<(Form, Vec<String>), Status> {
    if media_type(headers) == MEDIA_TYPE {
        return Ok((Form::Raw, Vec::new()));
    }
    let Kind { kind, version, .. } = of;
    let refused = |why: &str| {
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    let is_other =
        |field: &str, own: &str| object.get(field).is_some_and(|given| !given.is_null() && given != own);
    let api_version = of.api_version();
    if !is_other("kind", kind)
        && !is_other("apiVersion", &api_version)
        && let Some(why) = type_fault(&api_version, kind, object, Decoder::Json)
    {
        return Err(refused(&why));
    }
    if validation == Validation::Ignored {
        return Ok((Form::Raw, Vec::new()));
    }
    let found = decoded(of, object).map_err(|why| refused(&why))?;
    if validation == Validation::Strict && !found.is_empty() {
        return Err(refused(&strict_error(&found)));
    }
    Ok((Form::Decoded, found.iter().map(|field| unknown_field(field)).collect()))
}

fn unknown_of(kind: &Kind, object: &Object) -> Vec<String> {
    let schema = kind.schema.as_deref().unwrap_or_else(|| Schema::builtin());
    unknown_fields(schema, &kind.api_version(), &kind.kind, object)
}

/// As [`unknown_of`], of the metadata alone.
fn unknown_metadata(kind: &Kind, object: &mut Object) -> Vec<String> {
    let Some(metadata) = object.remove("metadata") else { return Vec::new() };
    let mut part = Object::new();
    part.insert("metadata".into(), metadata);
    let found = unknown_of(kind, &part);
    object.extend(part);
    found
}

/// Decodes an object and returns the paths of the fields that its type does not have.
///
/// # Errors
/// Why a custom resource cannot be decoded.
fn decoded(kind: &Kind, object: &mut Object) -> Result<Vec<String>, String> {
    if kind.checks.is_none() {
        return Ok(unknown_of(kind, object));
    }
    let mut found = unknown_metadata(kind, object);
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

/// Returns the result of a patch as an object of its kind.
///
/// # Errors
/// 422 for a result that is none.
fn patched_object(kind: &Kind, patch: &Patch, patched: Value) -> Result<Object, Status> {
    match patched {
        Value::Object(mut object) => {
            if let Some(why) = check_kind(kind, patch, &mut object) {
                return Err(patch_error(patch, &Value::Object(object), &why));
            }
            if let Some(status) = other_type(kind, &object) {
                return Err(status);
            }
            let decoder = if patch.is_strategic() { Decoder::Unstructured } else { Decoder::Json };
            match type_fault(&kind.api_version(), &kind.kind, &object, decoder) {
                Some(why) => Err(patch_error(patch, &Value::Object(object), &why)),
                None => Ok(object),
            }
        }
        other => {
            let why = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type \
                struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
            Err(patch_error(patch, &other, why))
        }
    }
}

/// Returns why the result of a patch of a built-in kind is of another kind. One of a strategic merge patch is not, since it
/// is decoded without its type.
fn check_kind(kind: &Kind, patch: &Patch, object: &mut Object) -> Option<String> {
    let api_version = kind.api_version();
    if patch.is_strategic() {
        let other = ["apiVersion", "kind"].into_iter().filter_map(|field| object.get(field));
        if let Some(other) = other.into_iter().find(|value| !value.is_string() && !value.is_null()) {
            return Some(format!("cannot convert {} to string", go_type(other)));
        }
        object.insert("apiVersion".into(), api_version.into());
        object.insert("kind".into(), kind.kind.as_str().into());
        return None;
    }
    let given = |field: &str, default: &str| match object.get(field) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(text)) => Ok(if text.is_empty() { default } else { text }.to_owned()),
        Some(other) => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{field} of type \
             string",
            json_type(other, "string")
        )),
    };
    if kind.custom {
        return match (given("apiVersion", ""), given("kind", "")) {
            (Ok(version), Ok(_)) if version.matches('/').count() > 1 => {
                Some(format!("unexpected GroupVersion string: {version}"))
            }
            (Ok(_), Ok(_)) => object.get("metadata").and_then(metadata_fault),
            (Err(why), _) | (_, Err(why)) => Some(why),
        };
    }
    match (given("apiVersion", &api_version), given("kind", &kind.kind)) {
        (Ok(version), Ok(name)) if version == api_version && name == kind.kind => None,
        (Ok(version), Ok(name)) => Some(format!(
            "no kind {name:?} is registered for version {version:?} in scheme \
             \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
        )),
        (Err(why), _) | (_, Err(why)) => Some(why),
    }
}

/// Returns why a custom object is not of its kind, if it names another one.
fn other_type(kind: &Kind, object: &Object) -> Option<Status> {
    let given = |field: &str| object.get(field).and_then(Value::as_str).filter(|given| !given.is_empty());
    let (version, name) = (given("apiVersion")?, given("kind")?);
    let expected = [("kind", name, kind.kind.clone()), ("apiVersion", version, kind.api_version())];
    let others = expected.iter().filter(|(_, given, expected)| *given != expected.as_str());
    let causes: Vec<Cause> = others
        .map(|(field, given, expected)| {
            causes::invalid(field, &(*given).into(), &format!("must be {expected}"))
        })
        .collect();
    if !kind.custom || causes.is_empty() {
        return None;
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let of = object.get("metadata").and_then(|metadata| metadata.get("name")?.as_str()).unwrap_or("");
    Some(Status::invalid(Subject { group, resource: name }, of, causes))
}

/// Follows Kubernetes 1.37: the error names a strategic merge patch, or the result of another one.
fn patch_error(patch: &Patch, patched: &Value, why: &str) -> Status {
    let value = match patch {
        Patch::Strategic(patch) => go_text(&Value::Object(patch.clone())),
        Patch::Json(_) | Patch::Merge(_) => patched.to_string(),
    };
    let cause = Cause::invalid("patch", format!("Invalid value: {value:?}: {why}"));
    Status::invalid(Subject { group: "", resource: "" }, "", vec![cause])
}
