//! JSON values as structured-merge-diff sees them: equality, order and text.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// The kinds of values, in the order in which values of different kinds are sorted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Number,
    Text,
    Bool,
    List,
    Map,
    Null,
}

fn rank(value: &Value) -> Rank {
    match value {
        Value::Number(_) => Rank::Number,
        Value::String(_) => Rank::Text,
        Value::Bool(_) => Rank::Bool,
        Value::Array(_) => Rank::List,
        Value::Object(_) => Rank::Map,
        Value::Null => Rank::Null,
    }
}

/// Orders any two values. Numbers are equal if their values are: 1 and 1.0.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let differing = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            differing.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => compare_maps(a, b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn compare_maps(a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
    let field = |(a, x): (&String, &Value), (b, y): (&String, &Value)| a.cmp(b).then_with(|| compare(x, y));
    let differing = a.iter().zip(b).map(|(a, b)| field(a, b)).find(|order| order.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
    }
}

/// Whether two values are equal, where 1 and 1.0 are.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((a, x), (b, y))| a == b && equal(x, y))
        }
        _ => a == b,
    }
}

/// A value as Go's encoder writes it, with escaped HTML characters.
pub(crate) fn go_json(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value);
    out
}

/// Appends a value as Go's encoder writes it, with escaped HTML characters.
pub(super) fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_text(out, text, true),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (name, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(out, name, true);
                out.push(':');
                write_json(out, item);
            }
            out.push('}');
        }
    }
}

/// Appends a string with quotes and escapes.
pub(super) fn write_text(out: &mut String, text: &str, escape_html: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape_html => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A number as Go writes it: no fraction for whole numbers.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            let size = float.abs();
            if size != 0.0 && !(1e-6..1e21).contains(&size) {
                let text = format!("{float:e}");
                if size >= 1e21 { text.replace('e', "e+") } else { text }
            } else {
                float.to_string()
            }
        }
        _ => number.to_string(),
    }
}

/// A value in a path: strings are quoted.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => number_text(number),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(self::text).collect::<Vec<_>>().join(","))
        }
        Value::Object(map) => {
            map.iter().map(|(name, value)| format!("{name}={}", self::text(value))).collect()
        }
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

/// A string in quotes, with Go's escapes (`%q`).
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c < ' ' || c == '\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if !is_printable(c) && c <= '\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// As `unicode.IsPrint` of Go, except for characters that are not assigned.
pub(crate) fn is_printable(c: char) -> bool {
    let is_format = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !is_format && (c == ' ' || !c.is_whitespace())
}

/// A value as Go prints it with `%v`.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number_text(number),
        Value::Bool(value) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| format!("{name}:{}", go_text(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A value as Go prints it with `%#v`.
pub(super) fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quoted(text),
        Value::Number(number) => number_text(number),
        Value::Bool(value) => value.to_string(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| format!("{}:{}", quoted(name), go_syntax(value)));
            format!("map[string]interface {{}}{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The Go type of a value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::String(_) => "string",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::Bool(_) => "bool",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_ordered_and_equal_as_in_go() {
        let sorted = [
            json!(-1),
            json!(0.5),
            json!(1),
            json!(80),
            json!(443),
            json!("a"),
            json!("b"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!({}),
            json!({"a": 1}),
            json!({"a": 2}),
            json!(null),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
                assert_eq!(equal(a, b), i == j, "{a} {b}");
            }
        }
        assert!(equal(&json!({"a": [1, 2.0]}), &json!({"a": [1.0, 2]})));
        assert!(!equal(&json!(1), &json!("1")));
    }

    #[test]
    fn values_are_written_as_by_go() {
        let write = |value: &Value| {
            let mut out = String::new();
            write_json(&mut out, value);
            out
        };
        let value = json!({"b": "<a>&\u{1}\n\"", "a": [1.0, 2.5, -3, true, null], "c": 1e21, "d": 1e-7});
        let expected = r#"{"a":[1,2.5,-3,true,null],"b":"\u003ca\u003e\u0026\u0001\n\"","c":1e+21,"d":1e-7}"#;
        assert_eq!(write(&value), expected);
        assert_eq!(text(&json!("a\"b")), "\"a\\\"b\"");
        assert_eq!(go_text(&json!({"a": [1, null], "b": "x"})), "map[a:[1 <nil>] b:x]");
        assert_eq!(
            go_syntax(&json!({"a": [1, null, true]})),
            "map[string]interface {}{\"a\":[]interface {}{1, interface {}(nil), true}}"
        );
    }
}
