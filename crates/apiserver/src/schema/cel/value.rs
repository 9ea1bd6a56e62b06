//! The values of expressions.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::objects::{Key, Map as PlainMap, OptionalValue};
use serde_json::{Map, Value};

use super::super::structural::{ListKind, Structural};
use super::calls;
use super::fault::{Budget, Fault, Found, NO_OVERLOAD, error};
use super::names::{escape, unescape};
use super::shape::Shape;

/// A value. Objects and lists of the resource are read where they are, through their schema.
///
/// Follows Kubernetes 1.37 (`cel/common.UnstructuredToVal`).
#[derive(Clone, Debug)]
pub(super) enum Val<'a> {
    Object(&'a Map<String, Value>, Shape<'a>),
    Array(&'a [Value], &'a Structural),
    /// A value without a type, which can only be compared.
    Kept(&'a Value),
    List(Rc<Vec<Val<'a>>>),
    /// The sum of a list of the resource and another one: a set, or a list with keys.
    Keyed(Rc<Vec<Val<'a>>>, &'a ListKind),
    Map(Rc<BTreeMap<Key, Val<'a>>>),
    Optional(Option<Rc<Val<'a>>>),
    Type(Rc<str>),
    /// A scalar, or a value of a library.
    Plain(Plain),
}

pub(super) fn text<'a>(text: &str) -> Val<'a> {
    Val::Plain(Plain::String(Arc::new(text.to_owned())))
}

impl<'a> Val<'a> {
    pub(super) const TRUE: Self = Val::Plain(Plain::Bool(true));

    pub(super) fn int(number: usize) -> Self {
        Self::Plain(Plain::Int(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Plain(Plain::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Returns how long a text is, or bytes are; 0 for other values.
    pub(super) fn text_length(&self) -> usize {
        match self {
            Self::Plain(Plain::String(text)) => text.len(),
            Self::Plain(Plain::Bytes(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Plain(Plain::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Reads a value of the resource.
    ///
    /// # Errors
    /// A value that does not fit its schema, which may be one that a former schema allowed.
    pub(super) fn read(value: &'a Value, schema: &'a Structural) -> Found<Self> {
        let wrong =
            |expected: &str| error(format!("invalid data, expected {expected}, got {}", go_type(value)));
        Ok(match (value, schema.declared.as_ref()) {
            (Value::Null, _) if schema.is_nullable => Self::Plain(Plain::Null),
            (Value::Null, _) => return error("invalid data, got null for schema with nullable=false"),
            (Value::String(given), _) if schema.is_int_or_string => text(given),
            (Value::Number(number), _) if schema.is_int_or_string && number.is_i64() => {
                Self::Plain(Plain::Int(number.as_i64().unwrap_or_default()))
            }
            _ if schema.is_int_or_string => {
                return error("invalid data, expected XIntOrString value to be either a string or integer");
            }
            (Value::Object(fields), "object") => Self::Object(fields, Shape::of(schema)),
            (_, "object") => {
                return error("invalid data, expected a map for the provided schema with type=object");
            }
            (Value::Array(items), "array") => Self::Array(items, schema),
            (_, "array") => {
                return error("invalid data, expected an array for the provided schema with type=array");
            }
            (Value::String(given), "string") => {
                Self::Plain(calls::formatted(given, schema.rules.as_ref().map_or("", |rules| &rules.format))?)
            }
            (_, "string") => return wrong("string"),
            (Value::Number(number), "number") => {
                Self::Plain(Plain::Float(number.as_f64().unwrap_or_default()))
            }
            (_, "number") => return wrong("float"),
            (Value::Number(number), "integer") => match number.as_i64() {
                Some(number) => Self::Plain(Plain::Int(number)),
                None => return wrong("int"),
            },
            (_, "integer") => return wrong("int"),
            (Value::Bool(flag), "boolean") => Self::Plain(Plain::Bool(*flag)),
            (_, "boolean") => return wrong("bool"),
            _ => Self::Kept(value),
        })
    }

    /// Returns a field, or the value of a key; `None` if there is none. A field that is null counts as missing.
    pub(super) fn find(&self, key: &Self) -> Found<Option<Self>> {
        match self {
            Self::Object(fields, shape) => {
                let Some(name) = key.as_text() else { return error(NO_OVERLOAD) };
                let is_object = shape.has_properties();
                let Some(name) = (if is_object { unescape(name) } else { Some(name.to_owned()) }) else {
                    return Ok(None);
                };
                let Some(value) = fields.get(&name).filter(|value| !is_object || !value.is_null()) else {
                    return Ok(None);
                };
                shape.field(&name).map(|schema| Self::read(value, schema)).transpose()
            }
            Self::Map(entries) => {
                let Some(key) = key.as_key() else { return error(NO_OVERLOAD) };
                Ok(entries.get(&key).cloned())
            }
            Self::Optional(Some(value)) => value.find(key),
            _ => error(NO_OVERLOAD),
        }
    }

    /// The key of a map. Numbers of different types are one key.
    pub(super) fn as_key(&self) -> Option<Key> {
        let Self::Plain(value) = self else { return None };
        match value {
            Plain::Int(number) => Some(Key::Int(*number)),
            Plain::UInt(number) => Some(i64::try_from(*number).map_or(Key::Uint(*number), Key::Int)),
            #[allow(clippy::cast_possible_truncation, reason = "the float is whole and small")]
            Plain::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Some(Key::Int(*number as i64))
            }
            Plain::Bool(flag) => Some(Key::Bool(*flag)),
            Plain::String(text) => Some(Key::String(text.clone())),
            _ => None,
        }
    }

    /// Returns how many items or entries there are; `None` for scalars.
    pub(super) fn length(&self) -> Option<usize> {
        Some(match self {
            Self::Object(fields, _) => fields.len(),
            Self::Array(items, _) => items.len(),
            Self::List(items) | Self::Keyed(items, _) => items.len(),
            Self::Map(entries) => entries.len(),
            _ => return None,
        })
    }

    /// Returns an item of a list.
    pub(super) fn item(&self, index: usize) -> Option<Found<Self>> {
        match self {
            Self::Array(items, schema) => {
                let of = schema.items.as_deref()?;
                items.get(index).map(|item| Self::read(item, of))
            }
            Self::List(items) | Self::Keyed(items, _) => items.get(index).cloned().map(Ok),
            _ => None,
        }
    }

    /// Returns the items of a list; none for other values.
    pub(super) fn items(&self, budget: &mut Budget) -> Found<Vec<Self>> {
        let mut items = Vec::new();
        for index in 0..self.length().unwrap_or_default() {
            let Some(item) = self.item(index) else { continue };
            budget.spend(copied(item.as_ref().map(Some)))?;
            items.push(item?);
        }
        Ok(items)
    }

    /// Returns the keys of a map that can be seen, sorted.
    pub(super) fn keys(&self) -> Option<Vec<Self>> {
        match self {
            Self::Object(fields, shape) => {
                let is_object = shape.has_properties();
                let seen = fields.keys().filter(|name| shape.field(name).is_some());
                let name = |name: &String| {
                    if is_object { escape(name) } else { None }.unwrap_or_else(|| name.clone())
                };
                Some(seen.map(|key| text(&name(key))).collect())
            }
            Self::Map(entries) => Some(entries.keys().map(|key| Self::Plain(Plain::from(key))).collect()),
            _ => None,
        }
    }

    /// Compares as the left value does: sets and lists with keys of the resource have no order.
    pub(super) fn is_equal(&self, other: &Self, budget: &mut Budget) -> Found<bool> {
        match (self, other) {
            (Self::Object(fields, shape), Self::Object(others, _)) => {
                are_fields_equal(fields, others, *shape, budget)
            }
            (Self::Object(..) | Self::Map(_), Self::Object(..) | Self::Map(_)) => {
                if self.length() != other.length() {
                    return Ok(false);
                }
                budget.spend(self.length().unwrap_or_default() + 1)?;
                for key in self.keys().unwrap_or_default() {
                    match (self.find(&key)?, other.find(&key)?) {
                        (Some(one), Some(other)) if one.is_equal(&other, budget)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
            (
                Self::Array(..) | Self::List(_) | Self::Keyed(..),
                Self::Array(..) | Self::List(_) | Self::Keyed(..),
            ) => self.are_equal(other, budget),
            (Self::Optional(one), Self::Optional(other)) => match (one, other) {
                (Some(one), Some(other)) => one.is_equal(other, budget),
                (one, other) => Ok(one.is_none() && other.is_none()),
            },
            (Self::Type(one), Self::Type(other)) => Ok(one == other),
            (Self::Kept(one), Self::Kept(other)) => {
                budget.spend(compared(one))?;
                Ok(one == other)
            }
            (Self::Plain(one), Self::Plain(second)) => {
                budget.spend(self.text_length().min(other.text_length()) / 10)?;
                Ok(one == second)
            }
            _ => Ok(false),
        }
    }

    /// Returns the name of the type, as `type()` has it.
    pub(super) fn type_name(&self) -> String {
        match self {
            Self::Object(..) | Self::Map(_) => "map",
            Self::Array(..) | Self::List(_) | Self::Keyed(..) => "list",
            Self::Kept(_) => "unknown",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Plain(Plain::Opaque(value)) => return value.runtime_type_name().to_owned(),
            Self::Plain(value) => match value {
                Plain::Int(_) => "int",
                Plain::UInt(_) => "uint",
                Plain::Float(_) => "double",
                Plain::String(_) => "string",
                Plain::Bytes(_) => "bytes",
                Plain::Bool(_) => "bool",
                Plain::Duration(_) => "google.protobuf.Duration",
                Plain::Timestamp(_) => "google.protobuf.Timestamp",
                _ => "null_type",
            },
        }
        .to_owned()
    }

    /// Copies the value for a function of a library.
    pub(super) fn to_plain(&self, budget: &mut Budget) -> Found<Plain> {
        Ok(match self {
            Self::Plain(value) => {
                budget.spend(copied(Ok(Some(self))))?;
                value.clone()
            }
            Self::Array(..) | Self::List(_) | Self::Keyed(..) => {
                budget.spend(self.length().unwrap_or_default())?;
                let items = self.items(budget)?.into_iter();
                Plain::List(Arc::new(items.map(|item| item.to_plain(budget)).collect::<Found<_>>()?))
            }
            Self::Object(..) | Self::Map(_) => {
                budget.spend(self.length().unwrap_or_default() + 1)?;
                let mut map = std::collections::HashMap::new();
                for key in self.keys().unwrap_or_default() {
                    if let (Some(name), Some(value)) = (key.as_key(), self.find(&key)?) {
                        map.insert(name, value.to_plain(budget)?);
                    }
                }
                Plain::Map(PlainMap { map: Arc::new(map) })
            }
            Self::Optional(value) => {
                let value = value.as_ref().map(|value| value.to_plain(budget)).transpose()?;
                Plain::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
            }
            Self::Type(_) | Self::Kept(_) => return error(NO_OVERLOAD),
        })
    }

    pub(super) fn of_plain(value: &Plain) -> Self {
        match value {
            Plain::List(items) => Self::List(Rc::new(items.iter().map(Self::of_plain).collect())),
            Plain::Map(map) => {
                let entries = map.map.iter().map(|(key, value)| (key.clone(), Self::of_plain(value)));
                Self::Map(Rc::new(entries.collect()))
            }
            Plain::Opaque(opaque) => match opaque.downcast_ref::<OptionalValue>() {
                Some(value) => Self::Optional(value.value().map(|value| Rc::new(Self::of_plain(value)))),
                None => Self::Plain(value.clone()),
            },
            value => Self::Plain(value.clone()),
        }
    }
}

/// Compares the fields of two objects.
fn are_fields_equal(
    fields: &Map<String, Value>,
    others: &Map<String, Value>,
    shape: Shape<'_>,
    budget: &mut Budget,
) -> Found<bool> {
    if fields.len() != others.len() {
        return Ok(false);
    }
    budget.spend(fields.len() + 1)?;
    for (name, value) in fields {
        let Some(of) = shape.field(name) else {
            budget.spend(compared(value))?;
            if others.get(name).is_some_and(|other| other != value) {
                return Ok(false);
            }
            continue;
        };
        let Some(other) = others.get(name) else { return Ok(false) };
        let is_equal = match (value, other) {
            (Value::Null, other) | (other, Value::Null) => other.is_null(),
            _ => {
                let (one, other) = (Val::read(value, of), Val::read(other, of));
                budget.spend(copied(one.as_ref().map(Some)))?;
                budget.spend(copied(other.as_ref().map(Some)))?;
                one?.is_equal(&other?, budget)?
            }
        };
        if !is_equal {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns what it costs to copy the text of a value or an error.
pub(super) fn copied(found: Result<Option<&Val<'_>>, &Fault>) -> usize {
    let length = match found {
        Ok(value) => value.map_or(0, Val::text_length),
        Err(Fault::Error(why)) => why.len(),
        Err(Fault::Exceeded) => 0,
    };
    length / 1000
}

/// Returns what it costs to compare a value that has no schema.
fn compared(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() / 10,
        Value::Array(items) => items.iter().map(compared).sum::<usize>() + 1,
        Value::Object(fields) => fields.values().map(compared).sum::<usize>() + fields.len() + 1,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
