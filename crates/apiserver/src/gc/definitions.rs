//! The finalizer of CustomResourceDefinitions: deletes the objects of a terminating definition, and then the definition.

use std::sync::Arc;

use serde_json::Value;

use crate::api::{Api, CLEANUP, DeleteOptions, set_terminating};
use crate::registry::Resource;
use crate::storage::{Key, Stored};

impl Api {
    /// Deletes the objects of a terminating definition, and the definition when there are none.
    ///
    /// Follows Kubernetes 1.37 (`CRDFinalizer.sync`). What remains is not deleted again after some time, but when an
    /// object of the definition is removed.
    pub(super) fn finish_definition(&self, name: &str) {
        let registry = self.registry();
        let Some(definitions) =
            registry.get("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned()
        else {
            return;
        };
        let Some(definition) = definitions.store.get(&Key::new("", name)) else { return };
        if !definition.is_terminating() || !has_cleanup(&definition) {
            return;
        }
        // The only possible error of these changes is that the definition is gone.
        let _ = self.change(&definitions, &definition, |present| {
            let message = "CustomResource deletion is in progress";
            set_terminating(present, "True", "InstanceDeletionInProgress", message, &self.clock);
        });
        let objects =
            registry.stored().find(|resource| resource.kind.custom && definition_name(resource) == name);
        if let Some(objects) = objects {
            for key in objects.store.snapshot().objects.keys() {
                // The object is gone or waits for its finalizers.
                let _ = self.delete(objects, key.namespace(), key.name(), &DeleteOptions::default());
            }
            if objects.store.len() > 0 {
                return;
            }
        }
        let _ = self.change(&definitions, &definition, |present| {
            set_terminating(
                present,
                "False",
                "InstanceDeletionCompleted",
                "removed all instances",
                &self.clock,
            );
            if let Some(Value::Array(finalizers)) =
                present.get_mut("metadata").and_then(|metadata| metadata.get_mut("finalizers"))
            {
                finalizers.retain(|finalizer| finalizer != CLEANUP);
            }
        });
    }

    /// Queues the definition of a resource from which an object was removed, if it is terminating.
    pub(crate) fn queue_definition(&self, resource: &Resource) {
        if self.is_definition_terminating(resource) {
            self.graph.push(super::Work::Definition(definition_name(resource).into()));
        }
    }

    /// Whether the resource belongs to a definition that is being deleted.
    pub(crate) fn is_definition_terminating(&self, resource: &Resource) -> bool {
        let registry = self.registry();
        let definitions = registry.get("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let definition: Option<Arc<Stored>> = definitions
            .filter(|_| resource.kind.custom)
            .and_then(|definitions| definitions.store.get(&Key::new("", &definition_name(resource))));
        definition.is_some_and(|definition| definition.is_terminating())
    }
}

fn definition_name(resource: &Resource) -> String {
    format!("{}.{}", resource.kind.plural, resource.kind.group)
}

fn has_cleanup(definition: &Stored) -> bool {
    let definition = definition.parse();
    let finalizers = definition.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    finalizers.and_then(Value::as_array).is_some_and(|list| list.iter().any(|finalizer| finalizer == CLEANUP))
}
