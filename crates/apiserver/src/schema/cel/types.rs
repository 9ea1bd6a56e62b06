//! The types of expressions.

use std::fmt::{self, Display, Formatter};

use super::super::structural::Structural;
use super::shape::Shape;

#[derive(Clone, Debug)]
pub(super) enum Type<'s> {
    /// Any value, whose type is known only in the evaluation.
    Dyn,
    /// The type of what an empty list has.
    Open,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    Timestamp,
    Duration,
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Object(Shape<'s>),
    Optional(Box<Self>),
    /// A type of a library, or `type`.
    Named(&'static str),
    /// A parameter of a signature.
    Parameter(&'static str),
}

/// Whether expressions can read the values of a node.
pub(crate) fn is_typed(schema: &Structural) -> bool {
    Type::of(schema, false).is_some()
}

impl<'s> Type<'s> {
    /// Returns the type of a node; `None` if expressions cannot read its values.
    ///
    /// Follows Kubernetes 1.37 (`cel/common.SchemaDeclType`).
    pub(super) fn of(schema: &'s Structural, is_root: bool) -> Option<Self> {
        if schema.is_int_or_string {
            return Some(Self::Dyn);
        }
        Some(match schema.declared.as_ref() {
            "array" => Self::List(Box::new(Self::of(schema.items.as_deref()?, false)?)),
            "object" => match schema.additional.schema() {
                Some(values) => Self::Map(Box::new(Self::String), Box::new(Self::of(values, false)?)),
                None if is_root => Self::Object(Shape::of_root(schema)),
                None => Self::Object(Shape::of(schema)),
            },
            "string" => match schema.rules.as_ref().map_or("", |rules| &rules.format) {
                "byte" => Self::Bytes,
                "duration" => Self::Duration,
                "date" | "date-time" => Self::Timestamp,
                _ => Self::String,
            },
            "boolean" => Self::Bool,
            "number" => Self::Double,
            "integer" => Self::Int,
            _ => return None,
        })
    }

    pub(super) fn is_any(&self) -> bool {
        matches!(self, Self::Dyn | Self::Open)
    }

    /// Whether a value of the type may be used where another type is expected.
    pub(super) fn fits(&self, expected: &Self) -> bool {
        match (self, expected) {
            (one, other) if one.is_any() || other.is_any() => true,
            (Self::List(one), Self::List(other)) | (Self::Optional(one), Self::Optional(other)) => {
                one.fits(other)
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.fits(other_key) && value.fits(other_value)
            }
            (Self::Null, other) | (other, Self::Null) => other.is_nullable(),
            (one, other) => one == other,
        }
    }

    /// Whether the items of one list may have both types.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Open, _) | (_, Self::Open) => true,
            (Self::List(one), Self::List(other)) | (Self::Optional(one), Self::Optional(other)) => {
                one.is_equivalent(other)
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.is_equivalent(other_key) && value.is_equivalent(other_value)
            }
            (one, other) => one == other,
        }
    }

    /// Returns the name of the type without its parameters.
    pub(super) fn name(&self) -> String {
        match self {
            Self::List(_) => "list".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Null => "null_type".to_owned(),
            Self::Optional(_) => "optional_type".to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether null is compared with values of the type.
    fn is_nullable(&self) -> bool {
        match self {
            Self::Null | Self::Object(_) | Self::Timestamp | Self::Duration | Self::Optional(_) => true,
            Self::Named(name) => *name != "type",
            _ => false,
        }
    }

    /// Returns the type of values of two types that fit.
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, other) | (other, Self::Open) | (Self::Null, other) | (other, Self::Null) => other,
            (Self::Dyn, _) | (_, Self::Dyn) => Self::Dyn,
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.join(*other))),
            (Self::Optional(one), Self::Optional(other)) => Self::Optional(Box::new(one.join(*other))),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                Self::Map(Box::new(key.join(*other_key)), Box::new(value.join(*other_value)))
            }
            (one, _) => one,
        }
    }
}

impl PartialEq for Type<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(one), Self::List(other)) | (Self::Optional(one), Self::Optional(other)) => {
                one == other
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key == other_key && value == other_value
            }
            (Self::Object(one), Self::Object(other)) => one.is_same(*other),
            (Self::Named(one), Self::Named(other)) | (Self::Parameter(one), Self::Parameter(other)) => {
                one == other
            }
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
}

impl Display for Type<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn | Self::Open => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::Object(_) => "object",
            Self::Named(name) | Self::Parameter(name) => name,
            Self::List(items) => return write!(f, "list({items})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Optional(value) => return write!(f, "optional_type({value})"),
        })
    }
}
