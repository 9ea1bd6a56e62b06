//! Comparison of the content of packed objects.

use std::marker::PhantomData;

use serde_json::{Map, Number, Value};

use crate::codec::AnyCodec;

/// The codec and the bytes of an object.
pub(super) type Content<'a> = (&'a AnyCodec, &'a [u8]);

/// Whether two objects have the same content. If the bytes do not decide it, the fields are compared, without the kind
/// and version, which items of a list omit and events of a watch have.
pub(super) fn is_same(a: Content<'_>, b: Content<'_>) -> bool {
    let encoding = Some(a.0.encoding()).filter(|encoding| *encoding == b.0.encoding());
    if let Some(same) = encoding.and_then(|encoding| encoding.has_same_content(a.1, b.1)) {
        return same;
    }
    match (fields(a), fields(b)) {
        (Some(a), Some(b)) => is_same_object(&a, &b),
        // Objects that cannot be decoded are equal only if their bytes are.
        _ => a.1 == b.1,
    }
}

/// Decodes all fields but `kind` and `apiVersion`.
fn fields((codec, bytes): Content<'_>) -> Option<Map<String, Value>> {
    let (mut fields, _): (Map<String, Value>, u64) = codec.decode(bytes, PhantomData).ok()?;
    fields.remove("kind");
    fields.remove("apiVersion");
    Some(fields)
}

/// Compares two values. A missing field is equal to null, since Go writes some absent fields as null.
fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => is_same_object(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Number(a), Value::Number(b)) => is_same_number(a, b),
        _ => a == b,
    }
}

fn is_same_object(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let all_of = |a: &Map<String, Value>, b: &Map<String, Value>| {
        a.iter().all(|(name, value)| is_same_value(value, b.get(name).unwrap_or(&Value::Null)))
    };
    all_of(a, b) && b.iter().all(|(name, value)| value.is_null() || a.contains_key(name))
}

/// Compares two numbers. 3 is equal to 3.0.
fn is_same_number(a: &Number, b: &Number) -> bool {
    a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        let json = AnyCodec::Json(crate::json::Json);
        let (forward, backward) = (
            is_same((&json, a.as_bytes()), (&json, b.as_bytes())),
            is_same((&json, b.as_bytes()), (&json, a.as_bytes())),
        );
        assert_eq!(forward, backward, "{a} {b}");
        forward
    }

    /// The comparison of JSON ignores the kind, the version and the order of the fields.
    #[test]
    fn comparison_ignores_kind_and_order() {
        let item = r#"{"metadata":{"name":"a"},"n":3}"#;
        for other in [
            item,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"n":3}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"n":3}"#,
            r#"{ "n": 3.0, "metadata": {"name": "a", "labels": null}, "kind": "Pod" }"#,
        ] {
            assert!(same(item, other), "{other}");
        }
        for other in [
            r#"{"metadata":{"name":"a"},"n":4}"#,
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a","kind":"x"},"n":3}"#,
            r#"{"metadata":{"name":"a"},"n":[3]}"#,
            r#"{"metadata":{"name":"a"},"n":3"#,
            "",
        ] {
            assert!(!same(item, other), "{other}");
        }
        assert!(!same(r#"{"n":9007199254740993}"#, r#"{"n":9007199254740992}"#));
        assert!(same("{", "{"));
    }
}
