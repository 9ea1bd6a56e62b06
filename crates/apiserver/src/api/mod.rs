//! The API without HTTP: the rules of create, update, patch and delete on top of the storage.

mod apply;
mod create;
mod definitions;
mod delete;
mod managers;
mod metadata;
mod namespace_rules;
mod namespaces;
mod pods;
mod rewrite;
mod scale;
mod update;
mod view;

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use crate::clock::Clock;
use crate::registry::{Conversion, Registry, Resource};
use crate::status::Status;
use crate::storage::{Key, Stored, Versions, Window};

pub(crate) use apply::Applied;
pub(crate) use delete::{DeleteOptions, Deleted};
pub(crate) use pods::{bind, evict};
pub(crate) use scale::{ScaleWrite, scale_of};
pub(crate) use view::{ListItem, converted, write_object};

/// How objects in a missing namespace are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceLifecycle {
    /// They are rejected with 404, as in Kubernetes.
    #[default]
    Enforce,
    /// The namespace is created.
    AutoCreate,
}

/// Whether a write is a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DryRun {
    #[default]
    No,
    All,
}

/// The origin of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client: all rules apply, and the status can only be written through its subresource.
    Client,
    /// The in-process API of the server: objects are stored as they are.
    Owner,
}

/// The part of an object that a write can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Object,
    Status,
    /// `spec.finalizers` of a namespace.
    Finalize,
}

/// How to write to a part of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) origin: Origin,
    pub(crate) part: Part,
    pub(crate) dry_run: DryRun,
    /// The manager of the fields that the write changes.
    pub(crate) manager: &'a str,
    pub(crate) entries: Entries,
}

/// The entries of `managedFields` after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// The write is recorded.
    Recorded,
    /// The object of the write has them already.
    Given,
}

impl<'a> Write<'a> {
    pub(crate) fn of(part: Part, dry_run: DryRun, manager: &'a str) -> Self {
        Self { origin: Origin::Client, part, dry_run, manager, entries: Entries::Recorded }
    }
}

impl Write<'_> {
    pub(crate) fn by_owner() -> Self {
        Self {
            origin: Origin::Owner,
            part: Part::Object,
            dry_run: DryRun::No,
            manager: managers::OWNER,
            entries: Entries::Recorded,
        }
    }
}

pub(crate) type Object = Map<String, Value>;

/// The complete state of the API.
pub(crate) struct Api {
    pub(crate) versions: Arc<Versions>,
    registry: RwLock<Arc<Registry>>,
    /// Serializes changes of the served resources. Never held while an object is written.
    definitions: Mutex<()>,
    pub(crate) clock: Clock,
    lifecycle: NamespaceLifecycle,
    window: Window,
}

impl Api {
    pub(crate) fn new(
        lifecycle: NamespaceLifecycle,
        window: Window,
        first_version: Option<u64>,
    ) -> Result<Self, Status> {
        let clock = Clock::start();
        let versions = Arc::new(Versions::starting_at(first_version.unwrap_or_else(|| clock.microseconds())));
        let registry = Registry::builtin(&versions, window);
        let api = Self {
            versions,
            registry: RwLock::new(Arc::new(registry)),
            definitions: Mutex::new(()),
            clock,
            lifecycle,
            window,
        };
        api.make_builtin_namespaces()?;
        Ok(api)
    }

    /// Returns the currently served resources. O(1); later changes do not affect it.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    pub(crate) fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
        Key::new(if resource.kind.namespaced { namespace } else { "" }, name)
    }

    /// # Errors
    /// 404 if the resource is not served.
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

    /// Returns a stored object, parsed and converted to the resource's version.
    pub(crate) fn served(resource: &Resource, stored: &Stored) -> Object {
        let mut object = stored.parse();
        if let Some(conversion) = resource.conversion.or(resource.mixed.then_some(Conversion::Rename)) {
            conversion.to_served(&mut object, &resource.kind.api_version());
        }
        object
    }

    /// Converts an object of the resource's version to the stored version.
    fn to_stored(&self, resource: &Resource, object: &mut Object) {
        let Some(conversion) = resource.conversion else { return };
        let registry = self.registry();
        let stored = registry.stored().find(|other| Arc::ptr_eq(&other.store, &resource.store));
        if let Some(stored) = stored {
            conversion.to_stored(object, &stored.kind.api_version());
        }
    }

    /// Drops the history of every resource.
    pub(crate) fn compact(&self) {
        for resource in self.registry().stored() {
            resource.store.compact();
        }
    }
}
