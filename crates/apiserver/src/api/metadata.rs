//! Validation of `metadata`.

use serde_json::{Map, Value, json};

use crate::builtin::names;
use crate::causes;
use crate::dns::has_label_form;
use crate::protobuf;
use crate::registry::{Kind, Resource};
use crate::status::{Cause, Status, Subject};

use super::{DryRun, Object, Origin};

pub(super) use crate::builtin::member;

/// Checks the type of an object against the resource of the request, and fills in missing fields, except in custom objects
/// of clients, as Kubernetes.
///
/// # Errors
/// 400, with the wording of Kubernetes; 422 for a custom object of another kind.
pub(crate) fn check_type(object: &mut Object, kind: &Kind, origin: Origin) -> Result<(), Status> {
    let expected = kind.api_version();
    let must_be_given = kind.custom && origin == Origin::Client;
    if must_be_given && object.get("kind").and_then(Value::as_str).unwrap_or("").is_empty() {
        let why = "Object 'Kind' is missing in 'unstructured object has no kind'";
        return Err(Status::bad_request(why));
    }
    for (member, expected) in [("apiVersion", expected.as_str()), ("kind", kind.kind.as_str())] {
        match object.get(member) {
            None | Some(Value::Null) if !must_be_given => {
                object.insert(member.into(), expected.into());
            }
            Some(Value::String(given)) if given == expected => {}
            None | Some(Value::Null) => return Err(other_version("", expected)),
            Some(Value::String(given)) if kind.custom && member == "apiVersion" => {
                return Err(other_version(given, expected));
            }
            Some(Value::String(given)) if kind.custom => {
                let cause = Cause::invalid("kind", format!("Invalid value: {given:?}: must be {expected}"));
                let subject = Subject { group: &kind.group, resource: given };
                return Err(Status::invalid(subject, text(object, "name"), vec![cause]));
            }
            Some(_) => return Err(other_type(object, kind)),
        }
    }
    check_shape(object, kind)
}

fn other_version(given: &str, expected: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// The error for an object of another built-in type. Follows Kubernetes 1.37 (`transformDecodeError`).
fn other_type(object: &Object, kind: &Kind) -> Status {
    let expected = kind.api_version();
    let text = |field: &str| {
        object.get(field).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let given_version = text("apiVersion").unwrap_or_else(|| expected.clone());
    let given = text("kind").unwrap_or_else(|| kind.kind.clone());
    let (group, version) = given_version.rsplit_once('/').unwrap_or(("", &given_version));
    let why = match protobuf::knows(&given_version, &given) {
        true if group == kind.group && given == kind.kind => return other_version(&given_version, &expected),
        true => {
            let package = kind.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
            format!("converting ({version}.{given}) to ({package}.{}): unknown conversion", kind.kind)
        }
        false => format!(
            "no kind {given:?} is registered for version {given_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        ),
    };
    let own = &kind.kind;
    Status::bad_request(format!("{given} in version {version:?} cannot be handled as a {own}: {why}"))
}

fn check_shape(object: &mut Object, kind: &Kind) -> Result<(), Status> {
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let checked = match metadata {
        Value::Object(metadata) => check_fields(metadata),
        _ => Err(("metadata".to_owned(), "v1.ObjectMeta")),
    };
    checked.map_err(|(field, expected)| {
        Status::bad_request(format!(
            "{0} in version {1:?} cannot be handled as a {0}: json: cannot unmarshal into Go struct field \
             {0}.{field} of type {expected}",
            kind.kind, kind.version
        ))
    })
}

/// The fields of the metadata, in the order of Go.
pub(crate) const FIELDS: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Checks the types of the fields of the metadata, and drops those that are null, empty or unknown.
///
/// # Errors
/// A field and its type in Go.
fn check_fields(metadata: &mut Map<String, Value>) -> Result<(), (String, &'static str)> {
    let wrong = |field: &str, expected| (format!("metadata.{field}"), expected);
    metadata.retain(|name, value| !value.is_null() && FIELDS.contains(&name.as_str()));
    for field in ["name", "namespace", "generateName", "uid", "resourceVersion"] {
        if metadata.get(field).is_some_and(|value| !value.is_string()) {
            return Err(wrong(field, "string"));
        }
    }
    for field in ["labels", "annotations"] {
        if let Some(value) = metadata.get_mut(field) {
            let Value::Object(map) = value else { return Err(wrong(field, "map[string]string")) };
            map.iter_mut().filter(|(_, v)| v.is_null()).for_each(|(_, v)| *v = "".into());
            if map.values().any(|value| !value.is_string()) {
                return Err(wrong(field, "string"));
            }
        }
    }
    drop_empty(metadata);
    if let Some(value) = metadata.get("finalizers")
        && !value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
    {
        return Err(wrong("finalizers", "[]string"));
    }
    if let Some(value) = metadata.get("ownerReferences")
        && !value.as_array().is_some_and(|list| list.iter().all(is_reference))
    {
        return Err(wrong("ownerReferences", "[]v1.OwnerReference"));
    }
    if let Some(value) = metadata.get("managedFields")
        && !value.as_array().is_some_and(|list| list.iter().all(is_entry))
    {
        return Err(wrong("managedFields", "[]v1.ManagedFieldsEntry"));
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = metadata.get(field)
            && value.as_str().is_none_or(|time| time.parse::<jiff::Timestamp>().is_err())
        {
            return Err(wrong(field, "v1.Time"));
        }
    }
    for field in ["generation", "deletionGracePeriodSeconds"] {
        if metadata.get(field).is_some_and(|value| !value.is_i64()) {
            return Err(wrong(field, "int64"));
        }
    }
    Ok(())
}

/// Drops empty collections, which are treated as missing: Kubernetes omits empty fields when it serializes an object.
fn drop_empty(metadata: &mut Map<String, Value>) {
    let is_empty = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if metadata.get(field).is_some_and(is_empty) {
            metadata.remove(field);
        }
    }
}

/// Whether the fields of a value have the types of those of an owner reference.
fn is_reference(value: &Value) -> bool {
    value.as_object().is_some_and(|reference| {
        reference.iter().all(|(name, value)| match name.as_str() {
            "apiVersion" | "kind" | "name" | "uid" => value.is_string() || value.is_null(),
            "controller" | "blockOwnerDeletion" => value.is_boolean() || value.is_null(),
            _ => true,
        })
    })
}

/// Whether the fields of a value have the types of those of an entry of `managedFields`.
fn is_entry(value: &Value) -> bool {
    value.as_object().is_some_and(|entry| {
        entry.iter().all(|(name, value)| match name.as_str() {
            "manager" | "operation" | "apiVersion" | "fieldsType" | "subresource" => {
                value.is_string() || value.is_null()
            }
            "time" => {
                value.is_null() || value.as_str().is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok())
            }
            _ => true,
        })
    })
}

/// Returns the managers of the fields of an object.
pub(super) fn managed_fields(object: &Object) -> Option<&Value> {
    object.get("metadata").and_then(|metadata| metadata.get("managedFields"))
}

/// Returns the managers that a client gives with an object. An empty list has a meaning, but is dropped from custom objects,
/// as by Kubernetes.
pub(super) fn given_managers(object: &Object, kind: &Kind) -> Option<Value> {
    let given = managed_fields(object)?;
    (!kind.custom || given != &json!([])).then(|| given.clone())
}

/// Returns the metadata of an object that [`check_type`] has accepted.
pub(super) fn of(object: &mut Object) -> &mut Map<String, Value> {
    member(object, "metadata")
}

/// Returns a string field of the metadata; empty if missing.
pub(super) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn finalizers(object: &Object) -> Vec<&str> {
    let list = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets `metadata.finalizers`, or removes it if it is empty.
pub(super) fn set_finalizers(object: &mut Object, finalizers: Value) {
    let metadata = of(object);
    if finalizers.as_array().is_some_and(Vec::is_empty) {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers);
    }
}

pub(super) fn is_terminating(object: &Object) -> bool {
    object.get("metadata").is_some_and(|metadata| metadata.get("deletionTimestamp").is_some())
}

pub(super) const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// Checks the UID of an update, before anything else.
///
/// Follows Kubernetes 1.37 (`Preconditions.Check`).
///
/// # Errors
/// 409 for another UID than that of the object.
pub(super) fn check_precondition(
    kind: &Kind,
    name: &str,
    before: &Object,
    object: &Object,
    dry_run: DryRun,
) -> Result<(), Status> {
    let (given, uid) = (text(object, "uid"), text(before, "uid"));
    if given.is_empty() || given == uid {
        return Ok(());
    }
    let root = if dry_run == DryRun::No { "/registry" } else { "" };
    let key = kind.storage_key(text(before, "namespace"), name);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {root}{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {given}, UID in object meta: {uid}"
    );
    Err(Status::conflict(kind.resource_subject(), name, &why))
}

/// # Errors
/// 400 if the namespaces of the object and of the request differ.
pub(super) fn check_namespace(
    object: &mut Object,
    resource: &Resource,
    namespace: &str,
) -> Result<(), Status> {
    let namespace = if resource.kind.namespaced { namespace } else { "" };
    let metadata = of(object);
    if namespace.is_empty() {
        // Follows Kubernetes 1.37: the namespace of an object without one is dropped.
        metadata.remove("namespace");
        return Ok(());
    }
    match metadata.get("namespace").and_then(Value::as_str).unwrap_or("") {
        given if given == namespace => {}
        "" => {
            metadata.insert("namespace".into(), namespace.into());
        }
        _ => return Err(Status::bad_request(OTHER_NAMESPACE)),
    }
    Ok(())
}

/// Follows Kubernetes 1.37 (`checkName`).
///
/// # Errors
/// 400 if the object of an update has no name, or another than the request.
pub(super) fn check_name(object: &Object, name: &str) -> Result<(), Status> {
    match text(object, "name") {
        given if given == name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}

const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
    used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
    '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
    validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Returns the problem with a name for an object of this kind, if there is one.
pub(super) fn name_fault(kind: &Kind, name: &str) -> Option<Cause> {
    let invalid =
        |rule: &str| Some(Cause::invalid("metadata.name", format!("Invalid value: {name:?}: {rule}")));
    if kind.group == "rbac.authorization.k8s.io" || kind.is("flowcontrol.apiserver.k8s.io", "flowschemas") {
        // Path segments: anything that is valid in a URL.
        return match name {
            "." | ".." => invalid("may not be '.' or '..'"),
            _ if name.contains(['/', '%']) => invalid("may not contain '/' or '%'"),
            _ => None,
        };
    }
    if kind.is("", "namespaces") || kind.is("", "services") {
        return if has_label_form(name) && name.len() <= 63 { None } else { invalid(LABEL_RULE) };
    }
    if name.len() > 253 {
        return invalid("must be no more than 253 bytes");
    }
    if name.split('.').all(has_label_form) { None } else { invalid(SUBDOMAIN_RULE) }
}

/// Returns the problems with the labels, annotations and owners of an object that [`check_type`] has accepted. Follows
/// Kubernetes 1.37 (`ValidateLabels`, `ValidateAnnotations`).
pub(super) fn faults(object: &Object) -> Vec<Cause> {
    let metadata = object.get("metadata");
    let of =
        |field: &str| metadata.and_then(|m| m.get(field)).and_then(Value::as_object).into_iter().flatten();
    let mut faults = Vec::new();
    let mut broken = |field: &str, value: &str, rules: Vec<String>| {
        let path = format!("metadata.{field}");
        faults.extend(rules.iter().map(|rule| causes::invalid(&path, &value.into(), rule)));
    };
    for (key, value) in of("labels") {
        let value = value.as_str().unwrap_or("");
        broken("labels", key, names::qualified_name(key));
        broken("labels", value, names::label_value(value));
    }
    for (key, _) in of("annotations") {
        broken("annotations", key, names::qualified_name(&key.to_lowercase()));
    }
    let metadata = metadata.and_then(Value::as_object).into_iter();
    faults.extend(metadata.flat_map(|metadata| crate::owner_references::faults("metadata", metadata)));
    faults
}

/// Whether two states differ in any field other than metadata and status.
pub(super) fn spec_differs(before: &Object, after: &Object) -> bool {
    fn rest(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
        object
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
    }
    !rest(before).eq(rest(after))
}
