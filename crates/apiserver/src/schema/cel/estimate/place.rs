//! Where in a schema the value of an expression is, and how large it may be.
//!
//! Follows Kubernetes 1.37 (`cel/common.SchemaDeclType`, `sizeEstimator`).

use super::super::super::structural::{Rules, Structural};
use super::super::names::unescape;
use super::super::shape::Shape;
use super::super::types::is_typed;
use super::range::Range;

/// The largest request, in bytes.
const MAX_REQUEST: u64 = 3 << 20;
/// The longest duration, and the longest time.
const MAX_TIME: u64 = 32;
/// The length of a date with its quotes.
const DATE: u64 = 12;

/// The place of a value.
#[derive(Clone, Copy)]
pub(super) enum Place<'s> {
    /// The value is made by the expression.
    Nowhere,
    /// A place that the schema does not have.
    Unknown,
    Node(Shape<'s>),
    /// A key of a map.
    Key,
}

/// A step from a value to another one.
pub(super) enum Step<'a> {
    /// To an item of a list, or a value of a map.
    Item,
    /// To a key of a map, or an index of a list.
    Key,
    Field(&'a str),
}

impl<'s> Place<'s> {
    /// Returns the place after a step. Steps from values that an expression makes lead to the root, as in Kubernetes.
    pub(super) fn step(self, root: Shape<'s>, step: &Step<'_>) -> Self {
        let shape = match self {
            Self::Nowhere => return Self::Node(root),
            Self::Unknown | Self::Key => return Self::Unknown,
            Self::Node(shape) => shape,
        };
        let schema = shape.schema;
        let is_map = schema.declared.as_ref() == "object" && schema.additional.schema().is_some();
        let found = match step {
            Step::Key if is_map => return Self::Key,
            Step::Item if is_map => schema.additional.schema(),
            Step::Item => schema.items.as_deref(),
            Step::Field(name) if !is_map => unescape(name).and_then(|name| shape.field(&name)),
            Step::Key | Step::Field(_) => None,
        };
        found.filter(|of| is_typed(of)).map_or(Self::Unknown, |of| Self::Node(Shape::of(of)))
    }

    /// Returns the size of a value at the place, if it has one.
    pub(super) fn size(self) -> Option<Range> {
        match self {
            Self::Nowhere | Self::Unknown => None,
            Self::Node(shape) => Some(Range::new(0, max_elements(shape.schema))),
            Self::Key => Some(Range::fixed(0)),
        }
    }
}

fn count(limit: Option<i64>) -> Option<u64> {
    limit.map(|limit| u64::try_from(limit).unwrap_or(0))
}

/// Returns how many items, entries or bytes a value may have; 0 for values of fixed size.
fn max_elements(schema: &Structural) -> u64 {
    let rule = |limit: fn(&Rules) -> Option<i64>| count(schema.rules.as_deref().and_then(limit));
    let length = || rule(|rules| rules.max_length).map(|length| length.saturating_mul(4));
    if schema.is_int_or_string {
        return length().unwrap_or(MAX_REQUEST - 2);
    }
    let fitting = |item: &Structural, more: u64| (MAX_REQUEST - 2) / (min_size(item) + more);
    match (schema.declared.as_ref(), format(schema)) {
        ("array", _) => rule(|rules| rules.max_items)
            .or_else(|| schema.items.as_deref().map(|items| fitting(items, 1)))
            .unwrap_or(0),
        ("object", _) => match schema.additional.schema() {
            Some(values) => rule(|rules| rules.max_properties).unwrap_or_else(|| fitting(values, 6)),
            None => 0,
        },
        ("string", "byte") => rule(|rules| rules.max_length).unwrap_or(MAX_REQUEST - 2),
        ("string", "duration" | "date-time") => MAX_TIME,
        ("string", "date") => DATE,
        ("string", _) => length().unwrap_or_else(|| {
            let allowed = schema.rules.as_deref().map_or(&[][..], |rules| &rules.allowed);
            let lengths = allowed.iter().map(|text| text.as_str().map_or(0, str::len));
            lengths.max().map_or(MAX_REQUEST - 2, |length| u64::try_from(length).unwrap_or(u64::MAX))
        }),
        _ => 0,
    }
}

fn format(schema: &Structural) -> &str {
    schema.rules.as_deref().map_or("", |rules| &rules.format)
}

/// Returns how many bytes a value needs at least.
fn min_size(schema: &Structural) -> u64 {
    if schema.is_int_or_string {
        return 1;
    }
    match (schema.declared.as_ref(), format(schema)) {
        ("boolean", _) => 4,
        ("integer" | "number", _) => 1,
        ("string", "duration") => 3,
        ("string", "date") => DATE,
        ("string", "date-time") => 21,
        ("object", _) if schema.additional.schema().is_none() => {
            let required = schema.rules.as_deref().map_or(&[][..], |rules| &rules.required);
            let fields = required.iter().filter_map(|name| {
                let field =
                    schema.property(name).filter(|field| is_typed(field) && field.default.is_none())?;
                Some(u64::try_from(name.len()).unwrap_or(0) + min_size(field) + 4)
            });
            fields.fold(2, u64::saturating_add)
        }
        _ => 2,
    }
}

/// Returns how many values of a schema there may be in one object.
pub(in crate::schema) fn max_cardinality(schema: &Structural) -> u64 {
    MAX_REQUEST / (min_size(schema) + 1)
}
