//! The API without HTTP: the rules of create, update, patch and delete on top of the storage.

mod admit;
mod apply;
mod builtin;
mod create;
mod definition_rules;
mod definitions;
mod delete;
mod delete_options;
mod deletion;
mod managers;
mod metadata;
mod namespace_rules;
mod namespaces;
mod object_rules;
mod pod_rules;
mod pods;
mod rewrite;
mod scale;
mod schemas;
mod state;
mod update;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use crate::access::Seen;
use crate::admission::Session;
use crate::builtin::Validation;
use crate::clock::Clock;
use crate::gc::{GarbageCollection, Graph, Kubelets};
use crate::registry::{Kind, Observer, Registry, Resource};
use crate::status::Status;
use crate::storage::{Activity, Key, Stored, Versions, Window};

pub(crate) use admit::differ;
pub(crate) use apply::Applied;
pub(crate) use definition_rules::{CLEANUP, set_terminating};
pub(crate) use delete::Deleted;
pub(crate) use delete_options::{DeleteOptions, Preconditions, Propagation};
pub(crate) use metadata::{FIELDS as METADATA_FIELDS, check_type};
pub(crate) use namespace_rules::spec_finalizers;
pub(crate) use pods::{bind, evict};
pub(crate) use scale::{ScaleWrite, check_scale, read_scale, scale_kind, scale_of};
pub(crate) use state::{Clients, State};
pub(crate) use view::{ListItem, converted, selects, write_object};

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
    /// The in-process API of the server: objects are stored as they are, if their schema allows that.
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
    pub(crate) form: Form,
    /// Where warnings about the written object go.
    pub(crate) warnings: Option<&'a Mutex<Vec<String>>>,
    /// What webhooks have answered; `None` if none is called.
    pub(crate) session: Option<&'a Session>,
    /// Checks the rights that the object grants; `None` to check none.
    pub(crate) grants: Option<GrantCheck<'a>>,
}

/// A check of the object of a write, after the mutating webhooks and before it is validated, with the present one.
#[derive(Clone, Copy)]
pub(crate) struct GrantCheck<'a>(pub(crate) &'a CheckOf<'a>);

type CheckOf<'a> = dyn Fn(Option<&Object>, &Object) -> Result<(), Status> + 'a;

impl std::fmt::Debug for GrantCheck<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GrantCheck")
    }
}

/// The manager of writes by the in-process API.
const OWNER: &str = "kinformer-apiserver";

/// The entries of `managedFields` after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// The write is recorded.
    Recorded,
    /// The object of the write has them already.
    Given,
    /// The write was recorded before the webhooks that have changed its object.
    Admitted,
}

/// The form of the object of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Raw,
    /// A custom resource has been pruned and defaulted.
    Decoded,
}

impl<'a> Write<'a> {
    pub(crate) fn of(part: Part, dry_run: DryRun, manager: &'a str) -> Self {
        let (entries, form) = (Entries::Recorded, Form::Raw);
        Self {
            origin: Origin::Client,
            part,
            dry_run,
            manager,
            entries,
            form,
            warnings: None,
            session: None,
            grants: None,
        }
    }
}

impl Write<'_> {
    fn check_grants(&self, before: Option<&Object>, after: &Object) -> Result<(), Status> {
        self.grants.map_or(Ok(()), |GrantCheck(check)| check(before, after))
    }

    pub(crate) fn by_owner() -> Self {
        Self {
            origin: Origin::Owner,
            part: Part::Object,
            dry_run: DryRun::No,
            manager: OWNER,
            entries: Entries::Recorded,
            form: Form::Raw,
            warnings: None,
            session: None,
            grants: None,
        }
    }
}

pub(crate) type Object = Map<String, Value>;

/// How the API behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) lifecycle: NamespaceLifecycle,
    pub(crate) window: Window,
    pub(crate) first_version: Option<u64>,
    pub(crate) garbage_collection: GarbageCollection,
    pub(crate) kubelets: Kubelets,
    /// Whether service accounts are created, and cluster roles aggregated.
    pub(crate) access_controllers: bool,
    pub(crate) validation: Validation,
}

/// The complete state of the API.
pub(crate) struct Api {
    registry: RwLock<Arc<Registry>>,
    /// Serializes changes of the served resources. Never held while an object is written.
    definitions: Mutex<()>,
    pub(crate) clock: Clock,
    settings: Settings,
    /// The owners and dependents, and the work that follows from deletions.
    pub(crate) graph: Arc<Graph>,
    /// Held by the thread that does this work. Never held while another lock is acquired by a caller of the API.
    pub(crate) finishing: Mutex<()>,
    /// What the controllers of access have done.
    pub(crate) access: Seen,
    next_store: AtomicU32,
    /// Whether objects may be stored without defaults: the state is that of a server with another setting.
    has_incomplete: AtomicBool,
    /// Held for reading by each write until what follows from it is done, and for writing while the whole state is read or
    /// replaced. The first lock that is acquired.
    writing: RwLock<()>,
    /// Signalled by each write, and when the state is replaced.
    pub(crate) activity: Activity,
}

impl Api {
    pub(crate) fn new(settings: Settings) -> Result<Self, Status> {
        let clock = Clock::start();
        let first = settings.first_version.unwrap_or_else(|| clock.microseconds());
        let activity = Activity::default();
        let versions = Arc::new(Versions::new(first, activity.clone()));
        let graph = Arc::new(Graph::default());
        let collects = settings.garbage_collection == GarbageCollection::On;
        let observer = collects.then(|| graph.clone() as Observer);
        let registry = Registry::builtin(&versions, settings.window, observer);
        let next_store = registry.iter().count();
        let api = Self {
            registry: RwLock::new(Arc::new(registry)),
            definitions: Mutex::new(()),
            clock,
            settings,
            graph,
            finishing: Mutex::new(()),
            access: Seen::new(settings.access_controllers),
            next_store: AtomicU32::new(u32::try_from(next_store).unwrap_or(u32::MAX)),
            has_incomplete: AtomicBool::new(false),
            writing: RwLock::new(()),
            activity,
        };
        api.make_builtin_namespaces()?;
        Ok(api)
    }

    /// Whether objects are deleted with their owners.
    pub(crate) fn collects(&self) -> bool {
        self.registry.read().observer.is_some()
    }

    pub(crate) fn has_kubelets(&self) -> bool {
        self.settings.kubelets == Kubelets::Simulated
    }

    /// Whether objects of this kind have a grace period.
    fn is_graceful(&self, kind: &Kind) -> bool {
        kind.is("", "pods") && self.settings.kubelets != Kubelets::Skipped
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
        Self::as_served(resource, stored.parse())
    }

    /// As [`Self::served`], with packed entries of managers.
    fn served_packed(resource: &Resource, stored: &Stored) -> Object {
        Self::as_served(resource, stored.parse_packed())
    }

    fn as_served(resource: &Resource, mut object: Object) -> Object {
        if resource.kind.custom {
            Self::revise(resource, &mut object);
        } else if let Some(conversion) = resource.conversion {
            conversion.to_served(&mut object, &resource.kind.api_version());
        }
        object
    }

    /// Converts an object of the resource's version to the stored version.
    ///
    /// # Errors
    /// That of a conversion webhook.
    fn to_stored(&self, resource: &Resource, object: &mut Object, write: Write<'_>) -> Result<(), Status> {
        if resource.kind.custom {
            return Self::store_form(resource, object, write);
        }
        let Some(conversion) = resource.conversion else { return Ok(()) };
        let registry = self.registry();
        let stored = registry.stored().find(|other| Arc::ptr_eq(&other.store, &resource.store));
        if let Some(stored) = stored {
            conversion.to_stored(object, &stored.kind.api_version());
        }
        Ok(())
    }

    /// Runs a write and what follows from it: garbage collection, the end of namespaces. Until then, the whole state is
    /// neither read nor replaced. Not reentrant.
    pub(crate) fn writes<T>(&self, write: impl FnOnce() -> T) -> T {
        let _writing = self.writing.read();
        let result = write();
        self.finish_deletions();
        self.finish_access();
        result
    }

    /// Runs a read. Until then, the whole state is not replaced.
    pub(crate) fn reads<T>(&self, read: impl FnOnce() -> T) -> T {
        let _reading = self.writing.read();
        read()
    }

    /// Drops the history of every resource.
    pub(crate) fn compact(&self) {
        for resource in self.registry().stored() {
            resource.store.compact();
        }
    }
}
