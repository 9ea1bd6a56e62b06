//! Types of values.

use serde_json::Value;

use super::super::formats::Format;
use super::super::structural::Structural;
use super::equality::is_whole;
use super::outcome::{Error, Kind, Outcome};
use super::{Purpose, Validator};
use crate::apply::quoted;

/// The type of a value in OpenAPI, and the format that Go gives it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

impl Validator {
    /// The types that a node allows; none if it allows all.
    fn types<'a>(&self, schema: &'a Structural) -> ([&'a str; 2], usize) {
        match (schema.is_int_or_string, schema.declared.as_ref()) {
            (true, _) if self.purpose == Purpose::Object => (["integer", "string"], 2),
            (_, "") => (["", ""], 0),
            (_, declared) => ([declared, ""], 1),
        }
    }

    /// The only type that a node allows.
    pub(super) fn one_type<'a>(&self, schema: &'a Structural) -> &'a str {
        match self.types(schema) {
            ([one, _], 1) => one,
            _ => "",
        }
    }

    /// The format of a node. Those that Kubernetes does not know are ignored in objects.
    pub(super) fn format<'a>(&self, schema: &'a Structural) -> &'a str {
        let Some(format) = schema.rules.as_ref().map(|rules| rules.format.as_ref()) else { return "" };
        if self.purpose == Purpose::Default {
            return format;
        }
        let is_known = match self.one_type(schema) {
            "" | "string" => Format::of(format).is_some(),
            "integer" => matches!(format, "int32" | "int64"),
            "number" => matches!(format, "float" | "double"),
            _ => false,
        };
        if is_known { format } else { "" }
    }

    pub(super) fn text_format(&self, schema: &Structural) -> Option<Format> {
        schema.rules.as_ref()?;
        Format::of(self.format(schema))
    }

    pub(super) fn null_type(&self, schema: &Structural) -> Outcome {
        let mut outcome = Outcome::default();
        let (types, count) = self.types(schema);
        let types = types.get(..count).unwrap_or_default();
        if types.is_empty() || schema.is_nullable || types.contains(&"null") {
            outcome.count();
        } else {
            outcome.add(self.wrong_type(&types.join(","), "null"));
        }
        outcome
    }

    /// Checks the type of a value that is not null; `None` if the node has no type.
    pub(super) fn value_type(&self, schema: &Structural, value: &Value) -> Option<Outcome> {
        let (types, count) = self.types(schema);
        let types = types.get(..count).unwrap_or_default();
        let format = self.format(schema);
        if types.is_empty() && format.is_empty() {
            return None;
        }
        let mut outcome = Outcome::default();
        let (given, its_format) = type_of(value);
        let has = |name: &str| types.contains(&name);
        let is_whole_float = given == "number" && has("integer") && value.as_f64().is_some_and(is_whole);
        let fits = has(given) || is_whole_float || given == "integer" && has("number");
        let is_sequence = matches!(value, Value::String(_) | Value::Array(_));
        if !is_sequence && !format.is_empty() && !fits && its_format != format {
            outcome.add(self.wrong_type(format, its_format));
        } else if is_sequence && !format.is_empty() && !has("number") && !has("integer") {
            // Go leaves it to the format
            outcome.count();
        } else if !fits {
            outcome.add(self.wrong_type(&types.join(","), given));
        } else {
            outcome.count();
        }
        Some(outcome)
    }

    fn wrong_type(&self, expected: &str, given: &str) -> Error {
        let (path, given) = (self.path.text(), quoted(given));
        let text = format!("{path} in body must be of type {expected}: {given}");
        Error::new(path, text, Kind::TypeInvalid(given))
    }

    pub(super) fn format_error(&self, schema: &Structural, format: Format, text: &str) -> Option<Error> {
        (!format.accepts(text)).then(|| self.wrong_type(self.format(schema), text))
    }
}
