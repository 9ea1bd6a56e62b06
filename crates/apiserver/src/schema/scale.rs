//! The values at the paths of the scale subresource.

use serde_json::{Map, Value};

use crate::apply::{go_text, go_type};
use crate::status::Cause;

use crate::causes::invalid_text;

/// Returns what is wrong with a replica count.
///
/// Follows Kubernetes 1.37 (`customResourceValidator.ValidateScaleSpec`).
pub(crate) fn count_fault(object: &Map<String, Value>, path: &[String]) -> Option<Cause> {
    let field = joined(path);
    let value = match find(object, path) {
        Err(why) => return Some(invalid_text(&field, "0", &why)),
        Ok(value) => value?,
    };
    let Some(count) = value.as_i64() else {
        return Some(invalid_text(&field, "0", &wrong_type(&field, value, "int64")));
    };
    let why = match count {
        i64::MIN..=-1 => "should be a non-negative integer",
        0..=0x7fff_ffff => return None,
        _ => "should be less than or equal to 2147483647",
    };
    Some(invalid_text(&field, &count.to_string(), why))
}

pub(super) fn selector_fault(object: &Map<String, Value>, path: &[String]) -> Option<Cause> {
    let field = joined(path);
    match find(object, path) {
        Err(why) => Some(invalid_text(&field, "\"\"", &why)),
        Ok(Some(value)) if !value.is_string() => {
            Some(invalid_text(&field, "\"\"", &wrong_type(&field, value, "string")))
        }
        Ok(_) => None,
    }
}

pub(crate) fn joined(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

pub(crate) fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    format!(
        "{path} accessor error: {} is of the type {}, expected {expected}",
        go_text(value),
        go_type(value)
    )
}

fn find<'a>(object: &'a Map<String, Value>, path: &[String]) -> Result<Option<&'a Value>, String> {
    let Some((first, rest)) = path.split_first() else { return Ok(None) };
    let Some(mut value) = object.get(first) else { return Ok(None) };
    for (index, name) in rest.iter().enumerate() {
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(name) {
                Some(value) => value,
                None => return Ok(None),
            },
            other => {
                let path = joined(path.get(..index + 2).unwrap_or(path));
                return Err(wrong_type(&path, other, "map[string]interface{}"));
            }
        };
    }
    Ok(Some(value))
}
