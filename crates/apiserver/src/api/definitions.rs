//! CustomResourceDefinitions: the resources that they add and remove.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::registry::{Conversion, Definition, Kind, Registry, Resource, definition};
use crate::status::Status;
use crate::storage::{Change, ResourceStore, Stored};

use super::{Api, DryRun, Object, Write, metadata};

impl Api {
    pub(super) fn create_definition(
        &self,
        resource: &Resource,
        mut object: Object,
        write: Write<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let _definitions = self.definitions.lock();
        let definition = definition(&mut object, None, &self.clock.rfc3339())?;
        let key = Self::key(resource, "", metadata::text(&object, "name"));
        self.record_created(resource, &mut object, write);
        let stored = self.insert(resource, &key, object, write)?;
        if write.dry_run == DryRun::No {
            self.serve_definition(definition);
        }
        Ok(stored)
    }

    /// Serves the resources of a definition, unless they are in an API version of built-in kinds. Existing objects are kept.
    pub(super) fn serve_definition(&self, definition: Definition) {
        self.change_registry(|registry| {
            let old = registry.remove(&definition.group, &definition.plural);
            let store = match old.first() {
                Some(resource) => resource.store.clone(),
                None => {
                    let fields = definition.storage.fields.clone();
                    let store = ResourceStore::new(registry.versions.clone(), fields, self.settings.window);
                    Arc::new(match &registry.observer {
                        Some(observer) => {
                            let id = self.next_store.fetch_add(1, Ordering::Relaxed);
                            store.observed_by(observer.clone(), id)
                        }
                        None => store,
                    })
                }
            };
            let stored = old.iter().find(|resource| resource.conversion.is_none());
            let mixed = old.iter().any(|resource| resource.mixed)
                || !old.is_empty() && stored.is_none_or(|old| old.kind.version != definition.storage.version);
            let was_revised = old.iter().any(|resource| resource.is_revised);
            let is_same = |a: &Kind, b: &Kind| match (&a.checks, &b.checks) {
                (Some(a), Some(b)) => a.is_same(b),
                (None, None) => true,
                _ => false,
            };
            let has_changed = |kind: &Kind| {
                was_revised
                    || !is_same(kind, &definition.storage)
                    || stored.or(old.first()).is_some_and(|old| !is_same(kind, &old.kind))
            };
            let revised: Vec<bool> = std::iter::once(&definition.storage)
                .filter(|_| definition.storage_served)
                .chain(&definition.others)
                .map(has_changed)
                .collect();
            let storage = definition.storage_served.then_some((definition.storage, None));
            let others = definition.others.into_iter().map(|kind| (kind, Some(Conversion::Rename)));
            for ((kind, conversion), is_revised) in storage.into_iter().chain(others).zip(revised) {
                if !registry.is_builtin(&kind.group, &kind.version) {
                    let store = store.clone();
                    registry.insert(Arc::new(Resource { kind, store, conversion, mixed, is_revised }));
                }
            }
        });
        self.graph.retry_unresolved();
    }

    pub(super) fn stop_serving_definition(&self, stored: &Stored) {
        let object = stored.parse();
        let spec = object.get("spec");
        let group = spec.and_then(|spec| spec.get("group")).and_then(Value::as_str).unwrap_or("");
        let plural =
            spec.and_then(|spec| spec.pointer("/names/plural")).and_then(Value::as_str).unwrap_or("");
        self.stop_serving(group, plural);
    }

    /// Deletes all objects of a resource regardless of finalizers, ends its watches and stops serving it.
    pub(super) fn stop_serving(&self, group: &str, plural: &str) {
        let mut gone = Vec::new();
        self.change_registry(|registry| gone = registry.remove(group, plural));
        let Some(resource) = gone.first() else { return };
        for key in resource.store.snapshot().objects.keys() {
            let _ = resource.store.write(key, |present| {
                Ok(present.map_or(Change::Keep, |present| Change::Remove(present.parse())))
            });
        }
        resource.store.close();
    }

    fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = Registry::clone(&self.registry());
        change(&mut registry);
        *self.registry.write() = Arc::new(registry);
    }
}
