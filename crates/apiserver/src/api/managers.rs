//! Recording which manager owns which fields.

use std::sync::Arc;

use serde_json::Value;

use crate::apply::{self, FieldManager, Filter, Schema, Versions, Writer};
use crate::builtin;
use crate::registry::{Registry, Resource};

use super::{Api, Entries, Object, Origin, Part, Write, metadata};

/// The types and the conversions of a resource.
pub(super) struct Types<'a> {
    registry: Arc<Registry>,
    resource: &'a Resource,
}

impl<'a> Types<'a> {
    pub(super) fn of(api: &Api, resource: &'a Resource) -> Self {
        Self { registry: api.registry(), resource }
    }

    fn version(&self, api_version: &str) -> Option<&Resource> {
        let found = self.registry.of_kind(api_version, &self.resource.kind.kind);
        // the same kind in another group has other objects
        found.map(Arc::as_ref).filter(|found| Arc::ptr_eq(&found.store, &self.resource.store))
    }
}

impl Versions for Types<'_> {
    fn schema(&self) -> &Schema {
        match &self.resource.kind.schema {
            Some(schema) => schema,
            None => Schema::builtin(),
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let Value::Object(object) = object else { return None };
        let mut object = object.clone();
        if self.resource.kind.custom {
            object.insert("apiVersion".into(), api_version.into());
            return Some(Value::Object(object));
        }
        let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or("").to_owned();
        let (from, to) = self.version(&from).zip(self.version(api_version))?;
        if let Some(conversion) = from.conversion {
            conversion.to_stored(&mut object, api_version);
        }
        match to.conversion {
            Some(conversion) => conversion.to_served(&mut object, api_version),
            None => {
                object.insert("apiVersion".into(), api_version.into());
            }
        }
        Some(Value::Object(object))
    }
}

/// The fields that a write can change. Follows Kubernetes 1.37 (`GetResetFields` of the strategies).
pub(super) fn filter(resource: &Resource, write: Write<'_>) -> Filter {
    let kind = &resource.kind;
    match write.part {
        // beside their spec, custom resources may have other fields
        Part::Status if kind.custom => Filter::without(&["metadata", "spec"]),
        Part::Status => Filter::only("status"),
        Part::Finalize => Filter::only("spec"),
        Part::Object if write.origin == Origin::Owner || !kind.has_status => Filter::default(),
        Part::Object if kind.is("certificates.k8s.io", "certificatesigningrequests") => {
            Filter::without(&["spec", "status"])
        }
        Part::Object => Filter::without(&["status"]),
    }
}

/// As [`filter`], of a write that creates its object.
pub(super) fn creation_filter(resource: &Resource, write: Write<'_>) -> Filter {
    if resource.kind.is("", "namespaces") {
        return Filter::without(&["spec", "status"]);
    }
    filter(resource, write)
}

pub(super) fn subresource(part: Part) -> &'static str {
    match part {
        Part::Object => "",
        Part::Status => "status",
        Part::Finalize => "finalize",
    }
}

impl Api {
    /// Records the manager of a new object, which was given with a status. Objects of the in-process API are stored as they
    /// are.
    pub(super) fn record_created(
        &self,
        resource: &Resource,
        object: &mut Object,
        status: Option<Value>,
        write: Write<'_>,
    ) {
        if write.origin == Origin::Owner || write.entries != Entries::Recorded {
            return;
        }
        let filter = creation_filter(resource, write);
        let live = Value::Object(Object::new());
        let Some(status) = status.filter(|_| resource.kind.custom) else {
            self.record(resource, &live, object, write, filter);
            return;
        };
        // a status that does not have its type has the effect that no manager is recorded
        object.insert("status".into(), status);
        self.record(resource, &live, object, write, filter);
        object.remove("status");
    }

    /// Returns the object of an update, if it differs from what is stored of it in more than the server sets. It is the one
    /// whose managers kube-apiserver records.
    pub(super) fn claimed(
        resource: &Resource,
        before: &Object,
        object: &Object,
        write: Write<'_>,
    ) -> Option<Object> {
        let kind = &resource.kind;
        if write.entries != Entries::Recorded {
            return None;
        }
        if write.part == Part::Object && builtin::sets_unmanaged(&kind.api_version(), &kind.kind) {
            return Some(object.clone());
        }
        if !(kind.custom && kind.has_status) {
            return None;
        }
        let is_claimed = match write.part {
            Part::Object => write.origin == Origin::Client && object.get("status") != before.get("status"),
            Part::Status | Part::Finalize => {
                object.get("metadata") != before.get("metadata") || metadata::spec_differs(before, object)
            }
        };
        is_claimed.then(|| object.clone())
    }

    /// Records the manager of an update, whose object had `given` as `managedFields`, and was `claimed` if that is not `after`.
    pub(super) fn record_update(
        &self,
        resource: &Resource,
        before: &Value,
        after: &mut Object,
        (given, claimed): (Option<Value>, Option<Object>),
        write: Write<'_>,
    ) {
        if let Some(mut claimed) = claimed {
            set_entries(&mut claimed, given);
            self.record(resource, before, &mut claimed, write, filter(resource, write));
            set_entries(after, metadata::managed_fields(&claimed).cloned());
            if resource.kind.custom {
                return;
            }
        } else {
            set_entries(after, given);
            if write.entries == Entries::Recorded {
                self.record(resource, before, after, write, filter(resource, write));
            }
        }
        if let Some(before) = before.as_object() {
            keep_times(before, after);
        }
    }

    /// Removes the fields of a built-in object from a client that kube-apiserver does not keep.
    pub(super) fn drop_unset(resource: &Resource, object: &mut Object, write: Write<'_>) {
        let kind = &resource.kind;
        if write.origin == Origin::Owner || write.entries == Entries::Given || kind.custom {
            return;
        }
        apply::drop_unset(Schema::builtin(), &kind.api_version(), &kind.kind, object);
    }

    pub(super) fn record(
        &self,
        resource: &Resource,
        live: &Value,
        object: &mut Object,
        write: Write<'_>,
        filter: Filter,
    ) {
        let types = Types::of(self, resource);
        let api_version = resource.kind.api_version();
        let managers = FieldManager {
            versions: &types,
            api_version: &api_version,
            kind: &resource.kind.kind,
            subresource: subresource(write.part),
            filter,
        };
        let now = self.clock.rfc3339();
        let mut new = Value::Object(std::mem::take(object));
        let writer = Writer { manager: write.manager, now: &now };
        // the status of a custom resource is recorded before it is dropped or validated
        if resource.kind.custom && resource.kind.has_status {
            managers.record_if_typed(live, &mut new, writer);
        } else {
            managers.record(live, &mut new, writer);
        }
        if let Value::Object(new) = new {
            *object = new;
        }
    }
}

pub(super) fn set_entries(object: &mut Object, entries: Option<Value>) {
    let fields = metadata::of(object);
    match entries {
        Some(entries) => fields.insert("managedFields".into(), entries),
        None => fields.remove("managedFields"),
    };
}

/// Keeps the times of the managers if nothing else has changed.
///
/// Follows Kubernetes 1.37 (`IgnoreManagedFieldsTimestampsTransformer`).
fn keep_times(before: &Object, after: &mut Object) {
    let (Some(old), Some(new)) = (metadata::managed_fields(before), metadata::managed_fields(after)) else {
        return;
    };
    if old == new || !apply::is_same_but_times(old, new) {
        return;
    }
    let (old, new) = (old.clone(), new.clone());
    metadata::of(after).insert("managedFields".into(), old);
    if after != before {
        metadata::of(after).insert("managedFields".into(), new);
    }
}
