//! Which form of its type a value has, and the elements of lists.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::path::{KeyField, PathElement};
use super::schema::{Atom, ListKind, ListType, MapType, Scalar, Schema};
use crate::order;

/// A form of a type.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    Map(&'a MapType),
    Scalar(Scalar),
    List(&'a ListType),
}

/// The forms of a type that remain for a value: one, or all if the value has none of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Forms {
    map: bool,
    scalar: bool,
    list: bool,
}

impl Forms {
    /// Follows structured-merge-diff 6.4 (`deduceAtom`).
    pub(super) fn of(atom: &Atom, value: Option<&Value>) -> Self {
        let all = Self { map: atom.map.is_some(), scalar: atom.scalar.is_some(), list: atom.list.is_some() };
        let none = Self { map: false, scalar: false, list: false };
        match value {
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if all.scalar => {
                Self { scalar: true, ..none }
            }
            Some(Value::Array(_)) if all.list => Self { list: true, ..none },
            Some(Value::Object(_)) if all.map => Self { map: true, ..none },
            _ => all,
        }
    }

    /// Follows structured-merge-diff 6.4 (`handleAtom`).
    pub(super) fn form(self, atom: &Atom) -> Option<Form<'_>> {
        let map = atom.map.as_ref().filter(|_| self.map).map(Form::Map);
        let scalar = || atom.scalar.filter(|_| self.scalar).map(Form::Scalar);
        map.or_else(scalar).or_else(|| atom.list.as_ref().filter(|_| self.list).map(Form::List))
    }
}

/// A value as a map; `None` for other values.
pub(super) fn as_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// A value as a list; `None` for other values.
pub(super) fn as_list(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}

/// The path element of an item of a list that is not atomic.
///
/// # Errors
/// Why the item has none. Follows structured-merge-diff 6.4 (`listItemToPathElement`).
pub(super) fn element_of(schema: &Schema, list: &ListType, item: &Value) -> Result<PathElement, String> {
    match &list.kind {
        ListKind::Atomic => Err("invalid indexing of non-associative list".into()),
        ListKind::Keys(keys) => keyed(schema, list, keys, item),
        ListKind::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            value => Ok(PathElement::Value(Arc::new(value.clone()))),
        },
    }
}

fn keyed(
    schema: &Schema,
    list: &ListType,
    keys: &[std::borrow::Cow<'static, str>],
    item: &Value,
) -> Result<PathElement, String> {
    let map = match item {
        Value::Object(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let atom = list.element.and_then(|of| schema.atom(of));
    let declared =
        |key: &str| atom?.map.as_ref()?.field(key)?.default.as_ref().filter(|value| !value.is_null());
    let mut fields: Vec<KeyField> = keys
        .iter()
        .filter_map(|key| {
            let value = map.get(key.as_ref()).or_else(|| declared(key))?;
            Some((key.clone(), value.clone()))
        })
        .collect();
    if fields.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| super::value::quoted(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            keys.join(" ")
        ));
    }
    order::sort_by(&mut fields, |a, b| a.0.cmp(&b.0));
    Ok(PathElement::Key(fields.into()))
}
