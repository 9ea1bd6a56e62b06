//! A node of a schema as JSON.

use serde_json::{Map, Value};

/// A node of an `openAPIV3Schema`, as it is written in a definition.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Node<'a> {
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// Returns a field that is not null.
    pub(super) fn get(self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn text(self, field: &str) -> &'a str {
        self.get(field).and_then(Value::as_str).unwrap_or("")
    }

    pub(super) fn flag(self, field: &str) -> bool {
        self.get(field) == Some(&Value::Bool(true))
    }

    pub(super) fn node(self, field: &str) -> Option<Self> {
        self.get(field).and_then(Self::of)
    }

    /// Returns the nodes of a map, sorted by name.
    pub(super) fn named(self, field: &str) -> impl Iterator<Item = (&'a String, Self)> {
        let map = self.get(field).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(name, value)| Some((name, Self::of(value)?)))
    }

    /// Returns the nodes of a list.
    pub(super) fn listed(self, field: &str) -> impl Iterator<Item = (usize, Self)> {
        let list = self.get(field).and_then(Value::as_array);
        let nodes = list.into_iter().flatten().enumerate();
        nodes.filter_map(|(index, value)| Some((index, Self::of(value)?)))
    }

    pub(super) fn texts(self, field: &str) -> impl Iterator<Item = &'a str> {
        self.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    pub(super) fn property(self, name: &str) -> Option<Self> {
        self.node("properties")?.node(name)
    }

    /// Whether a schema or one in it has a property.
    pub(super) fn has(self, is: &dyn Fn(Self) -> bool) -> bool {
        let inner = ["items", "not", "additionalProperties", "additionalItems"];
        let lists = ["items", "allOf", "anyOf", "oneOf"];
        let maps = ["properties", "patternProperties", "definitions", "dependencies"];
        is(self)
            || inner.iter().any(|field| self.node(field).is_some_and(|node| node.has(is)))
            || lists.iter().any(|field| self.listed(field).any(|(_, node)| node.has(is)))
            || maps.iter().any(|field| self.named(field).any(|(_, node)| node.has(is)))
    }

    pub(super) fn is_filled(self, field: &str) -> bool {
        match self.get(field) {
            Some(Value::Object(map)) => !map.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Bool(flag)) => *flag,
            Some(_) => true,
            None => false,
        }
    }
}
