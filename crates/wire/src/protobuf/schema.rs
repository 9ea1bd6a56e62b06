//! The form of the tables.

use crate::dropped::Dropped;

/// One field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(super) number: u8,
    pub(super) shape: Shape,
    pub(super) rule: Rule,
}

/// A name in JSON: where in the names it begins, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(super) u16, pub(super) u8);

/// What is in a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The message, of those kinds that have one.
    pub(super) message: u16,
    pub(super) kind: Kind,
    pub(super) card: Card,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Card {
    One,
    Repeated,
    /// By text.
    Map,
}

/// What a value is in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    Int,
    /// A number of 32 bits, of which Go takes no more.
    Int32,
    Double,
    Message,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON in the bytes of a message.
    RawJson,
    /// The same, which may also be an object in protobuf.
    RawExtension,
    /// A list of texts that is a message of its own.
    TextList,
    /// A schema of apiextensions, or a bool.
    SchemaOrBool,
    /// A schema, or a list of them.
    SchemaOrArray,
    /// A schema, or a list of texts.
    SchemaOrStrings,
}

/// In what JSON differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Plain,
    /// Protobuf writes the zero, and JSON leaves it out.
    OmitZero,
    /// Protobuf nests a message whose members stand in the one around it in JSON.
    Inline,
}

impl Shape {
    pub(super) const fn new(card: Card, kind: Kind, message: u16) -> Self {
        Self { message, kind, card }
    }
}

impl Field {
    pub(super) const fn new(number: u8, shape: Shape, rule: Rule, name: u16, name_length: u8) -> Self {
        Self { name: Name(name, name_length), number, shape, rule }
    }
}

impl Name {
    pub(crate) const NONE: Self = Self(0, 0);
}

/// A kind of objects: its group and version, its name, its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(super) message: u16,
    pub(crate) says: Says,
}

/// Which of what is not in their message objects say of themselves all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Says {
    pub(super) api_version: bool,
    pub(super) kind: bool,
}

impl Schema {
    pub(super) const fn new(api_version: &'static str, kind: &'static str, message: u16) -> Self {
        Self { api_version, kind, message, says: Says { api_version: true, kind: true } }
    }

    /// For an object without these fields.
    pub(super) fn without(mut self, dropped: Dropped<'_>) -> Self {
        self.says.api_version &= !dropped.has("apiVersion");
        self.says.kind &= !dropped.has("kind");
        self
    }
}
