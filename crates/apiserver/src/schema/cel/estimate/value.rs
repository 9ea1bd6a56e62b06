//! What is known of the values of expressions, and what some expressions cost.

use super::super::types::Type;
use super::place::Place;
use super::range::Range;

pub(super) const LIST: Range = Range { min: 10, max: 10 };
pub(super) const MAP: Range = Range { min: 30, max: 30 };
pub(super) const ONE: Range = Range { min: 1, max: 1 };
pub(super) const ZERO: Range = Range { min: 0, max: 0 };
/// What it costs to read a unit of a text.
pub(super) const TRAVERSAL: f64 = 0.1;

/// The sizes of the keys and values of a list or map that an expression makes.
#[derive(Clone, Copy)]
pub(super) struct Entries {
    pub(super) key: Range,
    pub(super) value: Range,
    pub(super) is_list: bool,
}

impl Entries {
    pub(super) fn union(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = (one?, other?);
        Some(Self { key: one.key.union(other.key), value: one.value.union(other.value), ..one })
    }
}

/// What is known of the value of an expression.
#[derive(Clone)]
pub(super) struct Estimate<'s> {
    pub(super) cost: Range,
    pub(super) size: Option<Range>,
    pub(super) entries: Option<Entries>,
    pub(super) place: Place<'s>,
    pub(super) of: Type<'s>,
}

impl Estimate<'_> {
    pub(super) fn size(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

/// Returns the size of values of a type that all have one size.
pub(super) fn size_of_type(of: &Type<'_>) -> Option<Range> {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => Some(ONE),
        Type::Optional(value) => size_of_type(value),
        _ => None,
    }
}
