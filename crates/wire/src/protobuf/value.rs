//! Protobuf values.

use super::reader::{Raw, find_bytes};
use crate::decode::{Fault, Position};
use crate::schema::{Card, Kind, Schema, Shape};

/// A value of one field, or an object.
pub(crate) struct Value<'a, 'de> {
    pub(super) position: Position<'a, 'de>,
    pub(super) shape: Shape,
    pub(super) raw: Raw<'de>,
    /// For a list or map: the field number, and the other entries.
    pub(super) number: u8,
    pub(super) more: &'de [u8],
    /// For an object: its schema, since version and kind are not in its message.
    pub(super) schema: Option<&'a Schema>,
}

impl<'a, 'de> Value<'a, 'de> {
    #[inline]
    pub(super) fn new(position: Position<'a, 'de>, shape: Shape, raw: Raw<'de>) -> Self {
        Self { position, shape, raw, number: 0, more: &[], schema: None }
    }

    #[inline]
    pub(super) fn one(position: Position<'a, 'de>, kind: Kind, message: u16, raw: Raw<'de>) -> Self {
        Self::new(position, Shape::new(Card::One, kind, message), raw)
    }

    pub(super) fn text(position: Position<'a, 'de>, text: &'de str) -> Self {
        Self::one(position, Kind::Text, 0, Raw::Bytes(text.as_bytes()))
    }

    pub(super) fn object(position: Position<'a, 'de>, schema: &'a Schema, message: &'de [u8]) -> Self {
        let value = Self::one(position, Kind::Message, schema.message, Raw::Bytes(message));
        Self { schema: Some(schema), ..value }
    }
}

/// Whether a value is null in JSON.
#[inline]
pub(super) fn is_null(shape: Shape, raw: Raw<'_>) -> bool {
    let can_be = matches!(shape.kind, Kind::Time | Kind::MicroTime | Kind::RawJson | Kind::RawExtension);
    can_be && is_without_content(shape, raw)
}

#[inline(never)]
fn is_without_content(shape: Shape, raw: Raw<'_>) -> bool {
    let Raw::Bytes(bytes) = raw else { return false };
    shape.card == Card::One
        && match shape.kind {
            // Broken bytes are not null.
            Kind::RawJson | Kind::RawExtension => matches!(json(bytes), Ok(None)),
            _ => bytes.is_empty(),
        }
}

/// Returns the JSON in the message around it, unless it is null.
pub(super) fn json(bytes: &[u8]) -> Result<Option<&[u8]>, Fault> {
    let json = find_bytes(bytes, 1)?;
    Ok(Some(json).filter(|json| !json.is_empty() && json.trim_ascii() != b"null"))
}
