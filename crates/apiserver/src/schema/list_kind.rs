//! The items of sets and of lists with keys are unique.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::status::Cause;

use super::structural::{ListKind, Structural};
use super::trail::Trail;
use crate::causes;

/// Returns the items that occur twice in the sets and the lists with keys of an object.
///
/// Follows Kubernetes 1.37 (`listtype.ValidateListSetsAndMaps`).
pub(crate) fn duplicates(object: &Map<String, Value>, schema: &Structural) -> Vec<Cause> {
    let mut search = Search { path: Trail::default(), found: Vec::new() };
    search.fields(object, schema);
    search.found
}

pub(super) fn has_duplicates(items: &[Value]) -> bool {
    !repeated(items.iter()).is_empty()
}

/// Returns the indexes of the first repetition of each item.
fn repeated<T: serde::Serialize>(items: impl Iterator<Item = T>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, item) in items.enumerate() {
        let count = seen.entry(serde_json::to_string(&item).unwrap_or_default()).or_default();
        *count += 1;
        if *count == 2 {
            found.push(index);
        }
    }
    found
}

struct Search {
    path: Trail,
    found: Vec<Cause>,
}

impl Search {
    fn value(&mut self, value: &Value, schema: &Structural) {
        match value {
            Value::Object(fields) => self.fields(fields, schema),
            Value::Array(items) => self.items(items, schema),
            _ => {}
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, schema: &Structural) {
        if let Some(of) = schema.additional.schema() {
            for (name, value) in fields {
                let length = self.path.push_key(name);
                self.value(value, of);
                self.path.truncate(length);
            }
        }
        for (name, value) in fields {
            let Some(property) = schema.property(name) else { continue };
            let length = self.path.push_name(name);
            self.value(value, property);
            self.path.truncate(length);
        }
    }

    fn items(&mut self, items: &[Value], schema: &Structural) {
        match &schema.list {
            ListKind::Atomic => {}
            ListKind::Set => {
                for index in repeated(items.iter()) {
                    let Some(item) = items.get(index) else { continue };
                    self.found.push(causes::duplicate(&self.path.with_index(index), item));
                }
            }
            ListKind::Map(keys) => self.keyed(items, keys),
        }
        let Some(of) = schema.items.as_deref() else { return };
        for (index, item) in items.iter().enumerate() {
            let length = self.path.push_index(index);
            self.value(item, of);
            self.path.truncate(length);
        }
    }

    fn keyed(&mut self, items: &[Value], keys: &[Box<str>]) {
        let wrong = items.iter().enumerate().find(|(_, item)| !item.is_null() && !item.is_object());
        if let Some((index, item)) = wrong {
            let detail = "must be an object for an array of list-type map";
            self.found.push(causes::invalid(&self.path.with_index(index), item, detail));
            return;
        }
        let keys_of: Vec<Value> = items.iter().map(|item| keys_of(item, keys)).collect();
        for index in repeated(keys_of.iter()) {
            let Some(item) = keys_of.get(index) else { continue };
            self.found.push(causes::duplicate(&self.path.with_index(index), item));
        }
    }
}

/// Returns the keys that an item has.
fn keys_of(item: &Value, keys: &[Box<str>]) -> Value {
    let present = keys.iter().filter_map(|key| Some((key.to_string(), item.get(key.as_ref())?.clone())));
    Value::Object(present.collect())
}
