//! The garbage collector: deletes objects whose owners are gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::api::{Api, DeleteOptions, Preconditions, Propagation, Write};
use crate::registry::Resource;
use crate::status::Status;
use crate::storage::{DELETE_DEPENDENTS, ORPHAN_DEPENDENTS, OwnerReference, Stored};

use super::classify::{Owners, Unknown, classify};
use super::queue::{Node, Work};

impl Api {
    /// Does all the work that is queued. If another thread does it already, that thread also does what is queued now.
    pub(crate) fn finish_deletions(&self) {
        // The check after the lock is released finds what others have queued while it was held.
        while self.graph.has_work() {
            let Some(_turn) = self.finishing.try_lock() else { return };
            while let Some(work) = self.graph.pop() {
                self.finish(work);
            }
        }
    }

    fn finish(&self, work: Work) {
        match work {
            Work::Object(node) => self.collect(&node),
            Work::DependentsOf(owner) => {
                let mut position = None;
                while let Some(node) = self.graph.next_dependent(&owner, position.as_ref()) {
                    self.collect(&node);
                    position = Some(node);
                }
            }
            Work::Orphan(node) => self.orphan_dependents(&node),
            Work::Pod(key, uid) => self.finish_pod(&key, &uid),
            Work::Namespace(name) => self.finish_namespace(&name),
            Work::Definition(name) => self.finish_definition(&name),
        }
    }

    /// Returns an object of the graph.
    pub(super) fn node(&self, node: &Node) -> Option<(Arc<Resource>, Arc<Stored>)> {
        let resource = self.registry().of_store(node.store)?.clone();
        let stored = resource.store.get(&node.key)?;
        Some((resource, stored))
    }

    /// Deletes an object if none of its owners keeps it, or finishes its deletion in the foreground.
    ///
    /// Follows Kubernetes 1.37 (`GarbageCollector.attemptToDeleteItem`).
    fn collect(&self, node: &Node) {
        let Some((resource, object)) = self.node(node) else { return };
        if object.deletes_dependents() {
            if !self.graph.has_blocking_dependents(object.uid()) {
                self.remove_finalizer(&resource, &object, DELETE_DEPENDENTS);
            }
            return;
        }
        if object.is_terminating() || object.owners().is_empty() {
            return;
        }
        let registry = self.registry();
        match classify(&registry, &self.graph, &resource, &object) {
            Ok(owners) => self.collect_with(node, &resource, &object, &owners),
            Err(Unknown::Kind) => self.graph.keep_unresolved(node.clone()),
            Err(Unknown::Scope(owner)) => self.report_namespace(&resource, &object, &owner),
        }
    }

    fn collect_with(&self, node: &Node, resource: &Arc<Resource>, object: &Stored, owners: &Owners<'_>) {
        let changed = if !owners.solid.is_empty() {
            let gone: BTreeSet<&str> =
                owners.absent.iter().chain(&owners.waiting).map(|owner| &*owner.uid).collect();
            self.remove_owners(resource, object, &gone)
        } else if !owners.waiting.is_empty() && self.graph.next_dependent(object.uid(), None).is_some() {
            if self.has_waiting_dependent(object.uid()) {
                self.unblock_owners(resource, object);
            }
            self.delete_collected(resource, object, Propagation::Foreground)
        } else {
            for owner in &owners.absent {
                self.report_other_namespace(resource, object, owner);
            }
            self.delete_collected(resource, object, Self::present_propagation(object))
        };
        if matches!(changed, Err(status) if status.code() == 409) {
            // The object was changed meanwhile.
            self.graph.push(Work::Object(node.clone()));
        }
    }

    /// Whether a dependent of this owner itself waits for its dependents: the owners may form a cycle.
    fn has_waiting_dependent(&self, owner: &str) -> bool {
        let mut position = None;
        while let Some(node) = self.graph.next_dependent(owner, position.as_ref()) {
            if self.node(&node).is_some_and(|(_, dependent)| dependent.deletes_dependents()) {
                return true;
            }
            position = Some(node);
        }
        false
    }

    /// Returns the policy that the finalizers of an object demand.
    fn present_propagation(object: &Stored) -> Propagation {
        match object.collection_finalizer() {
            Some(ORPHAN_DEPENDENTS) => Propagation::Orphan,
            Some(DELETE_DEPENDENTS) => Propagation::Foreground,
            _ => Propagation::Background,
        }
    }

    /// # Errors
    /// Those of a deletion. 409 if the object was changed.
    fn delete_collected(
        &self,
        resource: &Arc<Resource>,
        object: &Stored,
        propagation: Propagation,
    ) -> Result<(), Status> {
        let preconditions = Preconditions {
            uid: Some(object.uid().to_owned()),
            // Blocking references may have been removed since the object was read.
            version: (propagation != Propagation::Foreground).then(|| object.version().to_string()),
        };
        let options =
            DeleteOptions { preconditions, propagation: Some(propagation), ..DeleteOptions::default() };
        self.delete(resource, object.key().namespace(), object.key().name(), &options).map(drop)
    }

    /// Sets `blockOwnerDeletion` of all owners of an object to false.
    fn unblock_owners(&self, resource: &Arc<Resource>, object: &Stored) {
        // The object is deleted in any case.
        let _ = self.change_owners(resource, object, |owners| {
            for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
                if owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
                    owner.insert("blockOwnerDeletion".into(), false.into());
                }
            }
        });
    }

    /// Removes owners from the metadata of an object.
    ///
    /// # Errors
    /// 404 if the object is gone.
    pub(super) fn remove_owners(
        &self,
        resource: &Arc<Resource>,
        object: &Stored,
        uids: &BTreeSet<&str>,
    ) -> Result<(), Status> {
        if uids.is_empty() {
            return Ok(());
        }
        let is_gone =
            |owner: &Value| owner.get("uid").and_then(Value::as_str).is_some_and(|uid| uids.contains(uid));
        self.change_owners(resource, object, |owners| owners.retain(|owner| !is_gone(owner)))
    }

    fn change_owners(
        &self,
        resource: &Arc<Resource>,
        object: &Stored,
        change: impl Fn(&mut Vec<Value>),
    ) -> Result<(), Status> {
        self.change(resource, object, |present| {
            let Some(Value::Object(metadata)) = present.get_mut("metadata") else { return };
            if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
                change(owners);
            }
        })
    }

    /// Removes a finalizer from an object, and the object if it was the last one.
    pub(super) fn remove_finalizer(&self, resource: &Arc<Resource>, object: &Stored, finalizer: &str) {
        // The only possible error is that the object is gone.
        let _ = self.change(resource, object, |present| {
            let Some(Value::Object(metadata)) = present.get_mut("metadata") else { return };
            if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
                finalizers.retain(|other| other != finalizer);
            }
        });
    }

    /// Changes an object, unless another has taken its place.
    ///
    /// # Errors
    /// 404 if the object is gone.
    pub(super) fn change(
        &self,
        resource: &Arc<Resource>,
        object: &Stored,
        change: impl Fn(&mut serde_json::Map<String, Value>),
    ) -> Result<(), Status> {
        let (namespace, name) = (object.key().namespace(), object.key().name());
        let changed = self.modify(resource, namespace, name, Write::by_owner(), &mut |mut present| {
            let uid =
                present.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Value::as_str);
            if uid != Some(object.uid()) {
                return Err(Status::not_found(resource.kind.resource_subject(), name));
            }
            change(&mut present);
            Ok(present)
        });
        changed.map(drop)
    }

    fn finish_pod(&self, key: &crate::storage::Key, uid: &str) {
        let registry = self.registry();
        let Some(pods) = registry.get("", "v1", "pods") else { return };
        let preconditions = Preconditions { uid: Some(uid.to_owned()), version: None };
        let options = DeleteOptions { preconditions, grace: Some(0), ..DeleteOptions::default() };
        // The pod is gone, or another pod has its name.
        let _ = self.delete(pods, key.namespace(), key.name(), &options);
    }

    fn report_other_namespace(&self, resource: &Resource, object: &Stored, owner: &OwnerReference) {
        let registry = self.registry();
        let Some(kind) = registry.of_kind(&owner.api_version, &owner.kind) else { return };
        if kind.kind.namespaced && self.is_elsewhere(kind, owner, object.key().namespace()) {
            self.report_namespace(resource, object, owner);
        }
    }
}
