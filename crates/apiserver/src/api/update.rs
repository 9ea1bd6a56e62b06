//! Changing objects: update and patch of an object, its status, or its finalizers.

use std::sync::Arc;

use serde_json::Value;

use crate::patch::Patch;
use crate::registry::Resource;
use crate::status::{Cause, Status};
use crate::storage::{Change, Outcome, Stored};

use super::{Api, DryRun, Object, Origin, Part, Write, metadata};

/// Whether a write must name the version that it replaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Versioned {
    /// An update, which replaces the object.
    Update,
    /// A patch, which is applied to the current object.
    Patch,
}

impl Api {
    /// Replaces an object, or the part that `write` selects.
    ///
    /// # Errors
    /// 404; 409 for a stale version or another uid; 400 and 422 for an invalid object. Nothing has changed then.
    pub(crate) fn update(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        mut object: Object,
        write: Write,
    ) -> Result<Arc<Stored>, Status> {
        metadata::check_type(&mut object, &resource.kind)?;
        metadata::check_namespace(&mut object, resource, namespace)?;
        match metadata::text(&object, "name") {
            given if given == name => {}
            "" => {
                metadata::of(&mut object).insert("name".into(), name.into());
            }
            given => {
                return Err(Status::bad_request(format!(
                    "the name of the object ({given}) does not match the name on the URL ({name})"
                )));
            }
        }
        self.rewrite(resource, namespace, name, write, |_| Ok((object, Versioned::Update)))
    }

    /// Applies a patch to the current object, or to the part that `write` selects.
    ///
    /// # Errors
    /// The errors of [`Api::update`] and of the patch.
    pub(crate) fn patch(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        patch: &Patch,
        write: Write,
    ) -> Result<Arc<Stored>, Status> {
        self.modify(resource, namespace, name, write, |present| {
            patch.apply(present, resource.kind.kind_subject(), name)
        })
    }

    /// Changes the current object by a function.
    ///
    /// # Errors
    /// The errors of [`Api::update`] and of the function.
    pub(crate) fn modify(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        write: Write,
        change: impl FnOnce(Object) -> Result<Object, Status>,
    ) -> Result<Arc<Stored>, Status> {
        self.rewrite(resource, namespace, name, write, |present| {
            let mut object = change(present.clone())?;
            metadata::check_type(&mut object, &resource.kind)?;
            metadata::check_namespace(&mut object, resource, namespace)?;
            if metadata::text(&object, "name") != name {
                let given = metadata::text(&object, "name");
                return Err(Status::bad_request(format!(
                    "the name of the object ({given}) does not match the name on the URL ({name})"
                )));
            }
            Ok((object, Versioned::Patch))
        })
    }

    fn rewrite(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        write: Write,
        make: impl FnOnce(&Object) -> Result<(Object, Versioned), Status>,
    ) -> Result<Arc<Stored>, Status> {
        let key = Self::key(resource, namespace, name);
        let is_definition = resource.kind.is("apiextensions.k8s.io", "customresourcedefinitions");
        let _definitions = is_definition.then(|| self.definitions.lock());
        let mut tried = None;
        let mut defined = None;
        let now = self.clock.rfc3339();
        let outcome = resource.store.write(&key, |present| {
            let present = present.ok_or_else(|| Status::not_found(resource.kind.resource_subject(), name))?;
            let before = Self::served(resource, present);
            let (object, versioned) = make(&before)?;
            let mut after = next_state(resource, name, &before, object, write, versioned)?;
            if is_definition {
                defined = Some(crate::registry::definition(&mut after, &now)?);
            }
            if after == before {
                return Ok(Change::Keep);
            }
            let leaves = metadata::is_terminating(&after)
                && metadata::finalizers(&after).is_empty()
                && super::namespace_rules::may_leave(resource, &after);
            self.to_stored(resource, &mut after);
            if write.dry_run == DryRun::All {
                tried = Some(after);
                return Ok(Change::Keep);
            }
            Ok(if leaves { Change::Remove(after) } else { Change::Put(after) })
        })?;
        if let Some(object) = tried {
            return Ok(self.tried(resource, &key, object));
        }
        match outcome {
            Outcome::Stored(stored) => {
                if let Some(definition) = defined {
                    self.serve_definition(definition);
                }
                Ok(stored)
            }
            Outcome::Removed(stored) => {
                if let Some(definition) = defined {
                    self.stop_serving(&definition.group, &definition.plural);
                }
                self.after_removal(resource, namespace);
                Ok(stored)
            }
            Outcome::Kept(Some(stored)) => Ok(stored),
            Outcome::Kept(None) => Err(Status::not_found(resource.kind.resource_subject(), name)),
        }
    }
}

/// Returns the result of writing `object` over `before`.
fn next_state(
    resource: &Resource,
    name: &str,
    before: &Object,
    mut object: Object,
    write: Write,
    versioned: Versioned,
) -> Result<Object, Status> {
    let kind = &resource.kind;
    let subject = kind.resource_subject();
    let present = metadata::text(before, "resourceVersion");
    match metadata::text(&object, "resourceVersion") {
        "" | "0" if kind.custom && versioned == Versioned::Update && write.origin == Origin::Client => {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                "Invalid value: 0x0: must be specified for an update",
            );
            return Err(Status::invalid(kind.kind_subject(), name, vec![cause]));
        }
        "" | "0" => {}
        given if given == present => {}
        given if given.parse::<u64>().is_err() => {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                format!("Invalid value: {given:?}: must be a number"),
            );
            return Err(Status::invalid(kind.kind_subject(), name, vec![cause]));
        }
        _ => return Err(Status::modified(subject, name)),
    }
    let (given_uid, uid) = (metadata::text(&object, "uid"), metadata::text(before, "uid"));
    if !given_uid.is_empty() && given_uid != uid {
        if versioned == Versioned::Patch {
            let why = format!("Invalid value: {given_uid:?}: field is immutable");
            return Err(Status::invalid(
                kind.kind_subject(),
                name,
                vec![Cause::invalid("metadata.uid", why)],
            ));
        }
        let why = format!("Precondition failed: UID in precondition: {given_uid}, UID in object meta: {uid}");
        return Err(Status::conflict(subject, name, &why));
    }
    object = match write.part {
        Part::Object => {
            if kind.has_status && write.origin == Origin::Client {
                copy_field(&mut object, before, "status");
            }
            object
        }
        Part::Status => {
            let mut updated = before.clone();
            copy_field(&mut updated, &object, "status");
            updated
        }
        Part::Finalize => {
            let mut updated = before.clone();
            copy_field(&mut updated, &object, "spec");
            updated
        }
    };
    let owned = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "namespace",
    ];
    let old = before.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let new = metadata::of(&mut object);
    for field in ["managedFields", "selfLink"] {
        new.remove(field);
    }
    for field in owned {
        match old.get(field) {
            Some(value) => new.insert(field.into(), value.clone()),
            None => new.remove(field),
        };
    }
    if metadata::is_terminating(before) {
        let had = metadata::finalizers(before);
        let new: Vec<&str> =
            metadata::finalizers(&object).into_iter().filter(|finalizer| !had.contains(finalizer)).collect();
        if !new.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{{\"{}\"}}",
                new.join("\", \"")
            );
            return Err(Status::invalid(
                kind.kind_subject(),
                name,
                vec![Cause::forbidden("metadata.finalizers", why)],
            ));
        }
    }
    let faults = metadata::label_faults(&object);
    if write.origin == Origin::Client && !faults.is_empty() {
        return Err(Status::invalid(kind.kind_subject(), name, faults));
    }
    if kind.is("", "secrets") {
        super::create::encode_strings(&mut object);
    }
    if kind.has_generation && metadata::spec_differs(before, &object) {
        bump_generation(&mut object);
    }
    Ok(object)
}

pub(super) fn bump_generation(object: &mut Object) {
    let metadata = metadata::of(object);
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    metadata.insert("generation".into(), generation.saturating_add(1).into());
}

/// Copies a field from another state, or removes it if the other state has none.
fn copy_field(object: &mut Object, from: &Object, member: &str) {
    match from.get(member) {
        Some(value) => object.insert(member.into(), value.clone()),
        None => object.remove(member),
    };
}
