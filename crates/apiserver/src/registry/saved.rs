//! The served resources and their objects, apart from a server.

use std::collections::HashMap;
use std::sync::Arc;

use imbl::OrdMap;

use crate::storage::{Key, ResourceStore, StoreId, Stored, Versions, Window};

use super::{Claims, Conversion, FieldPath, Kind, Observer, Registry, Resource};

/// The resources of a [`Registry`] and their objects, without their history.
pub(crate) struct SavedRegistry {
    /// Whether changes were observed.
    collects: bool,
    stores: Vec<SavedStore>,
    resources: Vec<SavedResource>,
    claims: Claims,
}

struct SavedStore {
    id: Option<StoreId>,
    fields: Vec<FieldPath>,
    objects: OrdMap<Key, Arc<Stored>>,
}

struct SavedResource {
    kind: Kind,
    conversion: Option<Conversion>,
    mixed: bool,
    is_revised: bool,
    changed_at: u64,
    /// The position of the store.
    store: usize,
}

impl Registry {
    /// Returns all resources with their objects. O(resources).
    pub(crate) fn save(&self) -> SavedRegistry {
        let mut positions = HashMap::new();
        let mut stores = Vec::new();
        let mut resources = Vec::new();
        for resource in self.iter() {
            let store = *positions.entry(Arc::as_ptr(&resource.store)).or_insert_with(|| {
                let (id, fields) = (resource.store.id(), resource.store.fields().to_vec());
                stores.push(SavedStore { id, fields, objects: resource.store.snapshot().objects });
                stores.len() - 1
            });
            let Resource { kind, conversion, mixed, is_revised, changed_at, .. } = &**resource;
            resources.push(SavedResource {
                kind: kind.clone(),
                conversion: *conversion,
                mixed: *mixed,
                is_revised: *is_revised,
                changed_at: *changed_at,
                store,
            });
        }
        SavedRegistry { collects: self.observer.is_some(), stores, resources, claims: self.claims.clone() }
    }
}

impl SavedRegistry {
    /// Returns the resources with stores of their own, which share the objects. The observer gets the later changes, if
    /// the saved ones had an observer. O(resources).
    pub(crate) fn load(&self, versions: &Arc<Versions>, window: Window, observer: &Observer) -> Registry {
        let observer = self.collects.then_some(observer);
        let store = |saved: &SavedStore| {
            let store = ResourceStore::new(versions.clone(), saved.fields.clone(), window);
            let store = store.with_objects(saved.objects.clone());
            Arc::new(match (observer, saved.id) {
                (Some(observer), Some(id)) => store.observed_by(observer.clone(), id),
                _ => store,
            })
        };
        let stores: Vec<Arc<ResourceStore>> = self.stores.iter().map(store).collect();
        let mut registry = Registry::empty(versions.clone(), observer.cloned());
        registry.claims = self.claims.clone();
        for SavedResource { kind, conversion, mixed, is_revised, changed_at, store } in &self.resources {
            if let Some(store) = stores.get(*store).cloned() {
                let (kind, conversion) = (kind.clone(), *conversion);
                let (mixed, is_revised, changed_at) = (*mixed, *is_revised, *changed_at);
                registry.insert(Arc::new(Resource {
                    kind,
                    store,
                    conversion,
                    mixed,
                    is_revised,
                    changed_at,
                }));
            }
        }
        registry
    }
}
