//! The points of a write at which webhooks are called.

use serde_json::Value;

use crate::admission::{Gvk, Operation, Session};
use crate::apply;
use crate::builtin;
use crate::protobuf::{Decoder, type_fault};
use crate::registry::{Kind, Resource};
use crate::status::{Cause, Status};

use super::managers::{creation_filter, filter, set_entries};
use super::{Api, Entries, Form, Object, Origin, Part, Write, metadata, scale_of};

/// Metadata that clients cannot set in a new object. Follows Kubernetes 1.37 (`WipeObjectMetaSystemFields`).
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"];

impl<'a> Write<'a> {
    /// The rest of a write whose object is the answer of webhooks.
    fn admitted(self) -> Self {
        let entries = if self.entries == Entries::Given { Entries::Given } else { Entries::Admitted };
        Self { entries, form: Form::Decoded, ..self }
    }
}

impl Api {
    /// Returns a new object after the mutating webhooks, and how it is written.
    ///
    /// # Errors
    /// A refusal.
    pub(super) fn mutate_new<'a>(
        &self,
        resource: &Resource,
        mut object: Object,
        write: Write<'a>,
    ) -> Result<(Object, Write<'a>), Status> {
        write.session.into_iter().for_each(|session| session.note_name(&object));
        let Some(session) = write.session.filter(|session| session.mutates(Operation::Create)) else {
            return Ok((object, write));
        };
        let kind = &resource.kind;
        let fields = metadata::of(&mut object);
        SYSTEM_FIELDS.iter().for_each(|field| drop(fields.remove(*field)));
        self.complete_builtin(kind, &mut object);
        if !self.has_builtin_rules(kind) {
            Self::drop_unset(resource, &mut object, write);
        }
        if write.entries == Entries::Recorded {
            let live = Value::Object(Object::new());
            self.record(resource, &live, &mut object, write, creation_filter(resource, write));
        }
        Ok((session.mutate(None, object)?, write.admitted()))
    }

    /// As [`Self::mutate_new`], of an update.
    ///
    /// # Errors
    /// A refusal.
    pub(super) fn mutate_update<'a>(
        &self,
        resource: &Resource,
        before: &Value,
        mut object: Object,
        write: Write<'a>,
    ) -> Result<(Object, Write<'a>), Status> {
        // a scale is mutated before it becomes a part of the object
        let is_asked = |session: &&Session| session.mutates(Operation::Update) && !session.is_about_scale();
        let Some(session) = write.session.filter(is_asked) else { return Ok((object, write)) };
        self.complete_update(resource, &mut object, write)?;
        if write.entries == Entries::Recorded {
            let given = metadata::given_managers(&object, &resource.kind);
            set_entries(&mut object, given);
            self.record(resource, before, &mut object, write, filter(resource, write));
        }
        let old = before.as_object().cloned().unwrap_or_default();
        let name = metadata::text(&old, "name").to_owned();
        let namespace = metadata::text(&old, "namespace").to_owned();
        let mut object = session.mutate(Some(old), object)?;
        metadata::check_namespace(&mut object, resource, &namespace)?;
        check_same_name(&resource.kind, &name, &object, write)?;
        Ok((object, write.admitted()))
    }

    /// Returns an object after the validating webhooks: the one that they have seen.
    ///
    /// # Errors
    /// A refusal.
    pub(super) fn validate(
        resource: &Resource,
        before: Option<&Object>,
        object: Object,
        write: Write<'_>,
    ) -> Result<Object, Status> {
        let Some(session) = write.session else { return Ok(object) };
        match resource.kind.scale.as_ref().filter(|_| session.is_about_scale()) {
            Some(paths) => {
                let old = before.map(|before| scale_of(before, paths));
                session.validate_as(old, scale_of(&object, paths), object)
            }
            None => session.validate(before.cloned(), object),
        }
    }

    /// Returns the object of an update with its managers, after the validating webhooks.
    ///
    /// # Errors
    /// A refusal.
    pub(super) fn reviewed(
        &self,
        resource: &Resource,
        before: &Value,
        mut after: Object,
        managers: (Option<Value>, Option<Object>),
        write: Write<'_>,
    ) -> Result<Object, Status> {
        self.record_update(resource, before, &mut after, managers, write);
        Self::validate(resource, before.as_object(), after, write)
    }

    /// Brings an object that a webhook has changed into the form in which it is read from requests. Its type is another than
    /// that of the resource in some subresources.
    ///
    /// # Errors
    /// Why the object cannot be decoded.
    pub(crate) fn decode_admitted(
        &self,
        resource: &Kind,
        of: &Gvk,
        object: &mut Object,
    ) -> Result<(), String> {
        let Gvk { group, version, kind } = of.clone();
        let is_own = kind == resource.kind;
        let own = Kind { group, version, kind, custom: is_own && resource.custom, ..Kind::default() };
        metadata::check_type(object, &own, Origin::Client).map_err(|status| status.message().to_owned())?;
        if let Some(why) = type_fault(&own.api_version(), &own.kind, object, Decoder::Json) {
            return Err(why);
        }
        match &resource.checks {
            Some(schema) if is_own => schema.set_defaults(object),
            _ if is_own => self.complete_builtin(resource, object),
            _ => builtin::complete(&own.api_version(), &own.kind, object),
        }
        Ok(())
    }
}

/// Whether the patch of a webhook has changed what is decoded of an object of this type, before it gets defaults.
///
/// Follows Kubernetes 1.37 (`callAttrMutatingHook`).
pub(crate) fn differ(resource: &Kind, of: &Gvk, before: &Object, after: &Object) -> bool {
    let Gvk { group, version, kind } = of.clone();
    if kind == resource.kind && resource.custom {
        return before != after;
    }
    let api_version = Kind { group, version, ..Kind::default() }.api_version();
    let decoded = |object: &Object| {
        let mut object = object.clone();
        builtin::decode(&api_version, &kind, &mut object);
        apply::drop_unset(apply::Schema::builtin(), &api_version, &kind, &mut object);
        object
    };
    decoded(before) != decoded(after)
}

/// # Errors
/// 422 for an update that webhooks have given another name.
fn check_same_name(kind: &Kind, name: &str, object: &Object, write: Write<'_>) -> Result<(), Status> {
    let given = metadata::text(object, "name");
    // the metadata of such a status is ignored
    if given == name || kind.custom && write.part != Part::Object {
        return Ok(());
    }
    let cause = Cause::invalid("metadata.name", format!("Invalid value: {given:?}: field is immutable"));
    // kube-apiserver validates the metadata of custom resources twice.
    let causes = if kind.custom { vec![cause.clone(), cause] } else { vec![cause] };
    Err(Status::invalid(kind.kind_subject(), given, causes))
}
