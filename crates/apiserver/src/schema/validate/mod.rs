//! Validates values against a schema, with the errors of kube-apiserver.
//!
//! Follows Kubernetes 1.37 (`kube-openapi/pkg/validation/validate`). Where that walks a map, whose order is random in Go,
//! names are sorted here.

mod alternatives;
#[cfg(not(feature = "cel"))]
mod correlated;
#[cfg(feature = "cel")]
pub(super) mod correlated;
mod equality;
mod numbers;
mod outcome;
mod texts;
mod types;

use serde_json::{Map, Value};

use crate::status::Cause;

use super::structural::{Additional, Rules, Structural};
use super::trail::Trail;
use correlated::{Correlated, Old};
use outcome::{Error, Kind, Outcome};

use crate::causes::value_text;

/// What is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Objects of clients.
    Object,
    /// The defaults of a schema: any format is a format, and `x-kubernetes-int-or-string` has no meaning.
    Default,
}

/// Returns what is wrong with a value at a path. Errors of parts that are as in the old value are left out.
pub(crate) fn validate(
    path: &str,
    value: &Value,
    old: Option<&Value>,
    schema: &Structural,
    purpose: Purpose,
) -> Vec<Cause> {
    let mut validator = Validator { purpose, path: Trail::default() };
    let old = old.map(|old| Correlated { old: Old::Value(old), new: value, schema });
    let outcome = validator.changed(schema, value, old);
    outcome.errors.into_iter().map(|error| error.into_cause(path)).collect()
}

/// As [`validate`], for an object.
pub(crate) fn validate_root(
    object: &Value,
    before: Option<&Map<String, Value>>,
    schema: &Structural,
) -> Vec<Cause> {
    let mut validator = Validator { purpose: Purpose::Object, path: Trail::default() };
    let old = before.map(|before| Correlated { old: Old::Fields(before), new: object, schema });
    let outcome = validator.changed(schema, object, old);
    outcome.errors.into_iter().map(|error| error.into_cause("")).collect()
}

struct Validator {
    purpose: Purpose,
    path: Trail,
}

impl Validator {
    /// Validates a value, whose errors count only if it differs from the old one.
    fn changed(&mut self, schema: &Structural, value: &Value, old: Option<Correlated<'_>>) -> Outcome {
        let mut outcome = self.node(schema, value, old);
        if !outcome.is_valid() && old.is_some_and(|old| old.is_equal()) {
            outcome.errors.clear();
        }
        outcome
    }

    fn node(&mut self, schema: &Structural, value: &Value, old: Option<Correlated<'_>>) -> Outcome {
        let mut outcome = Outcome::default();
        let rules = schema.rules.as_deref();
        if value.is_null() {
            outcome.merge(self.null_type(schema));
            self.allowed(rules, value, &mut outcome);
            return outcome;
        }
        if let Some(checked) = self.value_type(schema, value) {
            outcome.merge(checked);
            outcome.count();
        }
        outcome.merge(self.alternatives(rules, value));
        outcome.count();
        match value {
            Value::String(text) => {
                if let Some(error) = rules.and_then(|rules| self.text(rules, text)) {
                    outcome.add(error);
                }
                outcome.count();
                if let Some(format) = self.text_format(schema) {
                    if let Some(error) = self.format_error(schema, format, text) {
                        outcome.add(error);
                    }
                    outcome.count();
                }
            }
            Value::Number(number) => {
                outcome.merge(self.number(schema, number));
                outcome.count();
            }
            Value::Array(items) => {
                outcome.merge(self.items(schema, items, old));
                outcome.count();
            }
            Value::Object(_) | Value::Bool(_) | Value::Null => {}
        }
        self.allowed(rules, value, &mut outcome);
        outcome.count();
        if let Value::Object(fields) = value {
            outcome.merge(self.fields(schema, fields, old));
            outcome.count();
        }
        outcome.count();
        outcome
    }

    fn allowed(&self, rules: Option<&Rules>, value: &Value, outcome: &mut Outcome) {
        let Some(allowed) = rules.map(|rules| &rules.allowed).filter(|allowed| !allowed.is_empty()) else {
            return;
        };
        if allowed.iter().any(|one| equality::is_same(value, one)) {
            return;
        }
        let texts = allowed.iter().map(|value| match value {
            Value::String(text) => text.clone(),
            other => crate::apply::go_json(other),
        });
        let path = self.path.text();
        let listed: Vec<String> = allowed.iter().map(crate::apply::go_text).collect();
        let text = format!("{path} in body should be one of [{}]", listed.join(" "));
        let kind = Kind::NotSupported { value: value_text(value), allowed: texts.collect() };
        outcome.add(Error::new(path, text, kind));
    }

    fn items(&mut self, schema: &Structural, items: &[Value], old: Option<Correlated<'_>>) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(of) = schema.items.as_deref() {
            let old = old.and_then(Correlated::items);
            for (index, item) in items.iter().enumerate() {
                let length = self.path.push_index(index);
                outcome.merge(self.changed(of, item, old.as_ref().and_then(|old| old.of(item))));
                self.path.truncate(length);
            }
        }
        if let Some(rules) = schema.rules.as_deref() {
            self.item_rules(rules, items, &mut outcome);
        }
        outcome.count();
        outcome
    }

    fn item_rules(&self, rules: &Rules, items: &[Value], outcome: &mut Outcome) {
        let path = self.path.text();
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = rules.min_items.filter(|min| size < *min) {
            let text = format!("{path} in body should have at least {min} items");
            outcome.add(Error::new(path, text, Kind::Invalid(size.to_string())));
        }
        if let Some(max) = rules.max_items.filter(|max| size > *max) {
            let text = format!("{path} in body should have at most {max} items");
            outcome.add(Error::new(path, text, Kind::TooMany { actual: items.len(), max }));
        }
        // `uniqueItems` is refused in definitions
        if rules.unique_items && super::list_kind::has_duplicates(items) {
            let text = format!("{path} in body shouldn't contain duplicates");
            outcome.add(Error::new(path, text, Kind::Invalid("\"\"".into())));
        }
    }

    fn fields(
        &mut self,
        schema: &Structural,
        fields: &Map<String, Value>,
        old: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(rules) = schema.rules.as_deref() {
            self.size_of_fields(rules, fields, &mut outcome);
        }
        let is_root = self.path.text().is_empty();
        let correlated = |name: &str| match name {
            "kind" | "apiVersion" if is_root => None,
            _ => old.and_then(|old| old.key(name)),
        };
        for (name, value) in fields {
            match (schema.property(name), &schema.additional) {
                (Some(_), _) | (None, Additional::Undeclared | Additional::Allowed(true)) => {}
                (None, Additional::Allowed(false)) => {
                    let path = self.path.text();
                    let text = format!("{path}.{name} in body is a forbidden property");
                    outcome.add(Error::new(path, text, Kind::Invalid(crate::apply::quoted(name))));
                }
                (None, Additional::Schema(of)) => {
                    let length = self.path.push_dotted(name);
                    outcome.merge(self.changed(of, value, correlated(name)));
                    self.path.truncate(length);
                }
            }
        }
        for (name, value) in fields {
            let Some(property) = schema.property(name) else { continue };
            let length = self.path.push_name(name);
            outcome.merge(self.changed(property, value, correlated(name)));
            self.path.truncate(length);
        }
        for name in schema.rules.iter().flat_map(|rules| &rules.required) {
            if !fields.contains_key(name.as_ref()) {
                let path = format!("{}.{name}", self.path.text());
                let text = format!("{path} in body is required");
                outcome.add(Error::new(path, text, Kind::Required));
            }
        }
        outcome
    }

    fn size_of_fields(&self, rules: &Rules, fields: &Map<String, Value>, outcome: &mut Outcome) {
        let path = self.path.text();
        let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(min) = rules.min_properties.filter(|min| size < *min) {
            let text = format!("{path} in body should have at least {min} properties");
            outcome.add(Error::new(path, text, Kind::Invalid(size.to_string())));
        }
        if let Some(max) = rules.max_properties.filter(|max| size > *max) {
            let text = format!("{path} in body should have at most {max} properties");
            outcome.add(Error::new(path, text, Kind::TooMany { actual: fields.len(), max }));
        }
    }
}
