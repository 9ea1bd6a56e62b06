//! The types of the tables.

use crate::dropped::Dropped;

/// One field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(crate) number: u8,
    pub(crate) shape: Shape,
    pub(crate) rule: Rule,
}

/// A JSON name: its offset in the names, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) u16, pub(super) u8);

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The index of the message, for kinds that have one.
    pub(crate) message: u16,
    pub(crate) kind: Kind,
    pub(crate) card: Card,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Card {
    One,
    Repeated,
    /// A map with string keys.
    Map,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bytes,
    Bool,
    Int,
    /// An integer that Go truncates to 32 bits.
    Int32,
    Double,
    Message,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON in the bytes of a message.
    RawJson,
    /// As `RawJson`, or an object in protobuf.
    RawExtension,
    /// A list of strings in a message of its own.
    TextList,
    /// A schema of apiextensions, or a bool.
    SchemaOrBool,
    /// A schema, or a list of them.
    SchemaOrArray,
    /// A schema, or a list of strings.
    SchemaOrStrings,
}

/// The difference between protobuf and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Plain,
    /// Protobuf writes a zero, and JSON omits it.
    OmitZero,
    /// Protobuf nests a message whose members are inlined in JSON.
    Inline,
}

impl Shape {
    pub(crate) const fn new(card: Card, kind: Kind, message: u16) -> Self {
        Self { message, kind, card }
    }
}

impl Field {
    pub(crate) const fn new(number: u8, shape: Shape, rule: Rule, name: u16, name_length: u8) -> Self {
        Self { name: Name(name, name_length), number, shape, rule }
    }
}

impl Name {
    pub(crate) const NONE: Self = Self(0, 0);
}

/// The schema of a kind: its API version, its name, its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) message: u16,
    pub(crate) types: TypeFields,
}

/// Whether objects have `apiVersion` and `kind`, which are not in their message. `false` if the field was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeFields {
    pub(crate) api_version: bool,
    pub(crate) kind: bool,
}

impl Schema {
    pub(crate) const fn new(api_version: &'static str, kind: &'static str, message: u16) -> Self {
        Self { api_version, kind, message, types: TypeFields { api_version: true, kind: true } }
    }

    /// Returns the schema of an object without the dropped fields.
    pub(crate) fn without(mut self, dropped: Dropped<'_>) -> Self {
        self.types.api_version &= !dropped.has(r#"["apiVersion"]"#);
        self.types.kind &= !dropped.has(r#"["kind"]"#);
        self
    }
}
