//! The scale subresource.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::apply::{Conflicts, FieldManager, Filter, ScaleManagers, Schema, Versions, Writer};
use crate::registry::{Kind, Resource, ScalePaths, assign, lookup};
use crate::schema::scale::{count_fault, joined, wrong_type};
use crate::status::{Cause, Status, Subject};
use crate::storage::Stored;

use super::{Api, DryRun, Entries, Object, Origin, Write, metadata};

const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// The replica count of a custom object without one. Follows Kubernetes 1.37 (`invalidSpecReplicas`).
const NO_REPLICAS: i64 = -2_147_483_648;

/// A write to a scale.
pub(crate) enum ScaleWrite<'a> {
    Replace(Object),
    /// Returns the changed scale.
    Patch(&'a mut dyn FnMut(Object) -> Result<Object, Status>),
    Apply(Value, Conflicts),
}

/// The only version of scales.
struct ScaleTypes;

impl Versions for ScaleTypes {
    fn schema(&self) -> &Schema {
        Schema::builtin()
    }

    fn convert(&self, _: &Value, _: &str) -> Option<Value> {
        None
    }
}

impl Api {
    /// Writes the scale of an object.
    ///
    /// # Errors
    /// 400 for a body that is not a Scale, 422 for a negative count, and the errors of [`Api::update`] and
    /// [`Api::apply`].
    pub(crate) fn write_scale(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        paths: &ScalePaths,
        mut change: ScaleWrite<'_>,
        write: Write<'_>,
    ) -> Result<Arc<Stored>, Status> {
        let now = self.clock.rfc3339();
        let writer = Writer { manager: write.manager, now: &now };
        let write = Write { entries: Entries::Given, ..write };
        self.modify(resource, namespace, name, write, &mut |mut object| {
            let invalid = |error: String| Status::new(500, "", error);
            let entries = metadata::managed_fields(&object);
            let api_version = resource.kind.api_version();
            let managers =
                ScaleManagers::new(entries, &api_version, &paths.spec_replicas).map_err(invalid)?;
            let mut scale = scale_of(&object, paths);
            if resource.kind.custom && lookup(&object, &paths.spec_replicas).is_none() {
                assign(&mut scale, &REPLICAS.map(str::to_owned), NO_REPLICAS.into());
            }
            if let Some(entries) = managers.to_scale() {
                metadata::of(&mut scale).insert("managedFields".into(), entries);
            }
            let old = scale.clone();
            let scale = changed_scale(&resource.kind, scale, name, &mut change, (writer, write.dry_run))?;
            let scale = match write.session {
                Some(session) => session.mutate(Some(old), scale)?,
                None => scale,
            };
            let entries = managers.to_object(metadata::managed_fields(&scale)).map_err(invalid)?;
            apply_scale(&resource.kind, &mut object, &scale, paths)?;
            match entries {
                Some(entries) => metadata::of(&mut object).insert("managedFields".into(), entries),
                None => metadata::of(&mut object).remove("managedFields"),
            };
            Ok(object)
        })
    }
}

/// Returns the kind of scales.
pub(crate) fn scale_kind() -> Kind {
    Kind { group: "autoscaling".into(), version: "v1".into(), kind: KIND.into(), ..Kind::default() }
}

/// # Errors
/// 400 for an update that is not a scale, or that names another object.
pub(crate) fn check_scale(
    scale: &mut Object,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    metadata::check_type(scale, &scale_kind(), Origin::Client)?;
    metadata::check_namespace(scale, resource, namespace)?;
    metadata::check_name(scale, name)
}

/// Returns a scale after a write, with its managers.
fn changed_scale(
    kind: &Kind,
    scale: Object,
    name: &str,
    change: &mut ScaleWrite<'_>,
    (writer, dry_run): (Writer<'_>, DryRun),
) -> Result<Object, Status> {
    let managers = FieldManager {
        versions: &ScaleTypes,
        api_version: API_VERSION,
        kind: KIND,
        subresource: "scale",
        filter: Filter::default(),
    };
    let live = Value::Object(scale.clone());
    let changed = match change {
        ScaleWrite::Apply(applied, conflicts) => {
            let changed = managers.apply(live.clone(), applied, writer, *conflicts)?;
            if kind.custom && !is_same(&live, &changed) {
                return Err(not_converted(applied));
            }
            changed
        }
        ScaleWrite::Replace(given) => {
            metadata::check_precondition(kind, name, &scale, given, dry_run)?;
            recorded(&managers, &live, given.clone(), writer)
        }
        ScaleWrite::Patch(patch) => {
            let patched = (*patch)(scale)?;
            metadata::check_name(&patched, name)?;
            check_patched(kind, &live, &patched, name)?;
            recorded(&managers, &live, patched, writer)
        }
    };
    match changed {
        Value::Object(scale) => Ok(scale),
        _ => Err(Status::bad_request("the object provided is unrecognized (must be of type Scale)")),
    }
}

/// # Errors
/// 400 for a scale in another namespace, 409 for one with another UID.
fn check_patched(kind: &Kind, live: &Value, patched: &Object, name: &str) -> Result<(), Status> {
    let text =
        |field: &str| live.get("metadata").and_then(|metadata| metadata.get(field)?.as_str()).unwrap_or("");
    let namespace = metadata::text(patched, "namespace");
    if !namespace.is_empty() && namespace != text("namespace") {
        return Err(Status::bad_request(metadata::OTHER_NAMESPACE));
    }
    let (given, uid) = (metadata::text(patched, "uid"), text("uid"));
    if given.is_empty() || given == uid {
        return Ok(());
    }
    let resource = &format!("{}/scale", kind.plural);
    let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {uid}");
    Err(Status::conflict(Subject { group: &kind.group, resource }, name, &why))
}

fn recorded(managers: &FieldManager<'_>, live: &Value, mut scale: Object, writer: Writer<'_>) -> Value {
    // Go omits a count of zero, which then has no owner.
    if let Some(Value::Object(spec)) = scale.get_mut("spec")
        && spec.get("replicas").is_some_and(|replicas| replicas == 0)
    {
        spec.remove("replicas");
    }
    let mut scale = Value::Object(scale);
    managers.record(live, &mut scale, writer);
    scale
}

/// Whether an apply has changed nothing but the managers.
fn is_same(live: &Value, changed: &Value) -> bool {
    let without_managers = |scale: &Value| {
        let mut scale = scale.clone();
        if let Some(Value::Object(metadata)) = scale.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        scale
    };
    without_managers(live) == without_managers(changed)
}

/// Follows Kubernetes 1.37, which cannot apply the scale of a custom object.
fn not_converted(applied: &Value) -> Status {
    let text = |field: &str| {
        applied.get("metadata").and_then(|metadata| metadata.get(field)?.as_str()).unwrap_or("")
    };
    Status::new(
        500,
        "",
        format!(
            "failed to convert new object ({}/{}; {API_VERSION}, Kind={KIND}) to proper version: request to convert CR to an \
             invalid group/version: {API_VERSION}",
            text("namespace"),
            text("name")
        ),
    )
}

/// Returns the scale of an object for a read.
///
/// # Errors
/// 500 for a custom object whose replica count is missing, or no number.
pub(crate) fn read_scale(kind: &Kind, object: &Object, paths: &ScalePaths) -> Result<Object, Status> {
    if kind.custom {
        if let Some(fault) = accessor_fault(object, &paths.spec_replicas)
            .or_else(|| accessor_fault(object, &paths.status_replicas))
        {
            return Err(Status::new(500, "", fault));
        }
        if lookup(object, &paths.spec_replicas).is_none() {
            let why = format!("the spec replicas field {:?} does not exist", joined(&paths.spec_replicas));
            return Err(Status::internal(why));
        }
    }
    Ok(scale_of(object, paths))
}

/// Returns the problems with the counts of a custom object without a schema, which checks them otherwise.
pub(super) fn scale_faults(kind: &Kind, object: &Object) -> Vec<Cause> {
    let Some(paths) = kind.scale.as_ref().filter(|_| kind.custom && kind.checks.is_none()) else {
        return Vec::new();
    };
    let paths = [&paths.spec_replicas, &paths.status_replicas];
    paths.into_iter().filter_map(|path| count_fault(object, path)).collect()
}

/// Why a count cannot be read, if it cannot. Follows Kubernetes 1.37 (`NestedInt64`).
fn accessor_fault(object: &Object, path: &[String]) -> Option<String> {
    let value = lookup(object, path).filter(|value| !value.is_i64())?;
    Some(wrong_type(&joined(path), value, "int64"))
}

/// Returns the `autoscaling/v1` Scale of an object.
pub(crate) fn scale_of(object: &Object, paths: &ScalePaths) -> Object {
    let number = |path: &[String]| lookup(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let text = metadata::text(object, field);
        if !text.is_empty() {
            metadata.insert(field.into(), text.into());
        }
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = paths.selector.as_ref().and_then(|path| lookup(object, path)).map(selector_text);
    if let (Some(selector), Some(status)) = (selector, status.as_object_mut()) {
        status.insert("selector".into(), selector.into());
    }
    // Go omits a count of zero.
    let spec = match number(&paths.spec_replicas) {
        0 => json!({}),
        replicas => json!({"replicas": replicas}),
    };
    let scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec,
        "status": status});
    scale.as_object().cloned().unwrap_or_default()
}

/// Applies the replica count of a Scale to its object.
///
/// # Errors
/// 400 for a body that is not a Scale, 422 for a negative count.
fn apply_scale(kind: &Kind, object: &mut Object, scale: &Object, paths: &ScalePaths) -> Result<(), Status> {
    if scale.get("kind").is_some_and(|kind| kind != "Scale") {
        return Err(Status::bad_request("the object provided is unrecognized (must be of type Scale)"));
    }
    let replicas = match scale.get("spec").and_then(|spec| spec.get("replicas")) {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().ok_or_else(|| {
            Status::bad_request(
                "json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32",
            )
        })?,
    };
    if kind.custom && replicas == NO_REPLICAS {
        return Err(Status::bad_request(format!(
            "the spec replicas field {:?} cannot be empty",
            joined(&paths.spec_replicas)
        )));
    }
    // Those of custom objects are validated with the object.
    if !kind.custom && (replicas < 0 || replicas > i64::from(i32::MAX)) {
        let cause = Cause::invalid(
            "spec.replicas",
            format!("Invalid value: {replicas}: must be greater than or equal to 0"),
        );
        let subject = Subject { group: "autoscaling", resource: "Scale" };
        return Err(Status::invalid(subject, metadata::text(object, "name"), vec![cause]));
    }
    let version = metadata::text(scale, "resourceVersion").to_owned();
    assign(object, &paths.spec_replicas, replicas.into());
    if !version.is_empty() {
        metadata::of(object).insert("resourceVersion".into(), version.into());
    }
    Ok(())
}

/// Formats a label selector as text. It may be a `LabelSelector`, a plain map or text already.
fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let equal = |map: &serde_json::Map<String, Value>| -> Vec<String> {
        map.iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
    };
    let Value::Object(map) = selector else { return text(selector) };
    let labels = map.get("matchLabels").and_then(Value::as_object);
    let expressions = map.get("matchExpressions").and_then(Value::as_array);
    if labels.is_none() && expressions.is_none() {
        return equal(map).join(",");
    }
    let mut parts = labels.map(equal).unwrap_or_default();
    for expression in expressions.into_iter().flatten() {
        let member = |name: &str| expression.get(name).map(&text).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_array);
        let values: Vec<String> = values.into_iter().flatten().map(&text).collect();
        let (key, values) = (member("key"), values.join(","));
        parts.push(match member("operator").as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key,
        });
    }
    parts.join(",")
}
