//! The variables of the environment of a container, and their sources.

use std::collections::HashMap;

use serde_json::Value;

use super::super::super::check::{Check, Fields};
use super::super::super::names;
use super::super::super::quantity::Quantity;

const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields of a pod that a file can have.
pub(super) const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn variables(c: &mut Check, variables: &[Value]) {
    c.each("env", variables, |c, variable| {
        let name = variable.text("name");
        if name.is_empty() {
            c.required("name", "");
        } else {
            c.rules("name", name, names::variable(name));
        }
        if variable.has("valueFrom") {
            c.enter("valueFrom", |c| value_from(c, variable));
        }
    });
}

fn value_from(c: &mut Check, variable: &Value) {
    let from = variable.of("valueFrom");
    if from.has("fieldRef") {
        c.enter("fieldRef", |c| field_ref(c, from.of("fieldRef"), &FIELDS));
    }
    if from.has("resourceFieldRef") {
        c.enter("resourceFieldRef", |c| resource_ref(c, from.of("resourceFieldRef"), false));
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if from.has(field) {
            c.enter(field, |c| key_ref(c, from.of(field)));
        }
    }
    if from.has("fileKeyRef") {
        c.enter("fileKeyRef", |c| file_ref(c, from.of("fileKeyRef")));
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    match sources.iter().filter(|source| from.has(source)).count() {
        0 => {
            let rule = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                `fileKeyRef`";
            c.invalid("", "", rule);
        }
        _ if !variable.text("value").is_empty() => {
            c.invalid("", "", "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => c.invalid("", "", "may not have more than one field specified at a time"),
    }
}

/// The selector of a field of the pod.
pub(super) fn field_ref(c: &mut Check, reference: &Value, fields: &[&str]) {
    for field in ["apiVersion", "fieldPath"] {
        if reference.text(field).is_empty() {
            return c.required(field, "");
        }
    }
    let (version, path) = (reference.text("apiVersion"), reference.text("fieldPath"));
    if let Some(rule) = conversion_error(version, path) {
        return c.invalid("fieldPath", path, &format!("error converting fieldPath: {rule}"));
    }
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    match subscript(path) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            c.rules("", &key, names::qualified_name(&key));
        }
        Some(("metadata.labels", key)) => c.rules("", key, names::qualified_name(key)),
        Some((path, _)) => c.invalid("", path, "does not support subscript"),
        None if fields.contains(&path) => {}
        None => c.not_supported("fieldPath", path, fields),
    }
}

fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

fn conversion_error(version: &str, path: &str) -> Option<String> {
    const LABELS: [&str; 15] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "spec.host",
    ];
    if version != "v1" {
        return Some(format!("unsupported pod version: {version}"));
    }
    match subscript(path) {
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {path}")),
        None if LABELS.contains(&path) => None,
        None => Some(format!("field label not supported: {path}")),
    }
}

/// The selector of a resource of a container.
pub(super) fn resource_ref(c: &mut Check, reference: &Value, is_file: bool) {
    let resource = reference.text("resource");
    let has_prefix = ["requests.hugepages-", "limits.hugepages-"].iter().any(|it| resource.starts_with(it));
    if is_file && reference.text("containerName").is_empty() {
        c.required("containerName", "");
    } else if resource.is_empty() {
        c.required("resource", "");
    } else if !RESOURCES.contains(&resource) && !has_prefix {
        c.not_supported("resource", resource, &RESOURCES);
    }
    let divisor = reference.text("divisor");
    if Quantity::parse(divisor).map_or(true, |divisor| divisor.signum() == 0) {
        return;
    }
    let (name, supported, listed): (_, &[&str], _) = match resource {
        "limits.cpu" | "requests.cpu" => ("cpu", &["1m", "1"], "1m and 1".to_owned()),
        "limits.memory" | "requests.memory" => ("memory", &SIZES, SIZES.join(", ")),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            ("local ephemeral storage", &SIZES, SIZES.join(", "))
        }
        _ if has_prefix => ("hugepages", &SIZES, SIZES.join(", ")),
        _ => return,
    };
    if !supported.contains(&divisor) {
        let rule = format!("only divisor's values {listed} are supported with the {name} resource");
        c.invalid("divisor", resource, &rule);
    }
}

fn key_ref(c: &mut Check, reference: &Value) {
    let (name, key) = (reference.text("name"), reference.text("key"));
    c.rules("name", name, names::subdomain(name));
    if key.is_empty() {
        c.required("key", "");
    } else {
        c.rules("key", key, names::data_key(key));
    }
}

fn file_ref(c: &mut Check, reference: &Value) {
    let given = |c: &mut Check, field: &str| {
        let text = reference.text(field);
        if text.is_empty() {
            c.required(field, "");
        }
        text.to_owned()
    };
    let key = given(c, "key");
    if !key.is_empty() {
        c.rules("key", &key, names::variable(&key));
    }
    let volume = given(c, "volumeName");
    if !volume.is_empty() {
        c.rules("volumeName", &volume, names::label(&volume));
    }
    let path = given(c, "path");
    super::shared::no_backsteps(c, "path", &path);
}

pub(super) fn sources(c: &mut Check, sources: &[Value]) {
    c.enter("envFrom", |c| {
        for (index, source) in sources.iter().enumerate() {
            c.index(index, |c| {
                let prefix = source.text("prefix");
                if !prefix.is_empty() {
                    c.rules("prefix", prefix, names::variable(prefix));
                }
                for field in ["configMapRef", "secretRef"] {
                    let name = source.of(field).text("name");
                    match (source.has(field), name) {
                        (true, "") => c.required(&format!("{field}.name"), ""),
                        (true, name) => {
                            // a prefix of a name may end with a dash
                            let masked = name.strip_suffix('-').map(|name| format!("{name}a"));
                            let broken = names::subdomain(masked.as_deref().unwrap_or(name));
                            c.rules(&format!("{field}.name"), name, broken);
                        }
                        _ => {}
                    }
                }
            });
            match (source.has("configMapRef"), source.has("secretRef")) {
                (false, false) => c.invalid("", "", "must specify one of: `configMapRef` or `secretRef`"),
                (true, true) => c.invalid("", "", "may not have more than one field specified at a time"),
                _ => {}
            }
        }
    });
}

/// The volumes of files with variables must be empty directories.
pub(super) fn file_volumes(c: &mut Check, spec: &Value) {
    let volumes = spec.items("volumes").iter().map(|volume| (volume.text("name"), volume));
    let volumes: HashMap<&str, &Value> = volumes.collect();
    for list in ["initContainers", "containers"] {
        c.each(list, spec.items(list), |c, container| {
            c.each("env", container.items("env"), |c, variable| {
                let reference = variable.of("valueFrom").of("fileKeyRef");
                if reference.is_null() {
                    return;
                }
                let (field, name) = ("valueFrom.fileKeyRef.volumeName", reference.text("volumeName"));
                match volumes.get(name) {
                    None => c.not_found(field, name, ""),
                    Some(volume) if volume.has("emptyDir") => {}
                    Some(_) => c.invalid(field, name, "referenced volume must be of type emptyDir"),
                }
            });
        });
    }
}
