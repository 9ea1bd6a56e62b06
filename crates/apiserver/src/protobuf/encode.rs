//! Encodes JSON values as fields: the reverse of [`super::value`].
//!
//! A value of another type than its field is omitted: objects are not validated, and protobuf cannot represent it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::schema::{Base, Card, FieldType, Message, SCHEMA};

/// Encodes the message of an object.
pub(super) fn message(out: &mut Vec<u8>, schema: &Message, object: &Map<String, Value>) {
    for field in schema.fields() {
        match (field.card, field.base) {
            (Card::One, Base::Message(index)) if field.member.is_empty() => {
                let mut inner = Vec::new();
                if let Some(schema) = SCHEMA.message(index) {
                    message(&mut inner, schema, object);
                }
                if !inner.is_empty() {
                    bytes(out, field.number, &inner);
                }
            }
            (Card::One, _) => {
                if let Some(value) = object.get(field.member) {
                    single(out, field.number, field, value);
                }
            }
            (Card::Repeated, _) => {
                let list = object.get(field.member).and_then(Value::as_array);
                list.into_iter().flatten().for_each(|value| single(out, field.number, field, value));
            }
            (Card::Map, _) => {
                let map = object.get(field.member).and_then(Value::as_object);
                for (key, value) in map.into_iter().flatten() {
                    let mut entry = Vec::new();
                    bytes(&mut entry, 1, key.as_bytes());
                    single(&mut entry, 2, field, value);
                    bytes(out, field.number, &entry);
                }
            }
        }
    }
}

/// Appends a length-delimited field.
pub(super) fn bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// The encoded size of [`bytes()`] for a field number below 16.
pub(super) fn size_of_bytes(content: usize) -> usize {
    let mut header = Vec::new();
    varint(&mut header, content as u64);
    1 + header.len() + content
}

pub(super) fn number(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number) << 3);
    varint(out, value);
}

pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[expect(clippy::too_many_lines, reason = "one arm for each type of a field")]
fn single(out: &mut Vec<u8>, field_number: u32, field: &FieldType, value: &Value) {
    match (field.base, value) {
        // Null is a value here.
        (Base::Json, value) => wrapped(out, field_number, value.to_string().as_bytes()),
        (_, Value::Null) => {}
        (Base::Text, Value::String(text)) => bytes(out, field_number, text.as_bytes()),
        (Base::Bytes, Value::String(text)) => {
            if let Ok(content) = STANDARD.decode(text) {
                bytes(out, field_number, &content);
            }
        }
        (Base::Bool, Value::Bool(flag)) => number(out, field_number, u64::from(*flag)),
        (Base::Int, Value::Number(value)) => {
            // Go accepts 3.0 as an integer too.
            let integer = || value.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64);
            let value = value.as_u64().or_else(|| value.as_i64().or_else(integer).map(i64::cast_unsigned));
            if let Some(value) = value {
                number(out, field_number, value);
            }
        }
        (Base::Double, Value::Number(value)) => {
            if let Some(value) = value.as_f64() {
                varint(out, u64::from(field_number) << 3 | 1);
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
        (Base::Time | Base::MicroTime, Value::String(text)) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                let mut inner = Vec::new();
                number(&mut inner, 1, time.as_second().cast_unsigned());
                number(&mut inner, 2, i64::from(time.subsec_nanosecond()).cast_unsigned());
                bytes(out, field_number, &inner);
            }
        }
        (Base::Quantity, Value::String(text)) => wrapped(out, field_number, text.as_bytes()),
        (Base::Quantity, Value::Number(value)) => wrapped(out, field_number, value.to_string().as_bytes()),
        (Base::IntOrString, Value::String(text)) => {
            let mut inner = Vec::new();
            number(&mut inner, 1, 1);
            number(&mut inner, 2, 0);
            bytes(&mut inner, 3, text.as_bytes());
            bytes(out, field_number, &inner);
        }
        (Base::IntOrString, Value::Number(value)) => {
            let mut inner = Vec::new();
            number(&mut inner, 1, 0);
            number(&mut inner, 2, value.as_i64().unwrap_or(0).cast_unsigned());
            bytes(&mut inner, 3, b"");
            bytes(out, field_number, &inner);
        }
        (Base::TextList, Value::Array(list)) => bytes(out, field_number, &texts(1, list)),
        (Base::Message(index), Value::Object(object)) => bytes(out, field_number, &nested(index, object)),
        (Base::SchemaOrArray(index), Value::Array(list)) => {
            let mut inner = Vec::new();
            for object in list.iter().filter_map(Value::as_object) {
                bytes(&mut inner, 2, &nested(index, object));
            }
            bytes(out, field_number, &inner);
        }
        (Base::SchemaOrBool(_), Value::Bool(flag)) => {
            let mut inner = Vec::new();
            number(&mut inner, 1, u64::from(*flag));
            bytes(out, field_number, &inner);
        }
        (Base::SchemaOrBool(index), Value::Object(object)) => {
            let mut inner = Vec::new();
            number(&mut inner, 1, 1);
            bytes(&mut inner, 2, &nested(index, object));
            bytes(out, field_number, &inner);
        }
        (Base::SchemaOrArray(index) | Base::SchemaOrStrings(index), Value::Object(object)) => {
            wrapped(out, field_number, &nested(index, object));
        }
        (Base::SchemaOrStrings(_), Value::Array(list)) => bytes(out, field_number, &texts(2, list)),
        _ => {}
    }
}

/// Encodes a message with bytes in field 1.
fn wrapped(out: &mut Vec<u8>, field_number: u32, content: &[u8]) {
    let mut inner = Vec::with_capacity(content.len() + 4);
    bytes(&mut inner, 1, content);
    bytes(out, field_number, &inner);
}

fn nested(index: usize, object: &Map<String, Value>) -> Vec<u8> {
    let mut inner = Vec::new();
    if let Some(schema) = SCHEMA.message(index) {
        message(&mut inner, schema, object);
    }
    inner
}

fn texts(field_number: u32, list: &[Value]) -> Vec<u8> {
    let mut inner = Vec::new();
    list.iter().filter_map(Value::as_str).for_each(|text| bytes(&mut inner, field_number, text.as_bytes()));
    inner
}
