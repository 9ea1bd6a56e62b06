//! `DeleteOptions`: what a client can say about a deletion.

use serde_json::{Map, Value, json};

use crate::causes;
use crate::order;
use crate::registry::Resource;
use crate::status::{Cause, Status, Subject};
use crate::storage::Stored;

use super::DryRun;

/// What a deletion does to the dependents of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted after the object.
    Background,
    /// They are deleted before the object.
    Foreground,
    /// They stay, without the object as owner.
    Orphan,
}

impl Propagation {
    fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "Background" => Self::Background,
            "Foreground" => Self::Foreground,
            "Orphan" => Self::Orphan,
            _ => return None,
        })
    }
}

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) preconditions: Preconditions,
    pub(crate) dry_run: DryRun,
    /// The seconds that a pod gets to end.
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    /// The older form of [`Self::propagation`].
    pub(crate) orphan_dependents: Option<bool>,
}

/// The state that an object must have; `None` fields match any state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

impl DeleteOptions {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// 400 for a body that is not a `DeleteOptions`, 422 for unknown values.
    pub(crate) fn parse(body: &Value) -> Result<Self, Status> {
        let unusable = || Status::bad_request("decoded object cannot be converted to DeleteOptions");
        let Value::Object(map) = body else { return Err(unusable()) };
        if map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind != "DeleteOptions") {
            return Err(unusable());
        }
        let dry_run: Vec<&str> = match member(map, "dryRun", "[]string", Value::as_array)? {
            Some(list) => list.iter().map(|value| value.as_str().unwrap_or("")).collect(),
            None => Vec::new(),
        };
        let preconditions = member(map, "preconditions", "v1.Preconditions", Value::as_object)?;
        let precondition = |field: &str| -> Result<Option<String>, Status> {
            let Some(map) = preconditions else { return Ok(None) };
            Ok(member(map, field, "string", Value::as_str)?.map(str::to_owned))
        };
        let preconditions =
            Preconditions { uid: precondition("uid")?, version: precondition("resourceVersion")? };
        let given = Self {
            preconditions,
            grace: member(map, "gracePeriodSeconds", "int64", Value::as_i64)?,
            orphan_dependents: member(map, "orphanDependents", "bool", Value::as_bool)?,
            ..Self::default()
        };
        given.validated(member(map, "propagationPolicy", "v1.DeletionPropagation", Value::as_str)?, &dry_run)
    }

    /// Completes the options with those that are validated. Follows Kubernetes 1.37 (`ValidateDeleteOptions`).
    ///
    /// # Errors
    /// 422 for unknown values, and for a policy in both of its forms.
    pub(crate) fn validated(mut self, policy: Option<&str>, dry_run: &[&str]) -> Result<Self, Status> {
        let mut causes = Vec::new();
        if let Some(policy) = policy {
            self.propagation = Propagation::of(policy);
            if self.orphan_dependents.is_some() {
                let rule = "orphanDependents and deletionPropagation cannot be both set";
                causes
                    .push(Cause::invalid("propagationPolicy", format!("Invalid value: {policy:?}: {rule}")));
            }
            if self.propagation.is_none() {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(causes::not_supported("propagationPolicy", &json!(policy), &known));
            }
        }
        if dry_run.iter().any(|value| *value != "All") {
            causes.push(causes::not_supported("dryRun", &json!(dry_run), &["All"]));
        }
        if !causes.is_empty() {
            let subject = Subject { group: "meta.k8s.io", resource: "DeleteOptions" };
            return Err(Status::invalid(subject, "", causes));
        }
        if !dry_run.is_empty() {
            self.dry_run = DryRun::All;
        }
        Ok(self)
    }

    /// Returns the object that webhooks receive.
    pub(crate) fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("kind".into(), "DeleteOptions".into());
        map.insert("apiVersion".into(), "meta.k8s.io/v1".into());
        if let Some(seconds) = self.grace {
            map.insert("gracePeriodSeconds".into(), seconds.into());
        }
        let Preconditions { uid, version } = &self.preconditions;
        let given = [("uid", uid), ("resourceVersion", version)];
        let given = given.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?)));
        let preconditions =
            order::object(given.map(|(field, text)| (field.to_owned(), text.as_str().into())));
        if !preconditions.is_empty() {
            map.insert("preconditions".into(), Value::Object(preconditions));
        }
        if let Some(orphan) = self.orphan_dependents {
            map.insert("orphanDependents".into(), orphan.into());
        }
        if let Some(policy) = self.propagation {
            map.insert("propagationPolicy".into(), policy.name().into());
        }
        if self.dry_run == DryRun::All {
            map.insert("dryRun".into(), json!(["All"]));
        }
        Value::Object(map)
    }

    /// Whether the options say what happens to the dependents.
    pub(crate) fn names_propagation(&self) -> bool {
        self.propagation.is_some() || self.orphan_dependents.is_some()
    }
}

/// Returns a field of the options; `None` if it is missing.
///
/// # Errors
/// 400 for a value of another type.
fn member<'a, T>(
    map: &'a Map<String, Value>,
    field: &str,
    expected: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, Status> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| {
            Status::bad_request(format!(
                "json: cannot unmarshal into Go struct field DeleteOptions.{field} of type {expected}"
            ))
        }),
    }
}

impl Preconditions {
    /// # Errors
    /// 409 if the object has another state.
    pub(super) fn check(&self, resource: &Resource, stored: &Stored) -> Result<(), Status> {
        let failed = |what: &str, wanted: &str, there: &str| {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {there}"
            );
            Err(Status::conflict(resource.kind.resource_subject(), stored.key().name(), &why))
        };
        match self.mismatch(stored) {
            Some(("UID", wanted)) => failed("UID", wanted, stored.uid()),
            Some((what, wanted)) => failed(what, wanted, &stored.version().to_string()),
            None => Ok(()),
        }
    }

    /// As [`Self::check`], in the words of a deletion. Follows Kubernetes 1.37 (`BeforeDelete`).
    ///
    /// # Errors
    /// 409 if the object has another state.
    pub(super) fn check_deletion(&self, resource: &Resource, stored: &Stored) -> Result<(), Status> {
        let (what, wanted, there, why) = match self.mismatch(stored) {
            None => return Ok(()),
            Some(("UID", wanted)) => ("UID", wanted, stored.uid().to_owned(), "deleted and then recreated"),
            Some((what, wanted)) => (what, wanted, stored.version().to_string(), "modified"),
        };
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({there}). The object might \
             have been {why}"
        );
        Err(Status::conflict(resource.kind.kind_subject(), stored.key().name(), &why))
    }

    /// Returns the first condition that does not hold, and the value that it demands.
    fn mismatch(&self, stored: &Stored) -> Option<(&'static str, &str)> {
        if let Some(uid) = self.uid.as_deref().filter(|uid| *uid != stored.uid()) {
            return Some(("UID", uid));
        }
        let version = self.version.as_deref()?;
        (version != stored.version().to_string()).then_some(("ResourceVersion", version))
    }
}
