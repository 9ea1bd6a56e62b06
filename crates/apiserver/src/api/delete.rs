//! Deleting objects: preconditions, grace periods, finalizers, collections.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::Session;
use crate::apply::unpack;
use crate::conversion::unreadable;
use crate::gc::Work;
use crate::registry::{Kind, Resource};
use crate::status::Status;
use crate::storage::{Change, DELETE_DEPENDENTS, Key, ORPHAN_DEPENDENTS, Outcome, Stored};

use super::delete_options::{DeleteOptions, Propagation};
use super::deletion::{Grace, Step, ThenRemove};
use super::{Api, DryRun, Object, definition_rules, metadata, namespace_rules, pod_rules, rewrite};

/// The result of a deletion.
pub(crate) enum Deleted {
    /// The object was removed; its final state.
    Gone(Arc<Stored>),
    /// The object waits for its finalizers, or for the end of its grace period.
    Terminating(Arc<Stored>),
}

impl Api {
    /// Deletes an object. An object with finalizers or a grace period gets a `deletionTimestamp` and remains.
    ///
    /// Follows Kubernetes 1.37 (`registry.Store.Delete`).
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
        self.delete_admitted(resource, namespace, name, options, None)
    }

    /// As [`Self::delete`], if the webhooks allow it.
    ///
    /// # Errors
    /// As [`Self::delete`], and a refusal.
    pub(crate) fn delete_admitted(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        session: Option<&Session>,
    ) -> Result<Deleted, Status> {
        if resource.kind.is("", "namespaces") {
            namespace_rules::check_deletable(name)?;
        }
        let is_definition = resource.kind.is_definition();
        let _definitions = is_definition.then(|| self.definitions.lock());
        let key = Self::key(resource, namespace, name);
        let (mut tried, mut then_remove, mut has_grace) = (None, ThenRemove::No, false);
        let outcome = resource.store.write(&key, |present| {
            let present = present.ok_or_else(|| Status::not_found(resource.kind.resource_subject(), name))?;
            let step = self.admitted_step(resource, present, options, session)?;
            if options.dry_run == DryRun::All {
                tried = Some((step, present.parse()));
                return Ok(Change::Keep);
            }
            Ok(match step {
                Step::Pending | Step::Held => Change::Keep,
                Step::Remove => Change::Remove(present.parse()),
                Step::Update(object, then) => {
                    (then_remove, has_grace) = (then, pod_rules::has_grace(&object));
                    Change::Put(object)
                }
            })
        })?;
        if let Some((step, present)) = tried {
            return Ok(self.tried_deletion(resource, &key, step, present));
        }
        let outcome = match outcome {
            Outcome::Stored(updated) if then_remove == ThenRemove::Yes => {
                Self::remove(resource, &key, updated)?
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Removed(stored) => {
                if is_definition {
                    self.stop_serving_definition(&stored);
                }
                self.after_removal(resource, namespace);
                Ok(Deleted::Gone(stored))
            }
            Outcome::Stored(stored) | Outcome::Kept(Some(stored)) => {
                self.after_marking(resource, &stored, has_grace);
                Ok(Deleted::Terminating(stored))
            }
            Outcome::Kept(None) => Err(Status::not_found(resource.kind.resource_subject(), name)),
        }
    }

    /// Decides what a deletion does, if the webhooks allow it and can convert the object.
    fn admitted_step(
        &self,
        resource: &Resource,
        present: &Stored,
        options: &DeleteOptions,
        session: Option<&Session>,
    ) -> Result<Step, Status> {
        let step = self.step(resource, present, options)?;
        if let Some(session) = session {
            let shown = Self::present(resource, present, Some(session));
            let mut shown = shown.map_err(|error| unreadable(&resource.kind, present, &error))?;
            unpack(&mut shown);
            self.admit_deletion(session, resource, (present, shown), &step, options)?;
        }
        Ok(step)
    }

    /// Decides what a deletion does with the present state of an object.
    fn step(&self, resource: &Resource, present: &Stored, options: &DeleteOptions) -> Result<Step, Status> {
        let kind = &resource.kind;
        if kind.is("", "namespaces") {
            options.preconditions.check(resource, present)?;
        } else {
            options.preconditions.check_deletion(resource, present)?;
        }
        let mut object = present.parse();
        if kind.is("", "namespaces")
            && let Some(step) =
                namespace_rules::deletion(&mut object, self.collects().then_some(options), &self.clock)
        {
            return Ok(step);
        }
        if kind.is_definition() && !present.is_terminating() {
            definition_rules::begin_deletion(&mut object, &self.clock);
            return Ok(Step::Update(object, ThenRemove::No));
        }
        let grace = if self.is_graceful(kind) {
            pod_rules::grace(&mut object, options, &self.clock)
        } else {
            Grace::None
        };
        if matches!(grace, Grace::Pending) {
            return Ok(Step::Pending);
        }
        if self.collects() {
            set_finalizers(kind, &mut object, options);
        }
        let is_held = !metadata::finalizers(&object).is_empty();
        Ok(match grace {
            Grace::Seconds(0) if !is_held => Step::Update(object, ThenRemove::Yes),
            Grace::Seconds(_) => Step::Update(object, ThenRemove::No),
            _ if is_held => {
                self.mark_terminating(&mut object);
                if present.is_terminating() && object == present.parse() {
                    return Ok(Step::Held);
                }
                Step::Update(object, ThenRemove::No)
            }
            _ => Step::Remove,
        })
    }

    /// Asks the webhooks about each write that kube-apiserver makes for a deletion: an object that is updated and then removed
    /// has two.
    fn admit_deletion(
        &self,
        session: &Session,
        resource: &Resource,
        (present, object): (&Stored, Object),
        step: &Step,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let kind = &resource.kind;
        let mut given = options.clone();
        if kind.is("", "namespaces") || kind.is_definition() && session.is_about_one() {
            given.preconditions.uid.get_or_insert_with(|| present.uid().to_owned());
        }
        if let Step::Update(after, _) = step
            && self.is_graceful(kind)
            && session.is_about_one()
        {
            let seconds =
                after.get("metadata").and_then(|metadata| metadata.get("deletionGracePeriodSeconds"));
            given.grace = seconds.and_then(Value::as_i64).or(given.grace);
        }
        let is_dry_run = options.dry_run == DryRun::All;
        let (first, second) = match step {
            Step::Pending => (None, None),
            Step::Remove if metadata::finalizers(&object).is_empty() => (Some(object), None),
            Step::Remove => (Some(object.clone()), Some(object)),
            Step::Update(after, ThenRemove::Yes) => (Some(object), Some(after.clone())),
            Step::Update(..) | Step::Held => (Some(object), None),
        };
        for old in first.into_iter().chain(second.filter(|_| !is_dry_run)) {
            session.delete(old, given.to_json(), is_dry_run)?;
        }
        Ok(())
    }

    /// Follows Kubernetes 1.37 (`markAsDeleting`).
    fn mark_terminating(&self, object: &mut Object) {
        if !metadata::is_terminating(object) && metadata::of(object).contains_key("generation") {
            rewrite::bump_generation(object);
        }
        let metadata = metadata::of(object);
        let is_over = |time: &str| self.clock.seconds_since(time).is_some_and(|seconds| seconds >= 0);
        if !metadata.get("deletionTimestamp").and_then(Value::as_str).is_some_and(is_over) {
            metadata.insert("deletionTimestamp".into(), self.clock.rfc3339().into());
        }
        metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
    }

    /// Removes an object that was updated for its deletion, unless it was replaced meanwhile.
    fn remove(resource: &Resource, key: &Key, updated: Arc<Stored>) -> Result<Outcome, Status> {
        let outcome = resource.store.write(key, |present| {
            let present = present.filter(|present| present.uid() == updated.uid());
            Ok(present.map_or(Change::Keep, |present| Change::Remove(present.parse())))
        })?;
        Ok(match outcome {
            Outcome::Removed(stored) => Outcome::Removed(stored),
            // Others have removed it.
            _ => Outcome::Removed(updated),
        })
    }

    fn tried_deletion(&self, resource: &Resource, key: &Key, step: Step, present: Object) -> Deleted {
        match step {
            Step::Update(object, ThenRemove::Yes) => Deleted::Gone(self.tried(resource, key, object)),
            Step::Update(object, ThenRemove::No) => Deleted::Terminating(self.tried(resource, key, object)),
            Step::Pending | Step::Held => Deleted::Terminating(self.tried(resource, key, present)),
            Step::Remove => Deleted::Gone(self.tried(resource, key, present)),
        }
    }

    /// Queues the work that ends the deletion of an object that remains.
    fn after_marking(&self, resource: &Resource, stored: &Stored, has_grace: bool) {
        let name = || stored.key().name().into();
        match (resource.kind.group.as_str(), resource.kind.plural.as_str()) {
            ("", "namespaces") => self.graph.push(Work::Namespace(name())),
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                self.graph.push(Work::Definition(name()));
            }
            ("", "pods") if self.has_kubelets() && has_grace => {
                self.graph.push(Work::Pod(stored.key().clone(), stored.uid().into()));
            }
            _ => {}
        }
    }
}

/// Sets the finalizers of garbage collection: the options decide, then the finalizers that the object has, then the kind.
///
/// Follows Kubernetes 1.37 (`deletionFinalizersForGarbageCollection`).
fn set_finalizers(kind: &Kind, object: &mut Object, options: &DeleteOptions) {
    let had = metadata::finalizers(object);
    let wanted = match propagation(kind, &had, options) {
        Propagation::Orphan => Some(ORPHAN_DEPENDENTS),
        Propagation::Foreground => Some(DELETE_DEPENDENTS),
        Propagation::Background => None,
    };
    let is_ours = |finalizer: &str| [ORPHAN_DEPENDENTS, DELETE_DEPENDENTS].contains(&finalizer);
    let others = had.iter().copied().filter(|finalizer| !is_ours(finalizer));
    let finalizers: Vec<&str> = others.chain(wanted).collect();
    if finalizers.len() == had.len() && finalizers.iter().all(|finalizer| had.contains(finalizer)) {
        return;
    }
    let finalizers = json!(finalizers);
    metadata::set_finalizers(object, finalizers);
}

fn propagation(kind: &Kind, finalizers: &[&str], options: &DeleteOptions) -> Propagation {
    // Events own nothing.
    if kind.plural == "events" && matches!(kind.group.as_str(), "" | "events.k8s.io") {
        return Propagation::Background;
    }
    if let Some(orphan) = options.orphan_dependents {
        return if orphan { Propagation::Orphan } else { Propagation::Background };
    }
    if let Some(propagation) = options.propagation {
        return propagation;
    }
    let first = finalizers.iter().find_map(|finalizer| match *finalizer {
        ORPHAN_DEPENDENTS => Some(Propagation::Orphan),
        DELETE_DEPENDENTS => Some(Propagation::Foreground),
        _ => None,
    });
    let default = if kind.orphans_by_default() { Propagation::Orphan } else { Propagation::Background };
    first.unwrap_or(default)
}
