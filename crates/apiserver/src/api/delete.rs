//! Deleting objects: preconditions, finalizers, collections.

use std::sync::Arc;

use serde_json::Value;

use crate::registry::Resource;
use crate::selectors::Selection;
use crate::status::{Cause, Status};
use crate::storage::{Change, Outcome, Stored};

use super::{Api, DryRun, Object, metadata, rewrite};

/// The supported part of `DeleteOptions`. Grace periods and propagation policies are accepted and ignored: there are
/// no kubelets, and dependents are not collected.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) preconditions: Preconditions,
    pub(crate) dry_run: DryRun,
}

/// The state that an object must have; `None` fields match any state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

/// The result of a deletion.
pub(crate) enum Deleted {
    /// The object was removed; its final state.
    Gone(Arc<Stored>),
    /// The object waits for its finalizers.
    Terminating(Arc<Stored>),
}

impl DeleteOptions {
    /// # Errors
    /// 400 for a body that is not a `DeleteOptions`, 422 for unknown values.
    pub(crate) fn parse(body: &Value) -> Result<Self, Status> {
        let Value::Object(map) = body else {
            return Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"));
        };
        if let Some(kind) = map.get("kind").and_then(Value::as_str)
            && kind != "DeleteOptions"
        {
            return Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"));
        }
        let invalid = |cause| {
            let subject = crate::status::Subject { group: "meta.k8s.io", resource: "DeleteOptions" };
            Status::invalid(subject, "", vec![cause])
        };
        if let Some(policy) = map.get("propagationPolicy").and_then(Value::as_str)
            && !matches!(policy, "Foreground" | "Background" | "Orphan")
        {
            let known = "\"Foreground\", \"Background\", \"Orphan\"";
            return Err(invalid(Cause::not_supported("propagationPolicy", policy, known)));
        }
        let dry_run = match map.get("dryRun").and_then(Value::as_array).map(Vec::as_slice) {
            None | Some([]) => DryRun::No,
            Some([Value::String(all)]) if all == "All" => DryRun::All,
            Some(_) => return Err(invalid(Cause::not_supported("dryRun", "", "\"All\""))),
        };
        let precondition = |field: &str| {
            body.pointer(&format!("/preconditions/{field}")).and_then(Value::as_str).map(str::to_owned)
        };
        let preconditions =
            Preconditions { uid: precondition("uid"), version: precondition("resourceVersion") };
        Ok(Self { preconditions, dry_run })
    }
}

impl Preconditions {
    /// # Errors
    /// 409 if the object has another state.
    pub(super) fn check(&self, resource: &Resource, stored: &Stored) -> Result<(), Status> {
        let failed = |what: &str, wanted: &str, there: &str| {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {there}"
            );
            Err(Status::conflict(resource.kind.resource_subject(), stored.key().name(), &why))
        };
        if let Some(uid) = &self.uid
            && uid != stored.uid()
        {
            return failed("UID", uid, stored.uid());
        }
        if let Some(version) = &self.version
            && *version != stored.version().to_string()
        {
            return failed("ResourceVersion", version, &stored.version().to_string());
        }
        Ok(())
    }
}

impl Api {
    /// Deletes an object. An object with finalizers gets a `deletionTimestamp` and remains until they are removed.
    ///
    /// # Errors
    /// 404; 409 for a failed precondition; 403 for namespaces that must not be deleted.
    pub(crate) fn delete(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let is_namespace = resource.kind.is("", "namespaces");
        if is_namespace {
            super::namespace_rules::check_deletable(name)?;
        }
        let is_definition = resource.kind.is("apiextensions.k8s.io", "customresourcedefinitions");
        let _definitions = is_definition.then(|| self.definitions.lock());
        let key = Self::key(resource, namespace, name);
        let mut tried = None;
        let outcome = resource.store.write(&key, |present| {
            let present = present.ok_or_else(|| Status::not_found(resource.kind.resource_subject(), name))?;
            options.preconditions.check(resource, present)?;
            let mut object = present.parse();
            let stays = is_namespace || !metadata::finalizers(&object).is_empty();
            if stays && present.is_terminating() {
                return Ok(Change::Keep);
            }
            if stays {
                self.mark_terminating(resource, &mut object);
            }
            if options.dry_run == DryRun::All {
                tried = Some((object, stays));
                return Ok(Change::Keep);
            }
            Ok(if stays { Change::Put(object) } else { Change::Remove(object) })
        })?;
        if let Some((object, stays)) = tried {
            let stored = self.tried(resource, &key, object);
            return Ok(if stays { Deleted::Terminating(stored) } else { Deleted::Gone(stored) });
        }
        match outcome {
            Outcome::Removed(stored) => {
                if is_definition {
                    self.stop_serving_definition(&stored);
                }
                self.after_removal(resource, namespace);
                Ok(Deleted::Gone(stored))
            }
            Outcome::Stored(stored) | Outcome::Kept(Some(stored)) => {
                if is_namespace {
                    self.empty_namespace(name);
                }
                Ok(Deleted::Terminating(stored))
            }
            Outcome::Kept(None) => Err(Status::not_found(resource.kind.resource_subject(), name)),
        }
    }

    fn mark_terminating(&self, resource: &Resource, object: &mut Object) {
        let metadata = metadata::of(object);
        metadata.insert("deletionTimestamp".into(), self.clock.rfc3339().into());
        metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
        if resource.kind.has_generation {
            rewrite::bump_generation(object);
        }
        if resource.kind.is("", "namespaces")
            && let Some(Value::Object(status)) = object.get_mut("status")
        {
            status.insert("phase".into(), "Terminating".into());
        }
    }

    /// Deletes the selected objects. Objects that others delete concurrently are skipped.
    ///
    /// # Errors
    /// The error of the first object that could not be deleted; the objects before it are deleted.
    pub(crate) fn delete_collection(
        &self,
        resource: &Arc<Resource>,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<Vec<Arc<Stored>>, Status> {
        let mut deleted = Vec::new();
        for stored in resource.store.snapshot().objects.values().filter(|stored| selection.matches(stored)) {
            match self.delete(resource, stored.key().namespace(), stored.key().name(), options) {
                Ok(Deleted::Gone(stored) | Deleted::Terminating(stored)) => deleted.push(stored),
                Err(status) if status.code() == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(deleted)
    }
}
