//! From a value in any encoding to a type, by serde.
//!
//! There is one deserializer for all encodings, [`AnyValue`], and one access to what is in a value, [`Container`]: so a
//! program compiles each type that it decodes once, whatever the number of encodings. What reads bytes is generic over
//! nothing and is compiled here; what is generic only passes on what was read.

mod container;
mod fault;
mod key;
mod run;
mod value;

use std::borrow::Cow;

use serde::de::{Expected, Unexpected};

use crate::codec::{AnyContainer, AnyValue};

pub(crate) use container::Container;
pub(crate) use fault::{Fault, Why};
pub(crate) use key::Key;
pub(crate) use run::{At, Run, Trail};

/// What reads a value of one encoding.
pub(crate) trait ReadValue<'a, 'de: 'a>: Sized {
    /// Whether the value is null, which is taken then.
    fn take_null(&self) -> Result<bool, Fault>;

    /// What is there. What has others in it is not entered by that.
    fn token<'t>(&self, scratch: &'t mut Scratch) -> Result<Token<'t, 'de>, Fault>;

    /// Enters a value that has others in it, of which something of that size is built; `None` if it is of another kind.
    /// What is in it is too large to be moved: `make` is inlined for each kind of container.
    fn open<R>(
        &self,
        size: usize,
        make: impl FnOnce(At<'a, 'de>, AnyContainer<'a, 'de>) -> R,
    ) -> Result<Option<R>, Fault>;

    /// A text.
    fn text<'t>(&self, scratch: &'t mut Scratch, expected: &dyn Expected) -> Result<Text<'t, 'de>, Fault> {
        match self.token(scratch)? {
            Token::Text(text) => Ok(text),
            other => Err(other.unexpected(expected)),
        }
    }

    /// Passes over the value.
    fn skip(&self) -> Result<(), Fault>;

    /// The value as it stands, where that is JSON.
    fn raw_json(&self) -> Result<Option<&'de str>, Fault>;
}

/// What reads the entries of a list, or of a map or object, of one encoding.
pub(crate) trait ReadContainer<'a, 'de: 'a>: Sized {
    fn is_list(&self) -> bool;

    /// How many entries a list has, where that is known.
    fn count(&self) -> Option<usize>;

    fn next_key(&mut self, at: At<'a, 'de>) -> Result<Option<Cow<'de, str>>, Fault>;

    /// Puts the value of the last key there.
    fn value(&mut self, at: At<'a, 'de>, value: &mut Option<AnyValue<'a, 'de>>) -> Result<(), Fault>;

    /// Puts the next entry of a list there; false if there is none.
    fn next_element(&mut self, at: At<'a, 'de>, value: &mut Option<AnyValue<'a, 'de>>)
    -> Result<bool, Fault>;

    /// After a type has taken what it wants: nothing may be left, where the encoding does not say before how much there is.
    fn end(&mut self, at: At<'a, 'de>) -> Result<(), Fault>;
}

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
