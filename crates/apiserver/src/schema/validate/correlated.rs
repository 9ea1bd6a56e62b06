//! The old value of a value that is validated.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::structural::{ListKind, Structural};

/// A value and the one in its place before the write.
///
/// Follows Kubernetes 1.37 (`cel/common.CorrelatedObject`).
#[derive(Clone, Copy)]
pub(in super::super) struct Correlated<'a> {
    pub(in super::super) old: Old<'a>,
    pub(in super::super) new: &'a Value,
    pub(in super::super) schema: &'a Structural,
}

/// The old value; the whole object is known by its fields.
#[derive(Clone, Copy)]
pub(in super::super) enum Old<'a> {
    Value(&'a Value),
    Fields(&'a Map<String, Value>),
}

impl<'a> Old<'a> {
    pub(in super::super) fn fields(self) -> Option<&'a Map<String, Value>> {
        match self {
            Self::Value(value) => value.as_object(),
            Self::Fields(fields) => Some(fields),
        }
    }

    pub(in super::super) fn items(self) -> Option<&'a Vec<Value>> {
        match self {
            Self::Value(value) => value.as_array(),
            Self::Fields(_) => None,
        }
    }
}

/// The old items of a list with keys.
pub(in super::super) struct OldItems<'a> {
    by_key: HashMap<Vec<&'a Value>, &'a Value>,
    keys: &'a [Box<str>],
    schema: &'a Structural,
}

impl<'a> OldItems<'a> {
    /// Returns an item with the old one that has its keys.
    pub(in super::super) fn of(&self, new: &'a Value) -> Option<Correlated<'a>> {
        let old = self.by_key.get(&key_of(new, self.keys)?)?;
        Some(Correlated { old: Old::Value(old), new, schema: self.schema })
    }
}

impl<'a> Correlated<'a> {
    /// Returns a field that both values have and the schema declares.
    pub(in super::super) fn key(self, name: &str) -> Option<Self> {
        let (old, new) = (self.old.fields()?.get(name)?, self.new.as_object()?.get(name)?);
        Some(Self { old: Old::Value(old), new, schema: self.schema.field(name)? })
    }

    /// Returns the old items of a list with keys. Those of other lists are not known.
    pub(in super::super) fn items(self) -> Option<OldItems<'a>> {
        let ListKind::Map(keys) = &self.schema.list else { return None };
        let mut by_key = HashMap::new();
        for item in self.old.items()? {
            if let Some(key) = key_of(item, keys) {
                by_key.entry(key).or_insert(item);
            }
        }
        Some(OldItems { by_key, keys, schema: self.schema.items.as_deref()? })
    }

    pub(in super::super) fn is_equal(self) -> bool {
        if let (Some(old), Some(new)) = (self.old.fields(), self.new.as_object()) {
            return old.len() == new.len()
                && new.keys().all(|name| self.key(name).is_some_and(Correlated::is_equal));
        }
        let Old::Value(old) = self.old else { return false };
        match (old, self.new) {
            (Value::Array(old), Value::Array(new)) if matches!(self.schema.list, ListKind::Map(_)) => {
                let items = self.items();
                let is_equal = |new| items.as_ref()?.of(new).map(Correlated::is_equal);
                old.len() == new.len() && new.iter().all(|new| is_equal(new).unwrap_or_default())
            }
            (old, new) => old == new,
        }
    }
}

/// Returns the values of the keys of an item, if all are scalars.
fn key_of<'a>(item: &'a Value, keys: &[Box<str>]) -> Option<Vec<&'a Value>> {
    let fields = item.as_object()?;
    let is_scalar = |value: &&Value| value.is_string() || value.is_number() || value.is_boolean();
    keys.iter().map(|key| fields.get(key.as_ref()).filter(is_scalar)).collect()
}
