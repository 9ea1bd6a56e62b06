//! Collects what is wrong with an object, with the paths of its fields.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use crate::apply::quoted;
use crate::causes;
use crate::status::Cause;

pub(crate) type Object = Map<String, Value>;

/// The faults so far, and the path of the field that is checked.
#[derive(Default)]
pub(super) struct Check {
    path: String,
    causes: Vec<Cause>,
    /// Those that Kubernetes finds after all others, by the tags of its types.
    declared: Vec<Cause>,
    pub(super) is_dry_run: bool,
}

impl Check {
    pub(super) fn into_causes(mut self) -> Vec<Cause> {
        self.causes.append(&mut self.declared);
        let mut seen = HashSet::with_capacity(self.causes.len());
        let is_new: Vec<bool> = self.causes.iter().map(|cause| seen.insert(cause)).collect();
        let causes = self.causes.into_iter().zip(is_new);
        causes.filter_map(|(cause, is_new)| is_new.then_some(cause)).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.causes.len()
    }

    /// Checks a field. An empty name is the field itself.
    pub(super) fn enter<T>(&mut self, name: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.push(name);
        let result = check(self);
        self.path.truncate(length);
        result
    }

    pub(super) fn index<T>(&mut self, index: usize, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        let result = check(self);
        self.path.truncate(length);
        result
    }

    pub(super) fn key<T>(&mut self, key: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        let _ = write!(self.path, "[{key}]");
        let result = check(self);
        self.path.truncate(length);
        result
    }

    /// Checks each item of a list.
    pub(super) fn each<'v>(
        &mut self,
        name: &str,
        items: &'v [Value],
        mut check: impl FnMut(&mut Self, &'v Value),
    ) {
        if items.is_empty() {
            return;
        }
        self.enter(name, |c| {
            for (index, item) in items.iter().enumerate() {
                c.index(index, |c| check(c, item));
            }
        });
    }

    fn push(&mut self, name: &str) {
        if !name.is_empty() {
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
        }
    }

    fn field(&self, name: &str) -> String {
        match (self.path.as_str(), name) {
            (path, "") => path.to_owned(),
            ("", name) => name.to_owned(),
            (path, name) if name.starts_with('[') => format!("{path}{name}"),
            (path, name) => format!("{path}.{name}"),
        }
    }

    /// Adds the faults that Kubernetes finds by the tags of its types at the end.
    pub(super) fn declared<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.causes.len();
        let result = check(self);
        let found = self.causes.split_off(before);
        self.declared.extend(found);
        result
    }

    pub(super) fn invalid(&mut self, field: &str, value: impl Shown, detail: &str) {
        self.causes.push(causes::invalid_text(&self.field(field), &value.shown(), detail));
    }

    /// As [`Self::invalid`], without a value in the message.
    pub(super) fn invalid_alone(&mut self, field: &str, detail: &str) {
        self.causes.push(causes::invalid_alone(&self.field(field), detail));
    }

    pub(super) fn required(&mut self, field: &str, detail: &str) {
        self.causes.push(causes::required(&self.field(field), detail));
    }

    pub(super) fn forbidden(&mut self, field: &str, detail: &str) {
        self.causes.push(causes::forbidden(&self.field(field), detail));
    }

    pub(super) fn duplicate(&mut self, field: &str, value: impl Shown) {
        self.causes.push(causes::duplicate_text(&self.field(field), &value.shown()));
    }

    pub(super) fn not_found(&mut self, field: &str, value: impl Shown, detail: &str) {
        self.causes.push(causes::not_found(&self.field(field), &value.shown(), detail));
    }

    pub(super) fn not_supported(&mut self, field: &str, value: impl Shown, supported: &[&str]) {
        let supported = supported.iter().copied();
        self.causes.push(causes::not_supported_text(&self.field(field), &value.shown(), supported));
    }

    pub(super) fn too_long(&mut self, field: &str, max: i64) {
        self.causes.push(causes::too_long(&self.field(field), max));
    }

    pub(super) fn too_many(&mut self, field: &str, actual: usize, max: i64) {
        self.causes.push(causes::too_many(&self.field(field), actual, max));
    }

    /// Adds the faults of a field that are found by its path.
    pub(super) fn found(&mut self, field: &str, find: impl FnOnce(&str) -> Vec<Cause>) {
        let found = find(&self.field(field));
        self.causes.extend(found);
    }

    /// Adds each broken rule.
    pub(super) fn rules(&mut self, field: &str, value: &str, broken: impl IntoIterator<Item = String>) {
        for rule in broken {
            self.invalid(field, value, &rule);
        }
    }

    /// A field that must be one of some values. It must be given if an empty one is not among them.
    pub(super) fn one_of(&mut self, field: &str, value: &str, supported: &[&str]) {
        match value {
            "" => self.required(field, ""),
            value if supported.contains(&value) => {}
            value => self.not_supported(field, value, supported),
        }
    }

    /// As [`Self::one_of`], of the members of an object. Nothing for one that is absent.
    pub(super) fn supported(&mut self, object: &impl Fields, field: &str, supported: &[&str]) {
        if object.has(field) && !supported.contains(&object.text(field)) {
            self.not_supported(field, object.text(field), supported);
        }
    }

    pub(super) fn nonnegative(&mut self, object: &Value, field: &str) {
        self.nonnegative_number(field, object.int(field).unwrap_or(0));
    }

    pub(super) fn nonnegative_number(&mut self, field: &str, number: i64) {
        if number < 0 {
            self.invalid(field, number, "must be greater than or equal to 0");
        }
    }

    pub(super) fn positive(&mut self, object: &Value, field: &str) {
        let number = object.int(field).unwrap_or(0);
        if number <= 0 {
            self.invalid(field, number, "must be greater than zero");
        }
    }

    pub(super) fn in_range(&mut self, field: &str, number: i64, min: i64, max: i64) {
        if number < min || number > max {
            self.invalid(field, number, &format!("must be between {min} and {max}, inclusive"));
        }
    }

    /// A field that an update must not change.
    pub(super) fn immutable(&mut self, field: &str, before: &Value, after: &Value) {
        if before != after {
            self.invalid(field, after, "field is immutable");
        }
    }
}

impl Check {
    /// As [`Self::immutable`], by a tag of the type.
    pub(super) fn declared_immutable(&mut self, field: &str, before: &Value, after: &Value) {
        if before != after {
            self.declared(|c| c.invalid(field, &NULL, "field is immutable"));
        }
    }
}

/// A value in a message.
pub(super) trait Shown {
    fn shown(&self) -> String;
}

impl Shown for &str {
    fn shown(&self) -> String {
        quoted(self)
    }
}

impl Shown for &String {
    fn shown(&self) -> String {
        quoted(self)
    }
}

impl Shown for i64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for &Value {
    fn shown(&self) -> String {
        causes::value_text(self)
    }
}

/// A text that is not quoted.
pub(super) struct Plain<'a>(pub(super) &'a str);

impl Shown for Plain<'_> {
    fn shown(&self) -> String {
        self.0.to_owned()
    }
}

/// What a field has that is absent.
pub(super) static NULL: Value = Value::Null;

/// Reads the fields of an object whose types have been checked.
pub(crate) trait Fields {
    /// Returns a field; null if it is absent.
    fn of(&self, field: &str) -> &Value;

    fn has(&self, field: &str) -> bool {
        !self.of(field).is_null()
    }

    /// Returns a text; empty if it is absent.
    fn text(&self, field: &str) -> &str {
        self.of(field).as_str().unwrap_or("")
    }

    fn int(&self, field: &str) -> Option<i64> {
        self.of(field).as_i64()
    }

    /// Whether a field is true.
    fn flag(&self, field: &str) -> bool {
        self.of(field) == true
    }

    fn items(&self, field: &str) -> &[Value] {
        self.of(field).as_array().map_or(&[], Vec::as_slice)
    }

    fn members<'a>(&'a self, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)>;
}

impl Fields for Value {
    fn of(&self, field: &str) -> &Value {
        self.get(field).unwrap_or(&NULL)
    }

    fn members<'a>(&'a self, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.of(field).as_object().into_iter().flatten()
    }
}

impl Fields for Map<String, Value> {
    fn of(&self, field: &str) -> &Value {
        self.get(field).unwrap_or(&NULL)
    }

    fn members<'a>(&'a self, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.of(field).as_object().into_iter().flatten()
    }
}

/// The texts of a list.
pub(super) fn texts(items: &[Value]) -> impl Iterator<Item = &str> {
    items.iter().map(|item| item.as_str().unwrap_or(""))
}

/// Returns a field that is an object, and creates it if it is not one.
pub(crate) fn member<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    let member = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    match member {
        Value::Object(member) => member,
        _ => unreachable!("it was set to an object above"),
    }
}

/// Copies a field from another state, or removes it if the other state has none.
pub(crate) fn copy(from: &impl Fields, object: &mut Object, field: &str) {
    match from.of(field) {
        Value::Null => object.remove(field),
        value => object.insert(field.to_owned(), value.clone()),
    };
}
