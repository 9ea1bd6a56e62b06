//! From a value in any encoding to a type, by serde.
//!
//! There is one deserializer for all encodings, [`AnyValue`](crate::codec::AnyValue), and one access to what is in a value, [`Container`]: so a
//! program compiles each type that it decodes once, whatever the number of encodings. What reads bytes is generic over
//! nothing and is compiled here; what is generic only passes on what was read.

mod container;
mod fault;
mod key;
mod run;
mod value;

use std::borrow::Cow;

use serde::de::{Expected, Unexpected};

pub(crate) use container::Container;
pub(crate) use fault::{Fault, Why};
pub(crate) use key::Key;
pub(crate) use run::{At, Run, Trail};

/// What a value is.
pub(crate) enum Token<'t, 'de> {
    Null,
    Bool(bool),
    Number(Number<'de>),
    Text(Text<'t, 'de>),
    List,
    Map,
}

/// Where a time is written.
pub(crate) type Scratch = [u8; 27];

pub(crate) enum Text<'t, 'de> {
    Borrowed(&'de str),
    Owned(String),
    /// It is in the scratch.
    Short(&'t str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number<'de> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// An integer of more than 64 bits.
    Large(&'de str, f64),
}

impl Text<'_, '_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Short(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl<'de> From<Cow<'de, str>> for Text<'_, 'de> {
    #[inline]
    fn from(text: Cow<'de, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Borrowed(text),
            Cow::Owned(text) => Self::Owned(text),
        }
    }
}

impl Token<'_, '_> {
    /// The error where the type wants something else.
    #[cold]
    #[inline(never)]
    pub(crate) fn unexpected(self, expected: &dyn Expected) -> Fault {
        let unexpected = match &self {
            Self::Null => Unexpected::Other("null"),
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Number(Number::Unsigned(number)) => Unexpected::Unsigned(*number),
            Self::Number(Number::Signed(number)) => Unexpected::Signed(*number),
            Self::Number(Number::Float(number) | Number::Large(_, number)) => Unexpected::Float(*number),
            Self::Text(text) => Unexpected::Str(text.as_str()),
            Self::List => Unexpected::Seq,
            Self::Map => Unexpected::Map,
        };
        serde::de::Error::invalid_type(unexpected, expected)
    }
}
