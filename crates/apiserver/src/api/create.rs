//! Creating objects.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::apply;
use crate::causes;
use crate::gc::{Node, Work};
use crate::registry::{Kind, Resource};
use crate::status::{Cause, Status};
use crate::storage::{Change, EventType, Key, Outcome, Stored};

use super::{Api, DryRun, Entries, NamespaceLifecycle, Object, Origin, Part, Write, metadata};

/// How often a generated name is regenerated when it is taken. Follows Kubernetes 1.37.
const NAME_ATTEMPTS: usize = 8;

impl Api {
    /// Creates an object.
    ///
    /// # Errors
    /// 400 for an object of another resource, 422 for invalid metadata, 404 for a missing namespace, 409 for an
    /// existing object. Nothing has changed then.
    pub(crate) fn create(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        mut object: Object,
        write: Write<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let kind = &resource.kind;
        metadata::check_type(&mut object, kind, write.origin)?;
        metadata::check_namespace(&mut object, resource, namespace)?;
        Self::decode_write(kind, &mut object, write)?;
        let is_applied = write.entries == Entries::Given;
        if !is_applied && write.origin == Origin::Client {
            apply::refuse_packed(&mut object);
        }
        if kind.namespaced && self.settings.lifecycle == NamespaceLifecycle::Enforce {
            self.check_namespace_takes(resource, namespace, metadata::text(&object, "name"))?;
        }
        let (mut object, write) = self.mutate_new(resource, object, write)?;
        write.check_grants(None, &object)?;
        metadata::check_namespace(&mut object, resource, namespace)?;
        let generate = metadata::text(&object, "generateName").to_owned();
        let generated = metadata::text(&object, "name").is_empty() && !generate.is_empty();
        let status = self.prepare(resource, &mut object, write.origin);
        self.complete_builtin(kind, &mut object);
        if !generated {
            return self.create_named(resource, namespace, object, status, write);
        }
        let mut result = Err(Status::already_exists(kind.resource_subject(), &generate));
        for _ in 0..NAME_ATTEMPTS {
            metadata::of(&mut object).insert("name".into(), format!("{generate}{}", name_suffix()).into());
            result = self.create_named(resource, namespace, object.clone(), status.clone(), write);
            if !matches!(&result, Err(status) if status.reason() == "AlreadyExists") {
                break;
            }
        }
        result
    }

    fn create_named(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        mut object: Object,
        status: Option<Value>,
        write: Write<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let kind = &resource.kind;
        let name = metadata::text(&object, "name").to_owned();
        let is_recorded = self.create_builtin(resource, &mut object, write);
        let faults = self.faults_of_new(kind, &name, &mut object, write);
        if !faults.is_empty() {
            return Err(Status::invalid(kind.kind_subject(), &name, faults));
        }
        self.warn_of_builtin(kind, &object, write);
        let version = metadata::of(&mut object).remove("resourceVersion");
        let version =
            version.as_ref().and_then(Value::as_str).and_then(|version| version.parse::<u64>().ok());
        // it is the storage that refuses it, which a dry run does not reach
        if version.is_some_and(|version| version != 0)
            && write.origin == Origin::Client
            && write.entries != Entries::Given
            && write.dry_run != DryRun::All
        {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        if kind.namespaced {
            self.check_namespace_takes(resource, namespace, &name)?;
        }
        if self.is_definition_terminating(resource) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(kind.resource_subject(), &name, why));
        }
        if kind.is("", "namespaces") {
            super::namespace_rules::complete(&mut object, &name);
        }
        if kind.is_definition() {
            return self.create_definition(resource, object, write);
        }
        if !self.has_builtin_rules(kind) {
            Self::drop_unset(resource, &mut object, write);
        }
        if kind.custom {
            Self::settle_numbers(&mut object);
        }
        let is_dropped = status.is_some();
        if !is_recorded {
            self.record_created(resource, &mut object, status, write);
        }
        if let Some(schema) = kind.checks.as_ref().filter(|_| is_dropped) {
            schema.set_defaults(&mut object);
        }
        let mut object = Self::validate(resource, None, object, write)?;
        let key = Self::key(resource, namespace, metadata::text(&object, "name"));
        self.to_stored(resource, &mut object, write)?;
        self.insert(resource, &key, object, write)
    }

    fn faults_of_new(&self, kind: &Kind, name: &str, object: &mut Object, write: Write<'_>) -> Vec<Cause> {
        let mut faults: Vec<Cause> = if name.is_empty() {
            vec![causes::required("metadata.name", "name or generateName is required")]
        } else {
            metadata::name_fault(kind, name).into_iter().collect()
        };
        if write.origin == Origin::Client {
            faults.extend(super::object_rules::faults(kind, object));
        }
        faults.extend(self.builtin_faults(kind, object, None, write));
        Self::add_schema_faults(kind, object, None, write, &mut faults);
        faults
    }

    /// Stores a complete object under an unused key.
    pub(super) fn insert(
        &self,
        resource: &Resource,
        key: &Key,
        object: Object,
        write: Write<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let taken = |present: &Stored| {
            let status = Status::already_exists(resource.kind.resource_subject(), key.name());
            if present.is_terminating() { status.prefixed("object is being deleted: ") } else { status }
        };
        if write.dry_run == DryRun::All {
            if let Some(present) = resource.store.get(key) {
                return Err(taken(&present));
            }
            return Ok(self.tried(resource, key, object));
        }
        let outcome = resource.store.write(key, |present| match present {
            Some(present) => Err(taken(present)),
            None => Ok(Change::Put(object)),
        })?;
        match outcome {
            Outcome::Stored(stored) | Outcome::Removed(stored) | Outcome::Kept(Some(stored)) => {
                self.check_owners(resource, &stored, write);
                Ok(stored)
            }
            Outcome::Kept(None) => Err(Status::internal("the object was not stored")),
        }
    }

    /// Queues an object that a client has written with owners, to be deleted if these do not exist. The in-process API
    /// stores objects as they are: with owners that exist later or nowhere.
    pub(super) fn check_owners(&self, resource: &Resource, stored: &Stored, write: Write) {
        if let Some(store) = resource.store.id()
            && write.origin == Origin::Client
            && write.part == Part::Object
            && !stored.owners().is_empty()
        {
            self.graph.push(Work::Object(Node { store, key: stored.key().clone() }));
        }
    }

    /// Returns a state of an object that is not stored, with the version that it names.
    pub(super) fn unversioned(resource: &Resource, key: &Key, object: Object) -> Arc<Stored> {
        let version = metadata::text(&object, "resourceVersion").parse().unwrap_or(0);
        let fields = resource.store.fields();
        Arc::new(Stored::new(key.clone(), version, EventType::Deleted, &object, fields, None))
    }

    /// Returns the object as it would be stored, for a dry run.
    pub(super) fn tried(&self, resource: &Resource, key: &Key, object: Object) -> Arc<Stored> {
        let version = resource.store.version();
        let fields = resource.store.fields();
        Arc::new(Stored::new(key.clone(), version, EventType::Added, &object, fields, None))
    }

    /// Sets the fields that the server sets on every new object, and the few defaults that clients rely on. Returns the status
    /// that is dropped.
    fn prepare(&self, resource: &Resource, object: &mut Object, origin: Origin) -> Option<Value> {
        let kind = &resource.kind;
        // kubelets create nodes with a status
        let has_dropped_status = origin == Origin::Client && kind.has_status && !kind.is("", "nodes");
        let status = if has_dropped_status { object.remove("status") } else { None };
        let now = self.clock.rfc3339();
        let metadata = metadata::of(object);
        for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            metadata.remove(field);
        }
        let keep = |value: Option<&Value>| origin == Origin::Owner && value.is_some();
        if !keep(metadata.get("uid")) {
            metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
        }
        if !keep(metadata.get("creationTimestamp")) {
            metadata.insert("creationTimestamp".into(), now.into());
        }
        if kind.has_generation {
            metadata.insert("generation".into(), 1.into());
        } else if metadata.get("generation").is_some_and(|generation| generation == 0) {
            metadata.remove("generation");
        }
        if !self.has_builtin_rules(kind) {
            defaults(kind, object);
        }
        status
    }
}

/// Returns five letters and digits that spell no words. Follows Kubernetes 1.37 (`rand.String`).
fn name_suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let random = uuid::Uuid::new_v4();
    random
        .as_bytes()
        .iter()
        .take(5)
        .filter_map(|byte| LETTERS.get(usize::from(*byte) % LETTERS.len()).map(|letter| char::from(*letter)))
        .collect()
}

/// Sets defaults that clients rely on: scaling needs a replica count, and pods are pending until their status is set.
fn defaults(kind: &Kind, object: &mut Object) {
    if kind.is("", "secrets") {
        encode_strings(object);
        object.entry("type").or_insert_with(|| "Opaque".into());
    }
    let mut default = |part: &str, field: &str, value: Value| {
        let inner = object.entry(part).or_insert_with(|| json!({}));
        if let Value::Object(inner) = inner {
            inner.entry(field).or_insert(value);
        }
    };
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => {
            default("spec", "restartPolicy", "Always".into());
            default("status", "phase", "Pending".into());
        }
        ("", "services") => {
            default("spec", "type", "ClusterIP".into());
            default("status", "loadBalancer", json!({}));
        }
        ("", "persistentvolumeclaims" | "persistentvolumes") => default("status", "phase", "Pending".into()),
        ("apps", "deployments" | "replicasets" | "statefulsets") | ("", "replicationcontrollers") => {
            default("spec", "replicas", 1.into());
        }
        _ => {}
    }
}

/// Moves `stringData` of a secret to `data`. Follows Kubernetes 1.37 (`stringData`).
pub(super) fn encode_strings(object: &mut Object) {
    let Some(Value::Object(strings)) = object.remove("stringData") else { return };
    let data = object.entry("data").or_insert_with(|| json!({}));
    if !data.is_object() {
        *data = json!({});
    }
    if let Some(data) = data.as_object_mut() {
        for (name, text) in strings {
            let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(name, encoded.into());
        }
    }
}
