//! The form of objects of built-in kinds that Kubernetes stores: defaults are set, zeros are written or left out as its Go
//! types do it, and unknown fields are dropped.

mod kinds;
mod table;

use serde_json::{Map, Value};

use crate::protobuf::schema::{Base, Card, FieldType, Message, SCHEMA, Zero};

use super::quantity;

/// How deep messages are nested at most.
const MAX_DEPTH: usize = 100;

/// Brings an object into the form that Kubernetes stores. Objects of other kinds stay as they are.
pub(crate) fn complete(api_version: &str, kind: &str, object: &mut Map<String, Value>) {
    let Some(message) = SCHEMA.of_kind(api_version, kind) else { return };
    let mut metadata = object.remove("metadata");
    kinds::set_defaults(api_version, kind, object, metadata.as_mut());
    if let Some(metadata) = metadata {
        object.insert("metadata".to_owned(), metadata);
    }
    fields(message, object, Place { depth: 0, is_top: true, has_defaults: true });
}

/// As [`complete`], without defaults: the form in which Go decodes and encodes an object.
pub(crate) fn decode(api_version: &str, kind: &str, object: &mut Map<String, Value>) {
    if let Some(message) = SCHEMA.of_kind(api_version, kind) {
        fields(message, object, Place { depth: 0, is_top: true, has_defaults: false });
    }
}

/// As [`complete`], of the status only.
pub(crate) fn complete_status(api_version: &str, kind: &str, object: &mut Map<String, Value>) {
    let Some(field) = SCHEMA.of_kind(api_version, kind).and_then(|message| message.find("status")) else {
        return;
    };
    kinds::set_status_defaults(api_version, kind, object);
    let status = object.entry("status").or_insert(Value::Null);
    if status.is_null() && field.zero == Zero::Written {
        *status = Value::Object(Map::new());
    }
    if is_stored(field, status) {
        below(field, status, Place { depth: 1, is_top: false, has_defaults: true });
    } else {
        object.remove("status");
    }
}

#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// Whether the object has a type and metadata, which have rules of their own.
    is_top: bool,
    has_defaults: bool,
}

fn fields(message: &Message, object: &mut Map<String, Value>, place: Place) {
    if place.depth > MAX_DEPTH {
        return;
    }
    object.retain(|name, value| {
        if place.is_top && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            return true;
        }
        match message.find(name) {
            Some(field) => is_stored(field, value),
            // the types of embedded objects
            None => matches!(name.as_str(), "apiVersion" | "kind") && message.find("metadata").is_some(),
        }
    });
    write_zeros(message, object, place);
    if place.has_defaults {
        table::set_defaults(message, object);
    }
    for (name, value) in object.iter_mut() {
        let is_own = place.is_top && name == "metadata";
        if is_own || value.is_boolean() {
            continue;
        }
        if let Some(field) = message.find(name) {
            below(field, value, Place { depth: place.depth + 1, is_top: false, ..place });
        }
    }
}

/// Whether Go writes a field with this value.
fn is_stored(field: &FieldType, value: &Value) -> bool {
    let is_optional = field.zero != Zero::Written;
    match (field.card, value) {
        (_, Value::Null) => false,
        (Card::Repeated, Value::Array(items)) => !items.is_empty(),
        (Card::Map, Value::Object(members)) => !members.is_empty(),
        (Card::One, Value::String(text)) if field.base == Base::Bytes && text.is_empty() => !is_optional,
        (Card::One, value) if field.zero == Zero::Omitted => !is_zero(value),
        _ => true,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Adds the fields that Go writes if they are not set.
fn write_zeros(message: &Message, object: &mut Map<String, Value>, place: Place) {
    for field in message.fields() {
        if let (true, Base::Message(index)) = (field.member.is_empty(), field.base) {
            if let Some(embedded) = SCHEMA.message(index) {
                write_zeros(embedded, object, place);
            }
            continue;
        }
        let is_own = place.is_top && field.member == "metadata";
        let is_written = matches!(field.zero, Zero::Null | Zero::Written);
        if !is_written || is_own || object.contains_key(field.member) {
            continue;
        }
        let zero = match (field.zero, field.base) {
            (Zero::Null, _) => Value::Null,
            (Zero::Written, Base::Message(_)) => Value::Object(Map::new()),
            (Zero::Written, Base::Text) => "".into(),
            (Zero::Written, Base::Bool) => false.into(),
            (Zero::Written, Base::Int | Base::Double | Base::IntOrString) => 0.into(),
            (Zero::Written, Base::Quantity) => "0".into(),
            _ => continue,
        };
        object.insert(field.member.to_owned(), zero);
    }
}

fn below(field: &FieldType, value: &mut Value, place: Place) {
    match (field.card, value) {
        (Card::One, value) => one(field.base, value, place, false),
        (Card::Repeated, Value::Array(items)) => {
            for item in items.iter_mut() {
                if let (true, Base::Message(_)) = (item.is_null(), field.base) {
                    *item = Value::Object(Map::new());
                }
                one(field.base, item, place, false);
            }
        }
        (Card::Map, Value::Object(members)) => {
            for member in members.values_mut() {
                one(field.base, member, place, true);
            }
        }
        _ => {}
    }
}

fn one(base: Base, value: &mut Value, place: Place, is_member: bool) {
    match (base, &mut *value) {
        (Base::Message(_), Value::Null) if is_member => {
            *value = Value::Object(Map::new());
            one(base, value, place, false);
        }
        (
            Base::Message(index)
            | Base::SchemaOrArray(index)
            | Base::SchemaOrBool(index)
            | Base::SchemaOrStrings(index),
            Value::Object(object),
        ) => {
            if let Some(message) = SCHEMA.message(index) {
                fields(message, object, place);
            }
        }
        (Base::SchemaOrArray(index), Value::Array(schemas)) => {
            schemas.iter_mut().for_each(|schema| one(Base::Message(index), schema, place, true));
        }
        (Base::Quantity, Value::String(text)) => {
            if let Ok(canonical) = quantity::canonical(text, is_member)
                && canonical != *text
            {
                *text = canonical;
            }
        }
        (Base::Quantity, Value::Number(number)) => {
            if let Ok(canonical) = quantity::canonical(&number.to_string(), is_member) {
                *value = canonical.into();
            }
        }
        (Base::Quantity, Value::Null) if is_member => *value = "0".into(),
        (Base::Text, Value::Null) if is_member => *value = "".into(),
        (Base::Time, Value::String(text)) => canonical_time(text, 0),
        (Base::MicroTime, Value::String(text)) => canonical_time(text, 6),
        _ => {}
    }
}

/// Writes a time in UTC, with a number of decimals.
fn canonical_time(text: &mut String, decimals: usize) {
    let length =
        if decimals == 0 { "2026-01-01T00:00:00Z".len() } else { "2026-01-01T00:00:00.000000Z".len() };
    if text.len() == length && text.ends_with('Z') {
        return;
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        *text = format!("{time:.decimals$}");
    }
}
