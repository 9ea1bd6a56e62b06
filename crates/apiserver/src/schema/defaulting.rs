//! Sets the defaults of a schema, and removes nulls that it does not allow.

use serde_json::{Map, Value};

use super::structural::Structural;

/// Sets the defaults of missing fields, and replaces nulls that the schema does not allow.
///
/// Follows Kubernetes 1.37 (`defaulting.Default`).
pub(crate) fn set_defaults(object: &mut Map<String, Value>, schema: &Structural) {
    for (name, property) in schema.properties() {
        let Some(default) = &property.default else { continue };
        match object.get_mut(name) {
            None => {
                object.insert(name.to_owned(), default.clone());
            }
            Some(value) if value.is_null() && !property.is_nullable => *value = default.clone(),
            Some(_) => {}
        }
    }
    for (name, value) in object {
        match schema.property(name) {
            Some(property) => set_inside(value, property),
            None => {
                if let Some(of) = schema.additional.schema() {
                    replace_null(value, of);
                    set_inside(value, of);
                }
            }
        }
    }
}

fn set_inside(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(fields) => set_defaults(fields, schema),
        Value::Array(items) => {
            let Some(of) = schema.items.as_deref() else { return };
            for item in items {
                replace_null(item, of);
                set_inside(item, of);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Structural) {
    if let Some(default) = &schema.default
        && value.is_null()
        && !schema.is_nullable
    {
        *value = default.clone();
    }
}

/// Removes the fields that are null, unless the schema allows that or has a default. Nulls in lists stay.
///
/// Follows Kubernetes 1.37 (`defaulting.PruneNonNullableNullsWithoutDefaults`).
pub(crate) fn remove_nulls(object: &mut Map<String, Value>, schema: &Structural) {
    object.retain(|name, value| {
        let Some(of) = schema.field(name) else { return true };
        if value.is_null() && !of.is_nullable && of.default.is_none() {
            return false;
        }
        remove_inside(value, of);
        true
    });
}

fn remove_inside(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(fields) => remove_nulls(fields, schema),
        Value::Array(items) => {
            if let Some(of) = schema.items.as_deref() {
                items.iter_mut().for_each(|item| remove_inside(item, of));
            }
        }
        _ => {}
    }
}
