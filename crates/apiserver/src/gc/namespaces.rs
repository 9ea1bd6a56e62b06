//! The namespace controller: deletes the content of a terminating namespace, and then the namespace.

use std::sync::Arc;

use serde_json::Value;

use crate::api::{Api, DeleteOptions, Part, Propagation, Write, spec_finalizers};
use crate::registry::Resource;
use crate::status::Status;
use crate::storage::{Key, Stored};

use super::namespace_status::{Remaining, conditions};

/// The entry of `spec.finalizers` that the namespace controller removes.
const CONTENT: &str = "kubernetes";

impl Api {
    /// Deletes the content of a terminating namespace: pods first, the rest when there are no pods. Deletes the
    /// namespace when it is empty.
    ///
    /// Follows Kubernetes 1.37 (`namespacedResourcesDeleter`). What remains is not deleted again after some time, but
    /// when an object of the namespace is removed.
    pub(super) fn finish_namespace(&self, name: &str) {
        let registry = self.registry();
        let Some(namespaces) = registry.get("", "v1", "namespaces") else { return };
        let Some(namespace) = namespaces.store.get(&Key::new("", name)) else { return };
        if !namespace.is_terminating() || spec_finalizers(&namespace.parse()).is_empty() {
            return;
        }
        let mut remaining = Remaining::default();
        let is_pods = |resource: &Resource| resource.kind.is("", "pods");
        let inside = || registry.stored().filter(|resource| resource.kind.namespaced);
        inside().filter(|resource| is_pods(resource)).for_each(|pods| {
            self.delete_content(pods, name, &mut remaining);
        });
        if remaining.is_empty() {
            inside().filter(|resource| !is_pods(resource)).for_each(|resource| {
                self.delete_content(resource, name, &mut remaining);
            });
        }
        // The only possible error is that the namespace is gone.
        let _ = self.set_conditions(namespaces, &namespace, &remaining);
        if remaining.is_empty() {
            let _ = self.finalize(namespaces, &namespace);
        }
    }

    fn delete_content(&self, resource: &Arc<Resource>, namespace: &str, remaining: &mut Remaining) {
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        for stored in content(resource, namespace) {
            if let Err(status) = self.delete(resource, namespace, stored.key().name(), &options)
                && status.code() != 404
            {
                remaining.fail(&status);
            }
        }
        for stored in content(resource, namespace) {
            remaining.add(resource, &stored);
        }
    }

    fn set_conditions(
        &self,
        namespaces: &Arc<Resource>,
        namespace: &Stored,
        remaining: &Remaining,
    ) -> Result<(), Status> {
        let now = self.clock.rfc3339();
        self.change(namespaces, namespace, |present| {
            if let Some(Value::Object(status)) = present.get_mut("status") {
                conditions(status, remaining, &now);
            }
        })
    }

    /// Removes the finalizer of the content.
    fn finalize(&self, namespaces: &Arc<Resource>, namespace: &Stored) -> Result<(), Status> {
        let write = Write { part: Part::Finalize, ..Write::by_owner() };
        let finalized = self.modify(namespaces, "", namespace.key().name(), write, &mut |mut present| {
            if let Some(Value::Array(finalizers)) =
                present.get_mut("spec").and_then(|spec| spec.get_mut("finalizers"))
            {
                finalizers.retain(|finalizer| finalizer != CONTENT);
            }
            Ok(present)
        });
        finalized.map(drop)
    }

    /// Queues a namespace from which an object was removed, if it is terminating.
    pub(crate) fn queue_namespace(&self, name: &str) {
        let registry = self.registry();
        let Some(namespaces) = registry.get("", "v1", "namespaces") else { return };
        if namespaces.store.get(&Key::new("", name)).is_some_and(|stored| stored.is_terminating()) {
            self.graph.push(super::Work::Namespace(name.into()));
        }
    }
}

/// Returns the objects of a namespace.
fn content(resource: &Resource, namespace: &str) -> Vec<Arc<Stored>> {
    let objects = resource.store.snapshot().objects;
    let start = Key::raw(&format!("{namespace}/"));
    let inside = objects.range(start..).take_while(|(key, _)| key.namespace() == namespace);
    inside.map(|(_, stored)| stored.clone()).collect()
}
