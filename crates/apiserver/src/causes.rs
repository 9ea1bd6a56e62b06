//! Causes with the messages of Go's `field.Error`.

use serde_json::Value;

use crate::apply::{go_json, quoted};
use crate::status::Cause;

/// A path as Go prints it: that of the root is `<nil>`.
fn field(path: &str) -> Option<String> {
    Some(if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() })
}

fn cause(reason: &'static str, path: &str, message: String) -> Cause {
    Cause { reason, message, field: field(path) }
}

/// `text` is the value as [`value_text`] formats it.
pub(crate) fn invalid_text(path: &str, text: &str, detail: &str) -> Cause {
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    cause("FieldValueInvalid", path, format!("Invalid value: {text}{detail}"))
}

pub(crate) fn invalid(path: &str, value: &Value, detail: &str) -> Cause {
    invalid_text(path, &value_text(value), detail)
}

/// Of a value that is not shown.
pub(crate) fn invalid_alone(path: &str, detail: &str) -> Cause {
    cause("FieldValueInvalid", path, format!("Invalid value: {detail}"))
}

pub(crate) fn type_invalid(path: &str, text: &str, detail: &str) -> Cause {
    cause("FieldValueTypeInvalid", path, format!("Invalid value: {text}: {detail}"))
}

pub(crate) fn required(path: &str, detail: &str) -> Cause {
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    cause("FieldValueRequired", path, format!("Required value{detail}"))
}

pub(crate) fn forbidden(path: &str, detail: &str) -> Cause {
    cause("FieldValueForbidden", path, format!("Forbidden: {detail}"))
}

/// An error that does not show the value.
#[cfg(feature = "cel")]
pub(crate) fn without_value(reason: &'static str, path: &str, message: &str) -> Cause {
    cause(reason, path, message.to_owned())
}

pub(crate) fn duplicate(path: &str, value: &Value) -> Cause {
    cause("FieldValueDuplicate", path, format!("Duplicate value: {}", value_text(value)))
}

pub(crate) fn duplicate_text(path: &str, text: &str) -> Cause {
    cause("FieldValueDuplicate", path, format!("Duplicate value: {text}"))
}

pub(crate) fn not_found(path: &str, text: &str, detail: &str) -> Cause {
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    cause("FieldValueNotFound", path, format!("Not found: {text}{detail}"))
}

pub(crate) fn not_supported(path: &str, value: &Value, supported: &[&str]) -> Cause {
    not_supported_text(path, &value_text(value), supported.iter().copied())
}

pub(crate) fn not_supported_text<'a>(
    path: &str,
    text: &str,
    supported: impl Iterator<Item = &'a str>,
) -> Cause {
    let supported: Vec<String> = supported.map(quoted).collect();
    let supported = supported.join(", ");
    cause("FieldValueNotSupported", path, format!("Unsupported value: {text}: supported values: {supported}"))
}

pub(crate) fn too_long(path: &str, max: impl TryInto<i64>) -> Cause {
    let max = max.try_into().unwrap_or(i64::MAX);
    let detail = match max {
        i64::MIN..=-1 => "value is too long".to_owned(),
        1 => "may not be more than 1 byte".to_owned(),
        _ => format!("may not be more than {max} bytes"),
    };
    cause("FieldValueTooLong", path, format!("Too long: {detail}"))
}

pub(crate) fn too_many(path: &str, actual: usize, max: i64) -> Cause {
    let detail = match max {
        i64::MIN..=-1 => "has too many items".to_owned(),
        1 => "must have at most 1 item".to_owned(),
        _ => format!("must have at most {max} items"),
    };
    cause("FieldValueTooMany", path, format!("Too many: {actual}: {detail}"))
}

/// A value as in a message.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => float_text(float),
            _ => number.to_string(),
        },
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => go_json(value),
    }
}

/// A float as Go's `%v` prints it.
pub(crate) fn float_text(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-4..1e6).contains(&size) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}
