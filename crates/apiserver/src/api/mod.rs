//! What the API does, without HTTP: the rules of create, update, patch and delete over the storage.

mod create;
mod definitions;
mod delete;
mod metadata;
mod namespace_rules;
mod namespaces;
mod pods;
mod scale;
mod update;
mod view;

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use crate::clock::Clock;
use crate::registry::{Conversion, Registry, Resource};
use crate::status::Status;
use crate::storage::{Key, Stored, Versions};

pub(crate) use delete::{DeleteOptions, Deleted};
pub(crate) use pods::{bind, evict};
pub(crate) use scale::{apply_scale, scale_of};
pub(crate) use view::{ListItem, converted, write_object};

/// What happens to objects whose namespace does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceLifecycle {
    /// They are refused with 404, as Kubernetes does.
    #[default]
    Enforce,
    /// The namespace is made.
    AutoCreate,
}

/// Whether a write is only tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DryRun {
    #[default]
    No,
    All,
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client, held to the rules: the status is written through its subresource only.
    Client,
    /// The owner of this server, in process: the object is taken as it is.
    Owner,
}

/// Which part of an object a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Object,
    Status,
    /// The finalizers in a namespace's spec.
    Finalize,
}

/// A part of an object to write and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) origin: Origin,
    pub(crate) part: Part,
    pub(crate) dry_run: DryRun,
}

impl Write {
    pub(crate) fn of(part: Part, dry_run: DryRun) -> Self {
        Self { origin: Origin::Client, part, dry_run }
    }

    pub(crate) fn by_owner() -> Self {
        Self { origin: Origin::Owner, part: Part::Object, dry_run: DryRun::No }
    }
}

pub(crate) type Object = Map<String, Value>;

/// All that the API holds.
pub(crate) struct Api {
    pub(crate) versions: Arc<Versions>,
    registry: RwLock<Arc<Registry>>,
    /// Held while definitions change what is served; never while an object is written.
    definitions: Mutex<()>,
    pub(crate) clock: Clock,
    lifecycle: NamespaceLifecycle,
    history: usize,
}

impl Api {
    pub(crate) fn new(
        lifecycle: NamespaceLifecycle,
        history: usize,
        first_version: Option<u64>,
    ) -> Result<Self, Status> {
        let clock = Clock::start();
        let versions = Arc::new(Versions::starting_at(first_version.unwrap_or_else(|| clock.microseconds())));
        let registry = Registry::builtin(&versions, history);
        let api = Self {
            versions,
            registry: RwLock::new(Arc::new(registry)),
            definitions: Mutex::new(()),
            clock,
            lifecycle,
            history,
        };
        api.make_builtin_namespaces()?;
        Ok(api)
    }

    /// What is served now. O(1); later changes do not show in it.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    pub(crate) fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
        Key::new(if resource.kind.namespaced { namespace } else { "" }, name)
    }

    /// # Errors
    /// 404 when there is none.
    pub(crate) fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored>, Status> {
        resource
            .store
            .get(&Self::key(resource, namespace, name))
            .ok_or_else(|| Status::not_found(resource.kind.resource_subject(), name))
    }

    /// The stored object as this resource's version serves it, parsed.
    pub(crate) fn served(resource: &Resource, stored: &Stored) -> Object {
        let mut object = stored.parse();
        if let Some(conversion) = resource.conversion.or(resource.mixed.then_some(Conversion::Rename)) {
            conversion.to_served(&mut object, &resource.kind.api_version());
        }
        object
    }

    /// An object of this resource's version as it is stored.
    fn to_stored(&self, resource: &Resource, object: &mut Object) {
        let Some(conversion) = resource.conversion else { return };
        let registry = self.registry();
        let stored = registry.stored().find(|other| Arc::ptr_eq(&other.store, &resource.store));
        if let Some(stored) = stored {
            conversion.to_stored(object, &stored.kind.api_version());
        }
    }

    /// Forgets the history of every resource.
    pub(crate) fn compact(&self) {
        for resource in self.registry().stored() {
            resource.store.compact();
        }
    }
}
