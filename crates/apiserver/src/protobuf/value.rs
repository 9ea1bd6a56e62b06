//! Decodes fields into JSON values.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::schema::{Base, Card, FieldType, Message, SCHEMA, Zero};
use super::wire::{Field, Fields, Malformed};

/// The nesting limit of JSON.
const MAX_DEPTH: usize = 100;

/// Decodes a message into an object. Fields that the schema does not have are skipped.
pub(super) fn message(
    object: &mut Map<String, Value>,
    schema: &Message,
    bytes: &[u8],
    depth: usize,
) -> Result<(), Malformed> {
    if depth > MAX_DEPTH {
        return Err(Malformed::Depth);
    }
    for field in Fields::of(bytes) {
        let field = field?;
        let Some(kind) = schema.field(field.number) else { continue };
        match (kind.card, kind.base) {
            (Card::One, Base::Message(index)) if kind.member.is_empty() => {
                if let Some(inner) = SCHEMA.message(index) {
                    message(object, inner, field.bytes()?, depth + 1)?;
                }
            }
            (Card::One, _) => {
                let value = single(kind, field, depth)?;
                if !(value.is_null() || kind.zero == Zero::Omitted && is_zero(&value)) {
                    object.insert(kind.member.into(), value);
                }
            }
            (Card::Repeated, _) => {
                let value = single(kind, field, depth)?;
                if let Value::Array(list) =
                    object.entry(kind.member).or_insert_with(|| Value::Array(Vec::new()))
                {
                    list.push(value);
                }
            }
            (Card::Map, _) => {
                let (key, value) = entry(kind, field.bytes()?, depth)?;
                if let Value::Object(map) =
                    object.entry(kind.member).or_insert_with(|| Value::Object(Map::new()))
                {
                    map.insert(key, value);
                }
            }
        }
    }
    Ok(())
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// An entry of a map: field 1 is the key, field 2 the value.
fn entry(kind: &FieldType, bytes: &[u8], depth: usize) -> Result<(String, Value), Malformed> {
    let mut key = String::new();
    let mut value = None;
    for field in Fields::of(bytes) {
        let field = field?;
        match field.number {
            1 => key = field.text()?,
            2 => value = Some(single(kind, field, depth)?),
            _ => {}
        }
    }
    let empty = || if kind.base == Base::Text || kind.base == Base::Bytes { "".into() } else { Value::Null };
    Ok((key, value.unwrap_or_else(empty)))
}

fn single(kind: &FieldType, field: Field<'_>, depth: usize) -> Result<Value, Malformed> {
    Ok(match kind.base {
        Base::Text => field.text()?.into(),
        Base::Bytes => STANDARD.encode(field.bytes()?).into(),
        Base::Bool => (field.varint()? != 0).into(),
        Base::Int => field.signed()?.into(),
        Base::Double => field.double()?.into(),
        Base::Time => time(field.bytes()?, "%Y-%m-%dT%H:%M:%SZ")?,
        Base::MicroTime => time(field.bytes()?, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        Base::Quantity => {
            first(field.bytes()?)?.map_or(Ok("0".into()), |field| field.text().map(Value::from))?
        }
        Base::IntOrString => int_or_string(field.bytes()?)?,
        Base::Json => match first(field.bytes()?)? {
            Some(raw) if !raw.bytes()?.is_empty() => {
                serde_json::from_slice(raw.bytes()?).map_err(|_| Malformed::Json)?
            }
            _ => Value::Null,
        },
        Base::TextList => texts(field.bytes()?, 1)?,
        Base::Message(index) => nested(index, field.bytes()?, depth)?,
        Base::SchemaOrArray(index) => {
            let mut list = Vec::new();
            for part in Fields::of(field.bytes()?) {
                let part = part?;
                match part.number {
                    1 => return nested(index, part.bytes()?, depth),
                    2 => list.push(nested(index, part.bytes()?, depth)?),
                    _ => {}
                }
            }
            Value::Array(list)
        }
        Base::SchemaOrBool(index) => schema_or_bool(index, field.bytes()?, depth)?,
        Base::SchemaOrStrings(index) => {
            for part in Fields::of(field.bytes()?) {
                let part = part?;
                if part.number == 1 {
                    return nested(index, part.bytes()?, depth);
                }
            }
            texts(field.bytes()?, 2)?
        }
    })
}

fn schema_or_bool(index: usize, bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let mut allows = false;
    for part in Fields::of(bytes) {
        let part = part?;
        match part.number {
            1 => allows = part.varint()? != 0,
            2 => return nested(index, part.bytes()?, depth),
            _ => {}
        }
    }
    Ok(allows.into())
}

fn nested(index: usize, bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let mut object = Map::new();
    if let Some(schema) = SCHEMA.message(index) {
        message(&mut object, schema, bytes, depth + 1)?;
    }
    Ok(Value::Object(object))
}

fn first(bytes: &[u8]) -> Result<Option<Field<'_>>, Malformed> {
    for field in Fields::of(bytes) {
        let field = field?;
        if field.number == 1 {
            return Ok(Some(field));
        }
    }
    Ok(None)
}

fn texts(bytes: &[u8], number: u32) -> Result<Value, Malformed> {
    let mut list = Vec::new();
    for field in Fields::of(bytes) {
        let field = field?;
        if field.number == number {
            list.push(Value::from(field.text()?));
        }
    }
    Ok(Value::Array(list))
}

/// Reads the fields 1 and 2 of a message of numbers.
fn numbers(bytes: &[u8]) -> Result<(i64, i64), Malformed> {
    let (mut one, mut two) = (0, 0);
    for field in Fields::of(bytes) {
        let field = field?;
        match field.number {
            1 => one = field.signed()?,
            2 => two = field.signed()?,
            _ => {}
        }
    }
    Ok((one, two))
}

/// An empty message is the zero time, which is null in JSON.
fn time(bytes: &[u8], format: &str) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (seconds, nanoseconds) = numbers(bytes)?;
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| Malformed::Illegal)?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| Malformed::Illegal)?;
    Ok(time.strftime(format).to_string().into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Malformed> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in Fields::of(bytes) {
        let field = field?;
        match field.number {
            1 => is_text = field.varint()? == 1,
            2 => number = field.signed()?,
            3 => text = field.text()?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}
