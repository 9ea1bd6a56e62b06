//! Creation and termination of namespaces.

use serde_json::{Value, json};

use crate::registry::Resource;
use crate::status::Status;
use crate::storage::Change;

use super::{Api, DeleteOptions, NamespaceLifecycle, Write, metadata};

/// The namespaces that every cluster has.
const BUILTIN: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Api {
    /// # Errors
    /// The error that a client would receive for creating them.
    pub(super) fn make_builtin_namespaces(&self) -> Result<(), Status> {
        BUILTIN.iter().try_for_each(|name| self.make_namespace(name))
    }

    fn make_namespace(&self, name: &str) -> Result<(), Status> {
        let registry = self.registry();
        let Some(resource) = registry.get("", "v1", "namespaces") else { return Ok(()) };
        let object = json!({"metadata": {"name": name}});
        let object = object.as_object().cloned().unwrap_or_default();
        match self.create(resource, "", object, Write::by_owner()) {
            Err(status) if status.reason() != "AlreadyExists" => Err(status),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// 404 for a missing namespace, 403 for a terminating one.
    pub(super) fn check_namespace_takes(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        let registry = self.registry();
        let Some(namespaces) = registry.get("", "v1", "namespaces") else { return Ok(()) };
        match namespaces.store.get(&Self::key(namespaces, "", namespace)) {
            Some(stored) if stored.is_terminating() => {
                let why = format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                );
                Err(Status::forbidden(resource.kind.resource_subject(), name, &why))
            }
            Some(_) => Ok(()),
            None if self.lifecycle == NamespaceLifecycle::AutoCreate => self.make_namespace(namespace),
            None => Err(Status::not_found(namespaces.kind.resource_subject(), namespace)),
        }
    }

    /// Deletes the contents of a terminating namespace, and then the namespace if it is empty.
    pub(super) fn empty_namespace(&self, namespace: &str) {
        for resource in self.registry().stored().filter(|resource| resource.kind.namespaced) {
            let start = crate::storage::Key::raw(&format!("{namespace}/"));
            let objects = resource.store.snapshot().objects;
            let inside =
                objects.range(start..).map(|(key, _)| key).take_while(|key| key.namespace() == namespace);
            for key in inside {
                // The object is gone or waits for finalizers; either way there is nothing more to do.
                let _ = self.delete(resource, namespace, key.name(), &DeleteOptions::default());
            }
        }
        self.finish_namespace(namespace);
    }

    /// Removes the namespace of a removed object if it is terminating and now empty.
    pub(super) fn after_removal(&self, resource: &Resource, namespace: &str) {
        if resource.kind.namespaced {
            self.finish_namespace(namespace);
        }
    }

    fn finish_namespace(&self, namespace: &str) {
        let registry = self.registry();
        let Some(namespaces) = registry.get("", "v1", "namespaces") else { return };
        let key = Self::key(namespaces, "", namespace);
        if !namespaces.store.get(&key).is_some_and(|stored| stored.is_terminating()) {
            return;
        }
        let start = crate::storage::Key::raw(&format!("{namespace}/"));
        let holds_something = registry.stored().filter(|resource| resource.kind.namespaced).any(|resource| {
            let objects = resource.store.snapshot().objects;
            objects.range(start.clone()..).next().is_some_and(|(key, _)| key.namespace() == namespace)
        });
        if holds_something {
            return;
        }
        // The only possible error is that the namespace is already gone.
        let _ = namespaces.store.write(&key, |present| match present {
            Some(present) if present.is_terminating() => {
                let mut object = present.parse();
                if let Some(Value::Object(spec)) = object.get_mut("spec") {
                    spec.remove("finalizers");
                }
                let leaves = metadata::finalizers(&object).is_empty();
                Ok(if leaves { Change::Remove(object) } else { Change::Keep })
            }
            _ => Ok(Change::Keep),
        });
    }
}
