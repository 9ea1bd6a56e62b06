//! Fields that are null after an apply.

use serde_json::Value;

use super::schema::{DEDUCED, Schema, TypeRef};

/// Removes the fields that are null, as the conversion to Go structs does; those of custom resources only if they are
/// declared as not nullable.
pub(super) fn drop_nulls(schema: &Schema, of: TypeRef, value: &mut Value) {
    let Some(atom) = schema.atom(of) else { return };
    match value {
        Value::Object(fields) => {
            let Some(map) = &atom.map else { return };
            fields.retain(|name, value| {
                let field = map.field(name);
                let is_kept = match field {
                    Some(field) => field.is_nullable,
                    None => !schema.is_builtin() || map.element == Some(DEDUCED),
                };
                if let Some(of) = map.type_of(name) {
                    drop_nulls(schema, of, value);
                }
                is_kept || !value.is_null()
            });
        }
        Value::Array(items) => {
            if let Some(of) = atom.list.as_ref().and_then(|list| list.element) {
                items.iter_mut().for_each(|item| drop_nulls(schema, of, item));
            }
        }
        _ => {}
    }
}
