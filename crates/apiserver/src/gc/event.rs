//! The event that reports an owner in another namespace.

use serde_json::json;

use crate::api::{Api, Write};
use crate::registry::Resource;
use crate::storage::{Key, OwnerReference, Stored};

impl Api {
    /// Whether the owner exists under its name in another namespace. O(namespaces).
    pub(super) fn is_elsewhere(&self, kind: &Resource, owner: &OwnerReference, namespace: &str) -> bool {
        let registry = self.registry();
        let Some(namespaces) = registry.get("", "v1", "namespaces") else { return false };
        let namespaces = namespaces.store.snapshot().objects;
        namespaces.keys().map(Key::name).filter(|other| *other != namespace).any(|other| {
            let found = kind.store.get(&Key::new(other, &owner.name));
            found.is_some_and(|found| found.uid() == &*owner.uid)
        })
    }

    /// Creates the event of an object that refers to an owner in another namespace.
    ///
    /// Follows Kubernetes 1.37 (`GraphBuilder.reportInvalidNamespaceOwnerRef`).
    pub(super) fn report_namespace(&self, resource: &Resource, object: &Stored, owner: &OwnerReference) {
        let registry = self.registry();
        let Some(kind) = registry.of_kind(&owner.api_version, &owner.kind) else { return };
        let (key, namespace) = (object.key(), object.key().namespace());
        if !self.is_elsewhere(kind, owner, namespace) {
            return;
        }
        let Some(events) = registry.get("", "v1", "events") else { return };
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in \
             namespace {namespace:?}"
        );
        let mut involved = json!({"kind": resource.kind.kind, "apiVersion": resource.kind.api_version(),
            "name": key.name(), "uid": object.uid()});
        if !namespace.is_empty()
            && let Some(involved) = involved.as_object_mut()
        {
            involved.insert("namespace".into(), namespace.into());
        }
        let home = if namespace.is_empty() { "default" } else { namespace };
        let now = self.clock.rfc3339();
        let event = json!({
            "metadata": {"name": format!("{}.{:x}", key.name(), self.clock.microseconds()), "namespace": home},
            "involvedObject": involved, "reason": "OwnerRefInvalidNamespace", "message": message, "type": "Warning",
            "source": {"component": "garbage-collector-controller"}, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now, "eventTime": null,
            "reportingComponent": "garbage-collector-controller", "reportingInstance": "",
        });
        // An event that exists already, or whose namespace ends, is not needed.
        let _ = self.create(events, home, event.as_object().cloned().unwrap_or_default(), Write::by_owner());
    }
}
