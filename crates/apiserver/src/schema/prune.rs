//! Removes the fields of an object that its schema does not have.

use serde_json::{Map, Value};

use super::structural::{Additional, Structural};
use super::trail::Trail;

/// The fields that every object has.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(super) fn is_meta(name: &str) -> bool {
    META.contains(&name)
}

/// Removes the fields of an object that its schema does not have, apart from `apiVersion`, `kind` and what is in
/// `metadata`. Returns their paths, sorted: `spec.items[0].a`.
///
/// Follows Kubernetes 1.37 (`pruning.PruneWithOptions`).
pub(crate) fn prune(object: &mut Map<String, Value>, schema: &Structural) -> Vec<String> {
    let mut pruning = Pruning { trail: Trail::default(), removed: Vec::new() };
    if schema.keeps_unknown {
        pruning.keep_fields(object, schema, true);
    } else {
        pruning.fields(object, schema, true);
    }
    pruning.removed.sort_unstable();
    pruning.removed
}

/// As [`prune`], for a value inside an object.
pub(super) fn prune_value(value: &mut Value, schema: &Structural) {
    Pruning { trail: Trail::default(), removed: Vec::new() }.value(value, Some(schema));
}

struct Pruning {
    trail: Trail,
    removed: Vec<String>,
}

impl Pruning {
    fn value(&mut self, value: &mut Value, schema: Option<&Structural>) {
        if let Some(schema) = schema.filter(|schema| schema.keeps_unknown) {
            return self.keep(value, schema);
        }
        match (value, schema) {
            (Value::Object(fields), None) => {
                self.removed.extend(fields.keys().map(|name| self.trail.with_name(name)));
                fields.clear();
            }
            (Value::Object(fields), Some(schema)) => self.fields(fields, schema, schema.is_embedded),
            (Value::Array(items), schema) => {
                let of = schema.and_then(|schema| schema.items.as_deref());
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.trail.push_index(index);
                    self.value(item, of);
                    self.trail.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>, schema: &Structural, is_embedded: bool) {
        fields.retain(|name, value| {
            if is_embedded && is_meta(name) {
                return true;
            }
            let of = match (schema.property(name), &schema.additional) {
                (Some(property), _) => Some(property),
                (None, Additional::Schema(schema)) => Some(schema.as_ref()),
                (None, Additional::Allowed(_)) => None,
                (None, Additional::Undeclared) => {
                    self.removed.push(self.trail.with_name(name));
                    return false;
                }
            };
            let length = self.trail.push_name(name);
            self.value(value, of);
            self.trail.truncate(length);
            true
        });
    }

    /// Keeps the fields that the schema does not have.
    fn keep(&mut self, value: &mut Value, schema: &Structural) {
        match value {
            Value::Object(fields) => self.keep_fields(fields, schema, schema.is_embedded),
            Value::Array(items) => {
                let Some(of) = schema.items.as_deref() else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.trail.push_index(index);
                    self.keep(item, of);
                    self.trail.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn keep_fields(&mut self, fields: &mut Map<String, Value>, schema: &Structural, is_embedded: bool) {
        for (name, value) in fields {
            if is_embedded && is_meta(name) {
                continue;
            }
            let of = match (schema.property(name), &schema.additional) {
                (None, Additional::Undeclared) => continue,
                (property, additional) => property.or_else(|| additional.schema()),
            };
            let length = self.trail.push_name(name);
            self.value(value, of);
            self.trail.truncate(length);
        }
    }
}
