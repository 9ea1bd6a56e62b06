//! The annotation of client-side apply.

use serde_json::{Map, Value};

use super::compare::{Nulls, compare};
use super::fields::FieldSet;
use super::schema::{Schema, TypeRef};
use super::to_set::to_set;
use super::validate::{Duplicates, validate};
use super::value;

pub(super) const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The limit of Kubernetes for all annotations of an object.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The manager that may take what its own client-side apply owns.
pub(super) const KUBECTL: &str = "kubectl";

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// The fields that client-side apply has set and that have its values, if the object has the annotation.
///
/// Follows Kubernetes 1.37 (`lastAppliedManager`).
pub(super) fn owned(schema: &Schema, of: TypeRef, api_version: &str, live: &Value) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    if !validate(schema, of, &last, Duplicates::Refused).is_empty()
        || !validate(schema, of, live, Duplicates::Refused).is_empty()
    {
        return None;
    }
    let compared = compare(schema, of, &last, live, Nulls::Missing).ok()?;
    let set = to_set(schema, of, &last);
    Some(set.difference(&compared.modified).difference(&compared.added).difference(&compared.removed))
}

/// Replaces the annotation, if the object has one, by the applied object.
///
/// Follows Kubernetes 1.37 (`lastAppliedUpdater`).
pub(super) fn update(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = annotations(&mut applied) {
        annotations.remove(ANNOTATION);
    }
    let mut text = String::new();
    value::write_json(&mut text, &applied);
    text.push('\n');
    let Some(annotations) = annotations(object) else { return };
    annotations.insert(ANNOTATION.into(), text.into());
    let size = annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len));
    if size.sum::<usize>() > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn annotations(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}
