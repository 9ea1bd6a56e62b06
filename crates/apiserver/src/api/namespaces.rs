//! Namespaces: their creation, and the objects that they take.

use serde_json::json;

use crate::registry::Resource;
use crate::status::{Cause, Status};

use super::{Api, NamespaceLifecycle, Write};

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
                let cause = Cause {
                    reason: "NamespaceTerminating",
                    message: format!("namespace {namespace} is being terminated"),
                    field: Some("metadata.namespace".into()),
                };
                Err(Status::forbidden(resource.kind.resource_subject(), name, &why).because(cause))
            }
            Some(_) => Ok(()),
            None if self.settings.lifecycle == NamespaceLifecycle::AutoCreate => {
                self.make_namespace(namespace)
            }
            None => Err(Status::not_found(namespaces.kind.resource_subject(), namespace)),
        }
    }

    /// Queues the namespace and the definition of a removed object, if they are terminating.
    pub(super) fn after_removal(&self, resource: &Resource, namespace: &str) {
        if resource.kind.namespaced {
            self.queue_namespace(namespace);
        }
        if resource.kind.custom {
            self.queue_definition(resource);
        }
    }
}
