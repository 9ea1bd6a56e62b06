//! Whether an object has the fields of its type.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::form::{Form, Forms, element_of};
use super::path::PathElement;
use super::problem::Problems;
use super::schema::{ListKind, ListType, MapType, Scalar, Schema, TypeRef};
use super::value;

/// Whether items of a list may have the same key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Refused,
}

/// Returns what is wrong with an object that is applied, or written otherwise.
///
/// Follows structured-merge-diff 6.4 (`Validate`); fields are checked in the order of their names.
pub(super) fn validate(schema: &Schema, of: TypeRef, value: &Value, duplicates: Duplicates) -> Problems {
    let Some(atom) = schema.atom(of) else {
        return Problems::of("schema error: no type found matching: inlined type");
    };
    match Forms::of(atom, Some(value)).form(atom) {
        None => Problems::of("schema error: invalid atom: inlined"),
        Some(Form::Scalar(scalar)) => of_scalar(scalar, value),
        Some(Form::List(list)) => match value {
            Value::Null => Problems::default(),
            Value::Array(items) => of_items(schema, list, items, duplicates),
            other => Problems::of(format!("expected list, got &{{{}}}", value::go_text(other))),
        },
        Some(Form::Map(map)) => match value {
            Value::Null => Problems::default(),
            Value::Object(fields) => of_fields(schema, map, fields, duplicates),
            other => Problems::of(format!("expected map, got &{{{}}}", value::go_text(other))),
        },
    }
}

fn of_scalar(scalar: Scalar, value: &Value) -> Problems {
    let is_right = match scalar {
        Scalar::Text => value.is_string(),
        Scalar::Numeric => value.is_number(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Untyped => !value.is_array() && !value.is_object(),
    };
    if is_right || value.is_null() {
        return Problems::default();
    }
    Problems::of(match scalar {
        Scalar::Text => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", value::go_syntax(value))
        }
        Scalar::Numeric => format!("expected numeric (int or float), got {}", value::go_type(value)),
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", value::go_text(value)),
        Scalar::Untyped => format!("expected any scalar, got &{{{}}}", value::go_text(value)),
    })
}

fn of_items(schema: &Schema, list: &ListType, items: &[Value], duplicates: Duplicates) -> Problems {
    let mut problems = Problems::default();
    let Some(of) = list.element else { return problems };
    let mut observed = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = if list.kind == ListKind::Atomic {
            PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
        } else {
            match element_of(schema, list, item) {
                Ok(element) => element,
                Err(error) => {
                    problems.extend(Problems::of(format!("element {index}: {error}")));
                    return problems;
                }
            }
        };
        let below = validate(schema, of, item, duplicates).below(&element);
        let is_keyed = list.kind != ListKind::Atomic && duplicates == Duplicates::Refused;
        if is_keyed && observed.contains(&element) {
            problems.extend(Problems::of(format!("duplicate entries for key {element}")));
        }
        problems.extend(below);
        observed.insert(element);
    }
    problems
}

fn of_fields(
    schema: &Schema,
    map: &MapType,
    fields: &Map<String, Value>,
    duplicates: Duplicates,
) -> Problems {
    let mut problems = Problems::default();
    for (name, value) in fields {
        let element = || PathElement::Field(name.as_str().into());
        let Some(of) = map.type_of(name) else {
            problems.extend(Problems::of("field not declared in schema").below(&element()));
            break;
        };
        let below = validate(schema, of, value, duplicates);
        if !below.is_empty() {
            problems.extend(below.below(&element()));
        }
    }
    problems
}
