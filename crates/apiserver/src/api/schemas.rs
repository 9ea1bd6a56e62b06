//! The schemas of custom resources in writes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::admission::Session;
use crate::apply::quoted;
use crate::registry::{Kind, Resource};
use crate::schema::{Changed, Scale};
use crate::status::{Cause, Status};
use crate::storage::Stored;

use super::object_rules::STANDARD_FINALIZERS;
use super::{Api, Entries, Form, Object, Part, Write, metadata};

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
    pub(super) fn decode_write(kind: &Kind, object: &mut Object, write: Write<'_>) -> Result<(), Status> {
        match (&kind.checks, write.entries, write.form) {
            (Some(schema), Entries::Given, _) => {
                // YAML has no floats without a fraction
                Self::settle_numbers(object);
                schema.set_defaults(object);
            }
            (_, _, Form::Decoded) | (None, ..) => {}
            (Some(_), Entries::Recorded | Entries::Admitted, Form::Raw) => drop(Self::decode(kind, object)?),
        }
        Ok(())
    }

    /// Decodes the result of an update, and removes the fields that kube-apiserver does not keep.
    pub(super) fn decode_update(
        resource: &Resource,
        object: &mut Object,
        write: Write<'_>,
    ) -> Result<(), Status> {
        Self::decode_write(&resource.kind, object, write)?;
        Self::drop_unset(resource, object, write);
        Ok(())
    }

    /// Adds what is wrong with an object of a custom resource, after a write that has changed a part of it.
    pub(super) fn add_schema_faults(
        kind: &Kind,
        object: &mut Object,
        before: Option<&Object>,
        write: Write<'_>,
        known: &mut Vec<Cause>,
    ) {
        let Some(schema) = &kind.checks else { return };
        let scale = kind.scale.as_ref().map(|paths| Scale {
            spec_replicas: &paths.spec_replicas,
            status_replicas: &paths.status_replicas,
            selector: paths.selector.as_deref(),
        });
        let changed = if write.part == Part::Status { Changed::Status } else { Changed::Object };
        let value = Value::Object(std::mem::take(object));
        let found = schema.faults(&value, before, changed, scale, known);
        known.extend(found.causes);
        if let Some(warnings) = write.warnings {
            let mut texts = found.warnings;
            if known.is_empty() && changed == Changed::Object {
                texts.extend(finalizer_warnings(&value, before));
            }
            *warnings.lock() = texts;
        }
        if let Value::Object(fields) = value {
            *object = fields;
        }
    }

    /// Writes whole floats as integers, as Go does.
    pub(super) fn settle_numbers(object: &mut Object) {
        fn settle(value: &mut Value) {
            match value {
                Value::Object(fields) => fields.values_mut().for_each(settle),
                Value::Array(items) => items.iter_mut().for_each(settle),
                Value::Number(number) if number.is_f64() => {
                    let whole = number.as_f64().filter(|float| float.fract() == 0.0);
                    // the shortest form of a float with these digits has no exponent
                    let whole = whole.and_then(|float| format!("{float:.0}").parse::<i64>().ok());
                    if let Some(whole) = whole {
                        *value = whole.into();
                    }
                }
                _ => {}
            }
        }
        object.values_mut().for_each(settle);
    }

    /// Brings a stored object into the form of the resource's version: it gets the defaults of the version in which it is
    /// stored, and loses the fields that either version does not have.
    ///
    /// Follows Kubernetes 1.37 (`crdConversionRESTOptionsGetter`).
    pub(super) fn revise(resource: &Resource, object: &mut Object) {
        let kind = &resource.kind;
        let stored =
            object.get("apiVersion").and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
        let is_other = stored != Some(kind.version.as_str());
        if resource.is_revised
            && let Some(forms) = &kind.forms
            && let Some(schema) = stored.and_then(|version| forms.schemas.get(version))
        {
            schema.complete(object);
        }
        if is_other {
            object.insert("apiVersion".into(), kind.api_version().into());
            if let Some(schema) = kind.checks.as_ref().filter(|_| resource.is_revised) {
                schema.restrict(object);
            }
        }
    }

    /// Brings an object of the resource's version into the form in which it is stored: as [`Self::revise`] would later do.
    ///
    /// # Errors
    /// That of a conversion webhook.
    pub(super) fn store_form(
        resource: &Resource,
        object: &mut Object,
        write: Write<'_>,
    ) -> Result<(), Status> {
        let kind = &resource.kind;
        let Some(forms) = &kind.forms else { return Ok(()) };
        let is_other = forms.storage != kind.version;
        if let Some(session) = write.session.filter(|session| is_other && session.converts()) {
            let api_version = format!("{}/{}", kind.group, forms.storage);
            *object = session.convert(std::mem::take(object), &api_version)?;
            if let Some(schema) = forms.schemas.get(&forms.storage) {
                schema.restrict(object);
            }
            return Ok(());
        }
        if is_other {
            let api_version = format!("{}/{}", kind.group, forms.storage);
            object.insert("apiVersion".into(), api_version.into());
        }
        // other writes are decoded with the schema of this version
        if (is_other || write.entries != Entries::Recorded)
            && let Some(schema) = forms.schemas.get(&forms.storage)
        {
            schema.complete(object);
        }
        Ok(())
    }

    /// Returns an object in the form of its stored version, with packed entries of managers: as a conversion webhook sees it.
    pub(crate) fn completed(resource: &Resource, stored: &Stored) -> Object {
        let mut object = stored.parse_packed();
        let version =
            object.get("apiVersion").and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
        let forms = resource.kind.forms.as_ref().filter(|_| resource.is_revised);
        let schema = forms.zip(version).and_then(|(forms, version)| forms.schemas.get(version).cloned());
        if let Some(schema) = schema {
            schema.complete(&mut object);
        }
        object
    }

    /// Removes the fields that the resource's version does not have from an object that was converted to it.
    pub(crate) fn restrict(resource: &Resource, object: &mut Object) {
        if let Some(schema) = &resource.kind.checks {
            schema.restrict(object);
        }
    }

    /// Returns a stored object in the resource's version, with packed entries of managers.
    ///
    /// # Errors
    /// That of a conversion webhook.
    pub(super) fn present(
        resource: &Resource,
        stored: &Stored,
        session: Option<&Session>,
    ) -> Result<Object, Status> {
        let Some(session) = session.filter(|session| session.converts()) else {
            return Ok(Self::served_packed(resource, stored));
        };
        let object = Self::completed(resource, stored);
        let api_version = resource.kind.api_version();
        if object.get("apiVersion").is_some_and(|version| *version == api_version) {
            return Ok(object);
        }
        let mut object = session.convert(object, &api_version)?;
        Self::restrict(resource, &mut object);
        Ok(object)
    }
}

/// Returns the warnings about new finalizers of a custom resource.
///
/// Follows Kubernetes 1.37 (`customresource.validateKubeFinalizerName`).
fn finalizer_warnings(object: &Value, before: Option<&Object>) -> Vec<String> {
    let had = before.map(metadata::finalizers).unwrap_or_default();
    let finalizers: BTreeSet<&str> =
        object.as_object().map(metadata::finalizers).into_iter().flatten().collect();
    let warned = finalizers
        .into_iter()
        .filter(|name| !had.contains(name) && !name.contains('/') && !STANDARD_FINALIZERS.contains(name));
    let text = |name: &str| {
        let form = if name.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: {}: prefer a domain-qualified finalizer name{form} to avoid accidental conflicts with \
             other finalizer writers",
            quoted(name)
        )
    };
    warned.map(text).collect()
}
