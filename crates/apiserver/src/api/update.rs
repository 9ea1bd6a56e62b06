//! Changing objects: update and patch of an object, its status, or its finalizers.

use std::sync::Arc;

use serde_json::json;

use crate::apply;
use crate::registry::Resource;
use crate::status::Status;
use crate::storage::{Change, Outcome, Stored};

use super::apply::{Applied, update_or_create};
use super::rewrite::{Rewrite, Versioned};
use super::{Api, DryRun, Object, Origin, Part, Write, metadata};

/// Makes the next state of an object from the current one.
type Make<'a> = &'a mut dyn FnMut(&Object) -> Result<(Object, Versioned), Status>;

impl Api {
    /// Replaces an object, or the part that `write` selects. An object of some kinds is created if there is none.
    ///
    /// # Errors
    /// 404; 409 for a stale version or another uid; 400 and 422 for an invalid object. Nothing has changed then.
    pub(crate) fn update(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        mut object: Object,
        write: Write<'_>,
    ) -> Result<Applied, Status> {
        metadata::check_type(&mut object, &resource.kind, write.origin)?;
        apply::refuse_packed(&mut object);
        metadata::check_namespace(&mut object, resource, namespace)?;
        if write.origin == Origin::Client || !metadata::text(&object, "name").is_empty() {
            metadata::check_name(&object, name)?;
        } else {
            metadata::of(&mut object).insert("name".into(), name.into());
        }
        let update = || {
            self.rewrite(resource, namespace, name, write, &mut |_| Ok((object.clone(), Versioned::Update)))
        };
        match write.part {
            Part::Object if resource.kind.creates_on_update() => {
                update_or_create(resource, name, update, || {
                    self.create_by_update(resource, namespace, name, object.clone(), write)
                })
            }
            _ => update().map(Applied::Updated),
        }
    }

    /// Creates an object whose update has found none. The version that it replaces is ignored, as in Kubernetes.
    fn create_by_update(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        mut object: Object,
        write: Write<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let none = Object::from_iter([("metadata".to_owned(), json!({"namespace": namespace}))]);
        metadata::check_precondition(&resource.kind, name, &none, &object, write.dry_run)?;
        metadata::of(&mut object).remove("resourceVersion");
        self.create(resource, namespace, object, write)
    }

    /// Changes the current object, with packed entries of its managers, by a function, which is called again if the object
    /// is written meanwhile.
    ///
    /// # Errors
    /// The errors of [`Api::update`] and of the function.
    pub(crate) fn modify(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        write: Write<'_>,
        change: &mut dyn FnMut(Object) -> Result<Object, Status>,
    ) -> Result<Arc<Stored>, Status> {
        self.rewrite(resource, namespace, name, write, &mut |present| {
            let mut object = change(present.clone())?;
            metadata::check_type(&mut object, &resource.kind, write.origin)?;
            metadata::check_namespace(&mut object, resource, namespace)?;
            metadata::check_name(&object, name)?;
            Ok((object, Versioned::Patch))
        })
    }

    /// Whether an object is removed in this state: it is being deleted, and nothing holds it any longer.
    fn leaves(resource: &Resource, object: &Object) -> bool {
        metadata::is_terminating(object)
            && metadata::finalizers(object).is_empty()
            && !super::pod_rules::has_grace(object)
            && super::namespace_rules::may_leave(resource, object)
    }

    fn rewrite(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        write: Write<'_>,
        make: Make<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let (kind, key) = (&resource.kind, Self::key(resource, namespace, name));
        let not_found = || Status::not_found(kind.resource_subject(), name);
        let _definitions = kind.is_definition().then(|| self.definitions.lock());
        let (mut tried, mut defined, mut last) = (None, None, None);
        // A patch may take long, so it is not applied under the lock.
        let outcome = resource.store.rewrite(&key, |present| {
            (tried, defined, last) = (None, None, None);
            let stored = present.ok_or_else(not_found)?;
            let (before, is_completed) = self.former(resource, stored, write)?;
            let Some(present) = before.as_object() else { return Ok(Change::Keep) };
            let (object, versioned) = make(present)?;
            let (mut object, write) = self.mutate_update(resource, &before, object, write)?;
            let given = metadata::given_managers(&object, &resource.kind);
            self.complete_update(resource, &mut object, write)?;
            let claimed = Self::claimed(resource, present, &object, write);
            let rewrite = Rewrite { kind, name, before: present, write, versioned, api: self };
            let mut after = rewrite.next_state(object)?;
            if kind.is_definition() {
                defined = Some(self.define(&mut after, Some(present), write)?);
            }
            let mut after = self.reviewed(resource, &before, after, (given, claimed), write)?;
            let is_same = !is_completed && after == *present;
            self.to_stored(resource, &mut after, write)?;
            // the stored object may have the form of another schema
            if is_same && !(resource.is_revised && after != stored.parse_packed()) {
                return Ok(Change::Keep);
            }
            if write.dry_run == DryRun::All {
                tried = Some(after);
                return Ok(Change::Keep);
            }
            if Self::leaves(resource, &after) {
                last = Some(after);
                // The event has the stored state, with the last finalizer, as in Kubernetes.
                return Ok(Change::Remove(stored.parse()));
            }
            Ok(Change::Put(after))
        })?;
        match (outcome, tried) {
            (_, Some(object)) => Ok(self.tried(resource, &key, object)),
            (Outcome::Stored(stored), _) => {
                defined.into_iter().for_each(|definition| self.serve_definition(definition));
                self.check_owners(resource, &stored, write);
                Ok(stored)
            }
            (Outcome::Removed(stored), _) => {
                defined.iter().for_each(|defined| self.stop_serving(&defined.group, &defined.plural));
                self.after_removal(resource, namespace);
                // The response has the new state, at the version of the state before.
                Ok(last.map_or(stored, |last| Self::unversioned(resource, &key, last)))
            }
            (Outcome::Kept(stored), _) => stored.ok_or_else(not_found),
        }
    }
}
