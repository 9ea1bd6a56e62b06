//! Validation of owner references and finalizers.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::apply::go_json;
use crate::builtin::names;
use crate::causes;
use crate::status::Cause;
use crate::storage::{DELETE_DEPENDENTS, ORPHAN_DEPENDENTS};

/// Returns the problems with the owners in a metadata at a path, whose fields have the right types.
///
/// Follows Kubernetes 1.37 (`ValidateOwnerReferences`).
pub(crate) fn faults(path: &str, metadata: &Map<String, Value>) -> Vec<Cause> {
    let path = format!("{path}.ownerReferences");
    let mut faults = Vec::new();
    let mut controller: Option<String> = None;
    let list = of(metadata, "ownerReferences");
    for (position, owner) in list.iter().enumerate() {
        reference_faults(&format!("{path}[{position}]"), owner, &mut faults);
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        match &controller {
            Some(first) => {
                let given: Vec<String> = list.iter().map(serialized).collect();
                let rule = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                     {name}"
                );
                let message = format!("Invalid value: [{}]: {rule}", given.join(","));
                faults.push(Cause::invalid(&path, message));
            }
            None => controller = Some(name),
        }
    }
    faults
}

/// Removes owners that an object has twice, and returns their UIDs. Follows Kubernetes 1.37 (`dedupOwnerReferences`).
pub(crate) fn drop_duplicates(object: &mut Map<String, Value>) -> Vec<String> {
    let owners = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("ownerReferences"));
    let Some(owners) = owners.and_then(Value::as_array_mut) else { return Vec::new() };
    let (mut seen, mut dropped) = (HashSet::new(), Vec::new());
    owners.retain(|owner| {
        let is_new = !owner.is_object() || seen.insert(serialized(owner));
        if !is_new {
            dropped.push(text(owner, "uid").to_owned());
        }
        is_new
    });
    dropped
}

/// Returns the problems with the finalizers in a metadata at a path. Follows Kubernetes 1.37 (`ValidateFinalizers`).
pub(crate) fn finalizer_faults(path: &str, metadata: &Map<String, Value>) -> Vec<Cause> {
    let path = format!("{path}.finalizers");
    let finalizers = of(metadata, "finalizers");
    let names = finalizers.iter().filter_map(Value::as_str);
    let mut faults: Vec<Cause> = names
        .flat_map(|name| names::qualified_name(name).into_iter().map(move |rule| (name, rule)))
        .map(|(name, rule)| causes::invalid(&path, &name.into(), &rule))
        .collect();
    let has = |finalizer: &str| finalizers.iter().any(|other| other == finalizer);
    if has(DELETE_DEPENDENTS) && has(ORPHAN_DEPENDENTS) {
        let given = Value::from(finalizers.to_vec());
        let rule = format!("finalizer {ORPHAN_DEPENDENTS} and {DELETE_DEPENDENTS} cannot be both set");
        faults.push(Cause::invalid(&path, format!("Invalid value: {given}: {rule}")));
    }
    faults
}

fn reference_faults(path: &str, owner: &Value, faults: &mut Vec<Cause>) {
    let version = text(owner, "apiVersion");
    // One slash at most, and a version after it.
    let is_version = version.split('/').count() <= 2 && !version.ends_with('/');
    if !version.is_empty() && !is_version {
        let message = format!("Invalid value: {version:?}: must be <group>/<version> or <version>");
        faults.push(Cause::invalid(&format!("{path}.apiVersion"), message));
    }
    for field in ["apiVersion", "kind", "name", "uid"] {
        if text(owner, field).is_empty() {
            faults.push(causes::required(&format!("{path}.{field}"), "must not be empty"));
        }
    }
    if (version, text(owner, "kind")) == ("v1", "Event") {
        let rule = "/v1, Kind=Event is disallowed from being an owner";
        faults.push(Cause::invalid(path, format!("Invalid value: {}: {rule}", serialized(owner))));
    }
}

fn of<'a>(metadata: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    metadata.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(owner: &'a Value, field: &str) -> &'a str {
    owner.get(field).and_then(Value::as_str).unwrap_or("")
}

/// Returns a reference as Kubernetes serializes it: the texts also if they are missing.
fn serialized(owner: &Value) -> String {
    let texts = ["apiVersion", "kind", "name", "uid"];
    let texts = texts.iter().map(|field| format!("\"{field}\":{}", go_json(&text(owner, field).into())));
    let flags = ["controller", "blockOwnerDeletion"];
    let flags =
        flags.iter().filter_map(|field| Some(format!("\"{field}\":{}", owner.get(field)?.as_bool()?)));
    format!("{{{}}}", texts.chain(flags).collect::<Vec<_>>().join(","))
}

/// The warning for owners that an object had twice. Follows Kubernetes 1.37.
pub(crate) fn duplicates_warning(uids: &[String], when: &str) -> Option<String> {
    let uids = (!uids.is_empty()).then(|| uids.join(", "))?;
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
         reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    ))
}
