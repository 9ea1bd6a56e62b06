//! The state of an object after an update or a patch.

use serde_json::Value;

use crate::builtin::copy;
use crate::causes;
use crate::registry::Kind;
use crate::status::{Cause, Status};

use super::{Api, Object, Origin, Part, Write, metadata, object_rules};

/// Whether a write must name the version that it replaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Versioned {
    /// An update, which replaces the object.
    Update,
    /// A patch, which is applied to the current object.
    Patch,
}

/// Metadata that only the server changes.
const OWNED: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "namespace",
];

/// Metadata that the server does not store.
const NOT_STORED: &str = "selfLink";

/// A write to an existing object.
pub(super) struct Rewrite<'a> {
    pub(super) kind: &'a Kind,
    pub(super) name: &'a str,
    /// The current object.
    pub(super) before: &'a Object,
    pub(super) write: Write<'a>,
    pub(super) versioned: Versioned,
    pub(super) api: &'a Api,
}

impl Rewrite<'_> {
    /// Returns the result of writing `object`.
    ///
    /// # Errors
    /// 403 for rights that the user does not have; 409 for a stale version or another uid; 422 for an invalid object.
    pub(super) fn next_state(&self, object: Object) -> Result<Object, Status> {
        if self.versioned == Versioned::Update {
            metadata::check_precondition(self.kind, self.name, self.before, &object, self.write.dry_run)?;
        }
        self.write.check_grants(Some(self.before), &object)?;
        self.check_version(&object)?;
        self.check_uid(&object)?;
        self.check_deletion(&object)?;
        let mut object = self.with_selected_part(object);
        self.keep_owned_metadata(&mut object);
        self.check_finalizers(&object)?;
        self.api.updated_builtin(self.kind, self.before, &mut object, self.write.part);
        self.check_fields(&mut object)?;
        if self.kind.custom {
            Api::settle_numbers(&mut object);
        }
        if self.kind.is("", "secrets") {
            super::create::encode_strings(&mut object);
        }
        if self.kind.has_generation && self.is_another_generation(&object) {
            bump_generation(&mut object);
        }
        Ok(object)
    }

    /// Follows Kubernetes 1.37: the annotations of a Deployment count, since they are copied to its replica sets, and the
    /// labels of an EndpointSlice.
    fn is_another_generation(&self, object: &Object) -> bool {
        fn of<'a>(object: &'a Object, field: &str) -> Option<&'a Value> {
            object.get("metadata")?.get(field)
        }
        let differs = |field: &str| of(self.before, field) != of(object, field);
        // a priority class keeps its first generation
        if self.kind.is("scheduling.k8s.io", "priorityclasses") {
            return false;
        }
        // a status without a subresource is a field as any other
        let is_plain_status = self.kind.custom && !self.kind.has_status;
        metadata::spec_differs(self.before, object)
            || (is_plain_status && self.before.get("status") != object.get("status"))
            || (self.kind.is("apps", "deployments") && differs("annotations"))
            || (self.kind.is("discovery.k8s.io", "endpointslices") && differs("labels"))
    }

    fn check_version(&self, object: &Object) -> Result<(), Status> {
        let must_be_given = self.kind.needs_version()
            && self.versioned == Versioned::Update
            && self.write.origin == Origin::Client;
        let why = match metadata::text(object, "resourceVersion") {
            "" | "0" if must_be_given => {
                let why = "Invalid value: 0: must be specified for an update";
                let cause = Cause::invalid("metadata.resourceVersion", why);
                return Err(Status::invalid(self.kind.resource_subject(), self.name, vec![cause]));
            }
            "" | "0" => return Ok(()),
            given if given == metadata::text(self.before, "resourceVersion") => return Ok(()),
            given if given.parse::<u64>().is_err() && self.versioned == Versioned::Patch => {
                let why = format!("strconv.ParseUint: parsing {given:?}: invalid syntax");
                return Err(Status::new(500, "", why));
            }
            given if given.parse::<u64>().is_err() => format!("Invalid value: {given:?}: must be a number"),
            _ => return Err(Status::modified(self.kind.resource_subject(), self.name)),
        };
        Err(self.invalid(Cause::invalid("metadata.resourceVersion", why)))
    }

    fn check_uid(&self, object: &Object) -> Result<(), Status> {
        let (given, uid) = (metadata::text(object, "uid"), metadata::text(self.before, "uid"));
        if given.is_empty() || given == uid {
            return Ok(());
        }
        Err(self.immutable("metadata.uid", &format!("{given:?}")))
    }

    /// # Errors
    /// 422 for a write that makes the object terminate, or changes its grace period.
    fn check_deletion(&self, object: &Object) -> Result<(), Status> {
        if self.write.part != Part::Object || self.write.origin != Origin::Client {
            return Ok(());
        }
        let of = |object: &Object, field: &str| {
            object.get("metadata").and_then(|metadata| metadata.get(field)).cloned()
        };
        let given = |field: &str| of(object, field).filter(|value| !value.is_null());
        let immutable =
            |field: &str, value: &Value| self.immutable(&format!("metadata.{field}"), &value.to_string());
        match (given("deletionTimestamp"), given("deletionGracePeriodSeconds")) {
            (Some(time), _) if !metadata::is_terminating(self.before) => {
                Err(immutable("deletionTimestamp", &time))
            }
            (_, period @ Some(_)) if period != of(self.before, "deletionGracePeriodSeconds") => {
                Err(immutable("deletionGracePeriodSeconds", &period.unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// Takes from `object` only the part that the write can change.
    fn with_selected_part(&self, mut object: Object) -> Object {
        let only = |field: &str| {
            let mut updated = self.before.clone();
            match object.get(field).filter(|value| self.kind.custom || !value.is_null()) {
                // null is an error of the schema of a custom resource
                Some(value) => updated.insert(field.to_owned(), value.clone()),
                None => updated.remove(field),
            };
            updated
        };
        match self.write.part {
            Part::Object => {
                if self.kind.has_status && self.write.origin == Origin::Client {
                    copy(self.before, &mut object, "status");
                }
                object
            }
            Part::Status => only("status"),
            Part::Finalize => only("spec"),
        }
    }

    fn keep_owned_metadata(&self, object: &mut Object) {
        let old = self.before.get("metadata");
        let new = metadata::of(object);
        new.remove(NOT_STORED);
        for field in OWNED {
            match old.and_then(|old| old.get(field)) {
                Some(value) => new.insert(field.into(), value.clone()),
                None => new.remove(field),
            };
        }
    }

    fn check_finalizers(&self, object: &Object) -> Result<(), Status> {
        if !metadata::is_terminating(self.before) {
            return Ok(());
        }
        let had = metadata::finalizers(self.before);
        let mut new = metadata::finalizers(object);
        new.retain(|finalizer| !had.contains(finalizer));
        if new.is_empty() {
            return Ok(());
        }
        new.sort_unstable();
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{\"{}\"}}",
            new.join("\", \"")
        );
        let cause = causes::forbidden("metadata.finalizers", &why);
        // kube-apiserver validates the metadata of custom resources twice.
        let causes = if self.kind.custom { vec![cause.clone(), cause] } else { vec![cause] };
        Err(Status::invalid(self.kind.kind_subject(), self.name, causes))
    }

    fn check_fields(&self, object: &mut Object) -> Result<(), Status> {
        let mut faults = Vec::new();
        if self.write.origin == Origin::Client {
            faults.extend(object_rules::change_faults(self.kind, self.before, object));
            faults.extend(object_rules::faults(self.kind, object));
        }
        let assigned = self.assigned_before(object);
        let before = assigned.as_ref().unwrap_or(self.before);
        faults.extend(self.api.builtin_faults(self.kind, object, Some(before), self.write));
        Api::add_schema_faults(self.kind, object, Some(self.before), self.write, &mut faults);
        if faults.is_empty() {
            self.api.warn_of_builtin(self.kind, object, self.write);
            return Ok(());
        }
        Err(Status::invalid(self.kind.kind_subject(), self.name, faults))
    }

    /// Returns the pod before a write of the in-process API that assigns it to a node, as if it had been assigned: a test
    /// does so in place of a scheduler.
    fn assigned_before(&self, object: &Object) -> Option<Object> {
        fn node(pod: &Object) -> &str {
            pod.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str).unwrap_or("")
        }
        let is_assigned = self.kind.is("", "pods")
            && self.write.origin == Origin::Owner
            && node(self.before).is_empty()
            && !node(object).is_empty();
        is_assigned.then(|| {
            let mut before = self.before.clone();
            metadata::member(&mut before, "spec").insert("nodeName".into(), node(object).into());
            before
        })
    }

    /// 422; twice the cause for custom objects, whose metadata kube-apiserver validates twice.
    fn immutable(&self, field: &str, value: &str) -> Status {
        let cause = Cause::invalid(field, format!("Invalid value: {value}: field is immutable"));
        let causes = if self.kind.custom { vec![cause.clone(), cause] } else { vec![cause] };
        Status::invalid(self.kind.kind_subject(), self.name, causes)
    }

    fn invalid(&self, cause: Cause) -> Status {
        Status::invalid(self.kind.kind_subject(), self.name, vec![cause])
    }
}

pub(super) fn bump_generation(object: &mut Object) {
    let metadata = metadata::of(object);
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    metadata.insert("generation".into(), generation.saturating_add(1).into());
}
