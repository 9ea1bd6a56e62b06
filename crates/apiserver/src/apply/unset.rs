//! Fields that kube-apiserver does not keep, because its types have no such value.

use serde_json::{Map, Value};

use super::schema::{Atom, DEDUCED, FieldType, STRING, Schema, TypeRef};

/// Removes the fields that the conversion to Go structs removes: those of built-in kinds that are null, or empty maps and
/// lists; those of custom resources that are null and declared as not nullable.
pub(crate) fn drop_unset(schema: &Schema, api_version: &str, kind: &str, object: &mut Map<String, Value>) {
    if let Some(atom) = schema.of_kind(api_version, kind).and_then(|of| schema.atom(of)) {
        drop_fields(schema, atom, object);
    }
}

fn drop_below(schema: &Schema, of: TypeRef, value: &mut Value) {
    let Some(atom) = schema.atom(of) else { return };
    match value {
        Value::Object(fields) => drop_fields(schema, atom, fields),
        Value::Array(items) => {
            if let Some(of) = atom.list.as_ref().and_then(|list| list.element) {
                items.iter_mut().for_each(|item| drop_below(schema, of, item));
            }
        }
        _ => {}
    }
}

fn drop_fields(schema: &Schema, atom: &Atom, fields: &mut Map<String, Value>) {
    let Some(map) = &atom.map else { return };
    fields.retain(|name, value| {
        let field = map.field(name);
        // A null is an empty text in a map of texts.
        if field.is_none() && value.is_null() && schema.is_builtin() && map.element == Some(STRING) {
            *value = "".into();
        }
        let is_kept = match field {
            Some(field) => field.is_nullable,
            None => !schema.is_builtin() || map.element == Some(DEDUCED),
        };
        let Some(of) = map.type_of(name) else { return is_kept || !value.is_null() };
        drop_below(schema, of, value);
        is_kept || !(value.is_null() || is_empty(schema, field, of, value))
    });
}

/// Whether a field of a built-in kind is an empty map or list that is not written.
fn is_empty(schema: &Schema, field: Option<&FieldType>, of: TypeRef, value: &Value) -> bool {
    let Some(field) = field.filter(|_| schema.is_builtin()) else { return false };
    let Some(atom) = schema.atom(of).filter(|_| !field.is_zero) else { return false };
    match (value, atom) {
        (Value::Array(items), Atom { list: Some(_), map: None, .. }) => items.is_empty(),
        (Value::Object(members), Atom { map: Some(map), list: None, .. }) => {
            members.is_empty() && map.fields().is_empty() && map.element.is_some_and(|of| of != DEDUCED)
        }
        _ => false,
    }
}
