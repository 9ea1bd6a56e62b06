//! The serde deserializer for all encodings.
//!
//! There is one deserializer for all encodings, [`AnyValue`](crate::codec::AnyValue), and one access to the content of
//! a value, [`Container`]. So a program compiles each decoded type once, independent of the number of encodings. Code
//! that reads bytes is not generic and is compiled in this crate; generic code only passes the read values on.

mod container;
mod fault;
mod key;
mod run;
mod value;
mod within;

use std::borrow::Cow;

use serde::de::{Expected, Unexpected};

pub(crate) use container::Container;
pub(crate) use fault::{Cause, Fault};
pub(crate) use key::Key;
pub(crate) use run::{Position, Run, Trail};
pub(crate) use within::Within;

/// A value, or the kind of a container.
pub(crate) enum Token<'t, 'de> {
    Null,
    Bool(bool),
    Number(Number<'de>),
    Text(Text<'t, 'de>),
    List,
    Map,
}

/// The buffer into which a time is formatted.
pub(crate) type Scratch = [u8; 27];

pub(crate) enum Text<'t, 'de> {
    Borrowed(&'de str),
    Owned(String),
    /// A string in the scratch buffer.
    Short(&'t str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number<'de> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// An integer of more than 64 bits, as text and as float.
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
    /// Returns the error for a type that expects another value.
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
