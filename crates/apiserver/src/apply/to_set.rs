//! The set of all fields of an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{FieldSet, Node};
use super::form::{Form, Forms, element_of};
use super::path::PathElement;
use super::schema::{ListKind, ListType, MapType, Schema, TypeRef};

/// Returns the set of the fields of an object. Fields that are not declared are skipped.
///
/// Follows structured-merge-diff 6.4 (`ToFieldSet`).
pub(super) fn to_set(schema: &Schema, of: TypeRef, value: &Value) -> FieldSet {
    node(schema, of, value).children
}

fn node(schema: &Schema, of: TypeRef, value: &Value) -> Node {
    let Some(atom) = schema.atom(of) else { return Node::default() };
    match Forms::of(atom, Some(value)).form(atom) {
        None => Node::default(),
        Some(Form::Scalar(_)) => Node::member(),
        Some(Form::List(list)) if list.kind == ListKind::Atomic => Node::member(),
        Some(Form::Map(map)) if map.is_atomic => Node::member(),
        Some(Form::List(list)) => match value {
            Value::Array(items) => of_items(schema, list, items),
            _ => Node::default(),
        },
        Some(Form::Map(map)) => match value {
            Value::Object(fields) => of_fields(schema, map, fields),
            _ => Node::default(),
        },
    }
}

fn of_items(schema: &Schema, list: &ListType, items: &[Value]) -> Node {
    let mut out = Node::default();
    let Some(of) = list.element else { return out };
    let mut found: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = element_of(schema, list, item) {
            found.entry(element).or_default().push(item);
        }
    }
    for (element, items) in found {
        let below = match items.as_slice() {
            [item] => Node { is_member: true, ..node(schema, of, item) },
            _ => Node::member(),
        };
        out.children.add(element, below);
    }
    out
}

fn of_fields(schema: &Schema, map: &MapType, fields: &Map<String, Value>) -> Node {
    let mut out = Node::default();
    for (name, value) in fields {
        let field = map.field(name);
        let Some(of) = field.map(|field| field.of).or(map.element) else { continue };
        let mut below = node(schema, of, value);
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        below.is_member |= is_empty || field.is_none();
        out.children.add(PathElement::Field(name.as_str().into()), below);
    }
    out
}
