//! The metadata of resources inside of objects (`x-kubernetes-embedded-resource`).

mod fields;
mod rules;

use serde_json::{Map, Value};

use crate::status::Cause;

use super::structural::Structural;
use super::trail::Trail;

use crate::causes;
pub(super) use fields::{PREFIX, definitions, reference, restrict};
pub(crate) use rules::{annotation_faults, label_faults};

/// What happens to values of wrong types in the metadata of embedded resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    Refused,
    /// They are removed, as in objects that are read from the storage.
    Dropped,
}

/// Brings the metadata of embedded resources into the form of an `ObjectMeta`. Returns the paths of the fields that were
/// removed, sorted.
///
/// Follows Kubernetes 1.37 (`objectmeta.Coerce`).
///
/// # Errors
/// The first value of a wrong type, if these are refused.
pub(super) fn coerce(
    object: &mut Map<String, Value>,
    schema: &Structural,
    malformed: Malformed,
) -> Result<Vec<String>, Cause> {
    let mut coercion = Coercion { path: Trail::default(), removed: Vec::new(), malformed };
    coercion.fields(object, schema)?;
    coercion.removed.sort_unstable();
    Ok(coercion.removed)
}

/// As [`coerce`], for a value inside an object.
///
/// # Errors
/// As [`coerce`].
pub(super) fn coerce_value(
    value: &mut Value,
    schema: &Structural,
    malformed: Malformed,
) -> Result<(), Cause> {
    Coercion { path: Trail::default(), removed: Vec::new(), malformed }.value(value, schema)
}

/// Returns what is wrong with the embedded resources of a value at a path.
///
/// Follows Kubernetes 1.37 (`objectmeta.Validate`).
pub(crate) fn faults(path: &str, value: &Value, schema: &Structural) -> Vec<Cause> {
    let mut search = Search { path: Trail::default(), found: Vec::new() };
    search.path.push_name(path);
    search.value(value, schema);
    search.found
}

struct Coercion {
    path: Trail,
    removed: Vec<String>,
    malformed: Malformed,
}

impl Coercion {
    fn value(&mut self, value: &mut Value, schema: &Structural) -> Result<(), Cause> {
        match value {
            Value::Object(fields) => self.fields(fields, schema),
            Value::Array(items) => {
                let Some(of) = schema.items.as_deref() else { return Ok(()) };
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.push_index(index);
                    self.value(item, of)?;
                    self.path.truncate(length);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>, schema: &Structural) -> Result<(), Cause> {
        if schema.is_embedded && self.malformed == Malformed::Dropped {
            fields.retain(|name, value| value.is_string() || !matches!(name.as_str(), "apiVersion" | "kind"));
        }
        for (name, value) in fields {
            if schema.is_embedded {
                self.meta(name, value)?;
            }
            let (of, length) = match (schema.property(name), schema.additional.schema()) {
                (Some(property), _) => (property, self.path.push_name(name)),
                (None, Some(of)) => (of, self.path.push_key(name)),
                (None, None) => continue,
            };
            self.value(value, of)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn meta(&mut self, name: &str, value: &mut Value) -> Result<(), Cause> {
        match name {
            "apiVersion" | "kind" if !value.is_string() => {
                Err(causes::invalid(&self.path.with_name(name), value, "must be a string"))
            }
            "metadata" => {
                let mut removed = Vec::new();
                let path = || self.path.with_name(name);
                let typed = match (fields::typed(value, &mut removed), &value) {
                    (Ok(typed), _) => typed,
                    (Err(why), _) if self.malformed == Malformed::Refused => {
                        return Err(causes::invalid(&path(), value, &why));
                    }
                    (Err(_), Value::Object(given)) => fields::fitting(given),
                    (Err(_), _) => return Ok(()),
                };
                *value = Value::Object(typed);
                let removed: Vec<String> =
                    removed.into_iter().map(|field| format!("{}.{field}", path())).collect();
                self.removed.extend(removed);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

struct Search {
    path: Trail,
    found: Vec<Cause>,
}

impl Search {
    fn value(&mut self, value: &Value, schema: &Structural) {
        match value {
            Value::Object(fields) => self.fields(fields, schema),
            Value::Array(items) => {
                let Some(of) = schema.items.as_deref() else { return };
                for (index, item) in items.iter().enumerate() {
                    let length = self.path.push_index(index);
                    self.value(item, of);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, schema: &Structural) {
        if schema.is_embedded {
            self.found.extend(rules::faults(self.path.text(), fields));
        }
        for (name, value) in fields {
            let (of, length) = match (schema.property(name), schema.additional.schema()) {
                (Some(property), _) => (property, self.path.push_name(name)),
                (None, Some(of)) => (of, self.path.push_key(name)),
                (None, None) => continue,
            };
            self.value(value, of);
            self.path.truncate(length);
        }
    }
}
