//! The parsed schema of one version of a kind.

use serde_json::{Map, Value};

use super::pattern::Pattern;

/// How deep schemas are read. JSON is not parsed deeper than this, so only in-process callers can exceed it.
const MAX_DEPTH: usize = 128;

/// A node of a schema: the structure of values, and the rules that they must satisfy.
///
/// Follows Kubernetes 1.37 (`schema.Structural`). The nodes in `allOf`, `anyOf`, `oneOf` and `not` have the same type; only
/// their rules are used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structural {
    /// The declared type; empty if there is none.
    pub(super) declared: Box<str>,
    pub(super) is_nullable: bool,
    pub(super) is_embedded: bool,
    pub(super) keeps_unknown: bool,
    pub(super) is_int_or_string: bool,
    pub(super) list: ListKind,
    pub(super) default: Option<Value>,
    /// Sorted by name.
    properties: Vec<(Box<str>, Structural)>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Structural>>,
    /// `None` if there are no rules.
    pub(super) rules: Option<Box<Rules>>,
    /// The rules in CEL.
    #[cfg(feature = "cel")]
    pub(super) validations: Box<[super::cel::Rule]>,
    /// Whether the node or one below it has rules in CEL.
    #[cfg(feature = "cel")]
    pub(super) has_checks: bool,
}

/// The values of fields that are not declared.
#[derive(Clone, Debug, Default)]
pub(crate) enum Additional {
    #[default]
    Undeclared,
    /// `additionalProperties: true` or `false`.
    Allowed(bool),
    Schema(Box<Structural>),
}

/// How the items of a list are identified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    /// By the values of these fields.
    Map(Vec<Box<str>>),
}

/// The rules for values of a node, in the words of OpenAPI.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(super) format: Box<str>,
    pub(super) maximum: Option<Bound>,
    pub(super) minimum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) min_properties: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) pattern: Option<Pattern>,
    pub(super) allowed: Vec<Value>,
    pub(super) required: Vec<Box<str>>,
    pub(super) all_of: Vec<Structural>,
    pub(super) any_of: Vec<Structural>,
    pub(super) one_of: Vec<Structural>,
    pub(super) not: Option<Box<Structural>>,
}

/// A limit of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(super) value: f64,
    pub(super) is_exclusive: bool,
}

impl Structural {
    /// Parses an `openAPIV3Schema`. Fields that have no meaning there are ignored.
    pub(crate) fn parse(schema: &Value) -> Self {
        Self::node(schema, 0)
    }

    fn node(schema: &Value, depth: usize) -> Self {
        let Some(fields) = schema.as_object().filter(|_| depth < MAX_DEPTH) else {
            return Self { keeps_unknown: depth >= MAX_DEPTH, ..Self::default() };
        };
        let child = |value: &Value| Box::new(Self::node(value, depth + 1));
        let properties = fields.get("properties").and_then(Value::as_object);
        let mut properties: Vec<(Box<str>, Self)> = properties
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str().into(), Self::node(value, depth + 1)))
            .collect();
        properties.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            declared: text(fields, "type").into(),
            is_nullable: flag(fields, "nullable"),
            is_embedded: flag(fields, "x-kubernetes-embedded-resource"),
            keeps_unknown: flag(fields, "x-kubernetes-preserve-unknown-fields"),
            is_int_or_string: flag(fields, "x-kubernetes-int-or-string"),
            list: ListKind::of(fields),
            default: fields.get("default").filter(|value| !value.is_null()).cloned(),
            properties,
            additional: match fields.get("additionalProperties") {
                None | Some(Value::Null) => Additional::Undeclared,
                Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
                Some(schema) => Additional::Schema(child(schema)),
            },
            items: fields.get("items").filter(|items| items.is_object()).map(child),
            rules: Rules::of(fields, depth).map(Box::new),
            #[cfg(feature = "cel")]
            validations: super::cel::Rule::list(fields.get("x-kubernetes-validations")),
            #[cfg(feature = "cel")]
            has_checks: has_checks(schema),
        }
    }

    /// Returns the node of a declared field.
    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        let index = self.properties.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
        self.properties.get(index).map(|(_, property)| property)
    }

    /// Returns the declared fields, sorted by name.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.properties.iter().map(|(name, property)| (name.as_ref(), property))
    }

    pub(super) fn properties_mut(&mut self) -> impl Iterator<Item = (&str, &mut Self)> {
        self.properties.iter_mut().map(|(name, property)| (&**name, property))
    }

    /// Returns the node of a field, declared or not.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.property(name).or_else(|| self.additional.schema())
    }
}

impl Additional {
    pub(super) fn schema(&self) -> Option<&Structural> {
        match self {
            Self::Schema(schema) => Some(schema),
            Self::Undeclared | Self::Allowed(_) => None,
        }
    }
}

impl ListKind {
    fn of(schema: &Map<String, Value>) -> Self {
        match text(schema, "x-kubernetes-list-type") {
            "set" => Self::Set,
            "map" => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                Self::Map(keys.into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect())
            }
            _ => Self::Atomic,
        }
    }
}

/// The fields of a schema that are rules.
const RULES: [&str; 18] = [
    "format",
    "maximum",
    "minimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "uniqueItems",
    "pattern",
    "enum",
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

impl Rules {
    fn of(schema: &Map<String, Value>, depth: usize) -> Option<Self> {
        if !RULES.iter().any(|name| schema.contains_key(*name)) {
            return None;
        }
        let count = |name: &str| schema.get(name).and_then(Value::as_i64);
        let bound = |name: &str, exclusive: &str| {
            let value = schema.get(name).and_then(Value::as_f64)?;
            Some(Bound { value, is_exclusive: flag(schema, exclusive) })
        };
        let list = |name: &str| schema.get(name).and_then(Value::as_array).into_iter().flatten();
        let nodes = |name: &str| list(name).map(|node| Structural::node(node, depth + 1)).collect();
        let not = schema.get("not").filter(|not| not.is_object());
        Some(Self {
            format: text(schema, "format").into(),
            maximum: bound("maximum", "exclusiveMaximum"),
            minimum: bound("minimum", "exclusiveMinimum"),
            multiple_of: schema.get("multipleOf").and_then(Value::as_f64),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            unique_items: flag(schema, "uniqueItems"),
            pattern: Some(text(schema, "pattern")).filter(|text| !text.is_empty()).map(Pattern::new),
            allowed: list("enum").cloned().collect(),
            required: list("required").filter_map(Value::as_str).map(Box::from).collect(),
            all_of: nodes("allOf"),
            any_of: nodes("anyOf"),
            one_of: nodes("oneOf"),
            not: not.map(|not| Box::new(Structural::node(not, depth + 1))),
        })
    }
}

fn text<'a>(schema: &'a Map<String, Value>, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or("")
}

fn flag(schema: &Map<String, Value>, field: &str) -> bool {
    schema.get(field) == Some(&Value::Bool(true))
}

/// Whether a schema or one below it has rules in CEL.
#[cfg(feature = "cel")]
fn has_checks(schema: &Value) -> bool {
    let is_filled = |rules: &Value| rules.as_array().is_some_and(|rules| !rules.is_empty());
    let values = |map: &Value| map.as_object().is_some_and(|map| map.values().any(has_checks));
    schema.get("x-kubernetes-validations").is_some_and(is_filled)
        || schema.get("properties").is_some_and(values)
        || ["items", "additionalProperties"].iter().any(|field| schema.get(field).is_some_and(has_checks))
}
