//! CustomResourceDefinitions: the resources that they add and remove.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::registry::{
    Claim, Conditions, Conversion, Definition, Kind, Registry, Resource, Revision, definition,
};
use crate::schema::Changed;
use crate::status::Status;
use crate::storage::{Change, Key, Outcome, ResourceStore, Stored};

use super::{Api, DryRun, Object, Origin, Part, Write, metadata};

/// The stored objects of a resource whose definition is written.
struct Former {
    mixed: bool,
    was_revised: bool,
    changed_at: u64,
    /// The former storage version; `None` if there are no states of objects.
    schema: Option<Arc<Resource>>,
}

impl Former {
    /// `old` are the former resources.
    fn of(old: &[Arc<Resource>], store: &ResourceStore, storage: &Kind, now: u64) -> Self {
        let changed_at = old.iter().map(|resource| resource.changed_at).max().unwrap_or(0);
        let has_former = store.has_states_until(changed_at);
        let has_states = store.has_states_until(u64::MAX);
        let stored = old.iter().find(|resource| resource.conversion.is_none());
        let is_moved = stored.is_none_or(|old| old.kind.version != storage.version);
        let is_other = is_moved || stored.is_some_and(|old| !is_same(storage, &old.kind));
        Self {
            mixed: has_former && old.iter().any(|resource| resource.mixed)
                || has_states && !old.is_empty() && is_moved,
            was_revised: has_former && old.iter().any(|resource| resource.is_revised),
            changed_at: if !old.is_empty() && is_other { now } else { changed_at },
            schema: stored.or(old.first()).filter(|_| has_states).cloned(),
        }
    }

    /// Whether objects may be stored in the form of another schema than that of a version.
    fn is_revised(&self, kind: &Kind, storage: &Kind) -> bool {
        self.was_revised
            || !is_same(kind, storage)
            || self.schema.as_ref().is_some_and(|old| !is_same(kind, &old.kind))
    }
}

/// Whether two kinds have one schema.
fn is_same(a: &Kind, b: &Kind) -> bool {
    match (&a.checks, &b.checks) {
        (Some(a), Some(b)) => a.is_same(b),
        (None, None) => true,
        _ => false,
    }
}

impl Api {
    pub(super) fn create_definition(
        &self,
        resource: &Resource,
        mut object: Object,
        write: Write<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let _definitions = self.definitions.lock();
        let definition = self.define(&mut object, None, write)?;
        let key = Self::key(resource, "", metadata::text(&object, "name"));
        self.record_created(resource, &mut object, None, write);
        let object = Self::validate(resource, None, object, write)?;
        let stored = self.insert(resource, &key, object, write)?;
        if write.dry_run == DryRun::No {
            self.serve_definition(definition);
        }
        Ok(stored)
    }

    /// Completes a definition, and returns what it defines. The lock of definitions is held.
    pub(super) fn define(
        &self,
        object: &mut Object,
        before: Option<&Object>,
        write: Write<'_>,
    ) -> Result<Definition, Status> {
        let changed = if write.part == Part::Status { Changed::Status } else { Changed::Object };
        let conditions = match write.origin {
            Origin::Client => Conditions::Set,
            Origin::Owner => Conditions::Given,
        };
        let group = object.get("spec").and_then(|spec| spec.get("group")).and_then(Value::as_str);
        let (registry, group) = (self.registry(), group.unwrap_or("").to_owned());
        let claimed = registry.claims(&group).map(|(_, claim)| &claim.names);
        let defined = definition(
            object,
            Revision { before, changed, conditions, now: &self.clock.rfc3339() },
            claimed,
        )?;
        Self::settle_numbers(object);
        Ok(defined)
    }

    /// Serves the resources of a definition, unless they are in an API version of built-in kinds. Existing objects are kept.
    pub(super) fn serve_definition(&self, definition: Definition) {
        let Definition { group, plural, .. } = &definition;
        let (group, plural) = (group.clone(), plural.clone());
        let old = self
            .registry()
            .claims(&group)
            .find(|(other, _)| *other == plural)
            .map(|(_, claim)| claim.clone());
        let names = definition.names.clone();
        let claim = Claim { names: names.clone(), is_complete: definition.has_all_names };
        self.change_registry(|registry| registry.claim(&group, &plural, Some(claim)));
        if definition.is_established {
            self.serve(definition);
        }
        if old.is_some_and(|old| old.names != names) {
            self.accept_names(&group);
        }
    }

    fn serve(&self, definition: Definition) {
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
            let former = Former::of(&old, &store, &definition.storage, registry.versions.current());
            let Former { mixed, changed_at, .. } = former;
            let revised: Vec<bool> = std::iter::once(&definition.storage)
                .filter(|_| definition.storage_served)
                .chain(&definition.others)
                .map(|kind| former.is_revised(kind, &definition.storage))
                .collect();
            let storage = definition.storage_served.then_some((definition.storage, None));
            let others = definition.others.into_iter().map(|kind| (kind, Some(Conversion::Rename)));
            for ((kind, conversion), is_revised) in storage.into_iter().chain(others).zip(revised) {
                if !registry.is_builtin(&kind.group, &kind.version) {
                    let store = store.clone();
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
        self.change_registry(|registry| {
            gone = registry.remove(group, plural);
            registry.claim(group, plural, None);
        });
        self.accept_names(group);
        let Some(resource) = gone.first() else { return };
        for key in resource.store.snapshot().objects.keys() {
            let _ = resource.store.write(key, |present| {
                Ok(present.map_or(Change::Keep, |present| Change::Remove(present.parse())))
            });
        }
        resource.store.close();
    }

    /// Gives definitions of a group the names that they request and others no longer have. The lock of definitions is held.
    fn accept_names(&self, group: &str) {
        let registry = self.registry();
        let Some(resource) = registry.get("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
            return;
        };
        let waiting = registry.claims(group).filter(|(_, claim)| !claim.is_complete);
        for (plural, _) in waiting {
            let key = Key::new("", &format!("{plural}.{group}"));
            let mut defined = None;
            let write = Write { origin: Origin::Client, part: Part::Status, ..Write::by_owner() };
            // a definition may take long to validate, so that it is not done under the lock
            let outcome = resource.store.rewrite(&key, |present| {
                let Some(present) = present else { return Ok(Change::Keep) };
                let mut object = present.parse();
                defined = Some(self.define(&mut object, None, write)?);
                Ok(if object == present.parse() { Change::Keep } else { Change::Put(object) })
            });
            if let (Ok(Outcome::Stored(_)), Some(definition)) = (outcome, defined) {
                self.serve_definition(definition);
            }
        }
    }

    fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = Registry::clone(&self.registry());
        change(&mut registry);
        *self.registry.write() = Arc::new(registry);
    }
}
