//! Equality of values, as Go compares those of an `enum`.

use serde_json::Value;

/// Whether a float has no fraction, but for a rounding error. Follows Kubernetes 1.37 (`swag.IsFloat64AJSONInteger`).
pub(super) fn is_whole(float: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    let rounded = float.round();
    float.abs() <= MAX
        && (float == rounded || rounded != 0.0 && (float - rounded).abs() < 1e-9 * rounded.abs())
}

/// Whether a value is one of an `enum`, as Go compares them: numbers are converted to the type of the allowed one.
pub(super) fn is_same(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (_, Value::Null) => false,
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            (None, Some(b)) => a.as_f64().is_some_and(|a| to_int(a) == b),
            (_, None) => a.as_f64() == b.as_f64(),
        },
        (Value::Number(number), Value::String(text)) => {
            // an integer is converted to the character with this code
            let code = number.as_i64().and_then(|code| u32::try_from(code).ok());
            let c = number.is_i64().then(|| code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
            c.is_some_and(|c| text.chars().eq([c]))
        }
        (a, b) => a == b,
    }
}

/// A float without its fraction.
#[expect(clippy::cast_possible_truncation, reason = "Go converts in the same way")]
pub(super) fn to_int(float: f64) -> i64 {
    float as i64
}
