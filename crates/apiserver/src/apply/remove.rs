//! Removing fields from an object.

use serde_json::{Map, Value};

use super::fields::FieldSet;
use super::form::{Form, Forms, element_of};
use super::schema::{ListKind, ListType, MapType, Schema, TypeRef};

/// Returns the object without these fields. A container that has become empty is null.
///
/// Follows structured-merge-diff 6.4 (`RemoveItems`).
pub(super) fn remove(schema: &Schema, of: TypeRef, value: &Value, gone: &FieldSet) -> Value {
    let Some(atom) = schema.atom(of) else { return Value::Null };
    match (Forms::of(atom, Some(value)).form(atom), value) {
        (Some(Form::Scalar(_)), value) => value.clone(),
        (Some(Form::List(list)), Value::Array(items)) if list.kind != ListKind::Atomic => {
            from_items(schema, list, items, gone)
        }
        (Some(Form::Map(map)), Value::Object(fields)) if !map.is_atomic => {
            from_fields(schema, map, fields, gone)
        }
        _ => Value::Null,
    }
}

fn from_items(schema: &Schema, list: &ListType, items: &[Value], gone: &FieldSet) -> Value {
    let mut out = Vec::new();
    for item in items {
        let node = element_of(schema, list, item).ok().and_then(|element| gone.get(&element));
        match (node, list.element) {
            (Some(node), _) if node.is_member => {}
            (Some(node), Some(of)) if !node.children.is_empty() => {
                out.push(remove(schema, of, item, &node.children));
            }
            _ => out.push(item.clone()),
        }
    }
    if out.is_empty() { Value::Null } else { Value::Array(out) }
}

fn from_fields(schema: &Schema, map: &MapType, fields: &Map<String, Value>, gone: &FieldSet) -> Value {
    let mut out = Map::new();
    for (name, value) in fields {
        let node = gone.field(name);
        match (node, map.type_of(name)) {
            (Some(node), _) if node.is_member => {}
            (Some(node), Some(of)) if !node.children.is_empty() => {
                out.insert(name.clone(), remove(schema, of, value, &node.children));
            }
            _ => {
                out.insert(name.clone(), value.clone());
            }
        }
    }
    if out.is_empty() { Value::Null } else { Value::Object(out) }
}
