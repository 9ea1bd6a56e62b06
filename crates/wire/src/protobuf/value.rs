//! One value, as serde asks for it.
//!
//! Nothing here is generic over anything but the visitor, and few of serde's questions lead to others: each of the
//! types that are decoded is compiled once, and with nothing that it does not use.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{self, IntoDeserializer, Visitor};

use super::access::{Access, Entries};
use super::envelope::{Envelope, MAGIC};
use super::object::Object;
use super::reader::{ProtobufProblem, Raw, field, field_if, find_bytes, find_signed, text};
use super::run::{At, Fault, expected};
use super::schema::{Card, Kind, Schema, Shape};
use super::time::{Precision, rfc3339};
use crate::json::{Guarded, is_too_deep};
use crate::limits::{Exceeded, Target};

/// A value of one field.
pub(super) struct Value<'a, 'de> {
    pub(super) at: At<'a>,
    pub(super) shape: Shape,
    pub(super) raw: Raw<'de>,
    /// Its field's number, and what follows in the message: the other entries of a list or map are there.
    pub(super) number: u8,
    pub(super) more: Option<&'a mut &'de [u8]>,
}

impl<'a, 'de> Value<'a, 'de> {
    pub(super) fn one(at: At<'a>, kind: Kind, message: u16, raw: Raw<'de>) -> Self {
        Self { at, shape: Shape::new(Card::One, kind, message), raw, number: 0, more: None }
    }

    pub(super) fn text(at: At<'a>, text: &'de str) -> Self {
        Self::one(at, Kind::Text, 0, Raw::Bytes(text.as_bytes()))
    }

    fn is(&self, kind: Kind) -> bool {
        self.shape.card == Card::One && self.shape.kind == kind
    }

    #[inline]
    fn is_null(&self) -> bool {
        is_null(self.shape, self.raw)
    }

    #[inline]
    fn visit_text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let bytes = match (self.shape.card, self.shape.kind) {
            (Card::One, Kind::Text) => self.raw.bytes()?,
            (Card::One, Kind::Quantity) => find_bytes(self.raw.bytes()?, 1)?,
            (Card::One, Kind::Time | Kind::MicroTime | Kind::Bytes) => return self.visit_written(visitor),
            _ => return self.visit_whatever(visitor, "a text"),
        };
        match text(bytes) {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    /// A value whose kind is in its bytes; of another kind than the type wants, if it is none of those.
    #[inline(never)]
    fn visit_whatever<V: Visitor<'de>>(self, visitor: V, wanted: &str) -> Result<V::Value, Fault> {
        match (self.shape.card, self.shape.kind) {
            (Card::One, Kind::RawJson | Kind::RawExtension) => self.visit_json(visitor, Target::Anything),
            (Card::One, Kind::IntOrString) => self.visit_int_or_string(visitor),
            (Card::One, Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings) => {
                self.visit_union(visitor, Target::Anything)
            }
            _ => Err(expected(wanted)),
        }
    }

    /// What is text in JSON only.
    fn visit_written<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let bytes = self.raw.bytes()?;
        if self.shape.kind == Kind::Bytes {
            return visitor.visit_str(&BASE64.encode(bytes));
        }
        if bytes.is_empty() {
            return visitor.visit_unit();
        }
        let mut text = [0; 27];
        visitor.visit_str(self.time(bytes, &mut text)?)
    }

    #[inline(never)]
    fn time<'t>(&self, bytes: &[u8], text: &'t mut [u8; 27]) -> Result<&'t str, Fault> {
        let precision = match self.shape.kind {
            Kind::MicroTime => {
                let micros = find_signed(bytes, 2)? / 1000;
                let micros = u32::try_from(micros).ok().filter(|micros| *micros < 1_000_000);
                Precision::Micros(micros.ok_or(&ProtobufProblem::Time)?)
            }
            _ => Precision::Seconds,
        };
        Ok(rfc3339(find_signed(bytes, 1)?, precision, text)?)
    }

    fn visit_number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (self.shape.card, self.shape.kind) {
            (Card::One, Kind::Int) => visitor.visit_i64(self.raw.signed()?),
            (Card::One, Kind::Int32) => visitor.visit_i64(short(self.raw.signed()?)),
            (Card::One, Kind::Double) => visitor.visit_f64(self.raw.double()?),
            _ => self.visit_whatever(visitor, "a number"),
        }
    }

    #[inline]
    fn visit_entries<V: Visitor<'de>>(self, visitor: V, target: Target) -> Result<V::Value, Fault> {
        match (self.shape.card, self.shape.kind) {
            (Card::Repeated, _) | (Card::One, Kind::TextList) => {
                visitor.visit_seq(Entries::of(self, size_of::<V::Value>(), target)?)
            }
            _ => self.visit_whatever(visitor, "a list"),
        }
    }

    #[inline]
    fn visit_members<V: Visitor<'de>>(self, visitor: V, target: Target) -> Result<V::Value, Fault> {
        match (self.shape.card, self.shape.kind) {
            (Card::Map, _) | (Card::One, Kind::Message) => {
                visitor.visit_map(Access::of(self, size_of::<V::Value>(), target)?)
            }
            (Card::One, Kind::RawJson | Kind::RawExtension) => self.visit_json(visitor, target),
            _ => self.visit_whatever(visitor, "an object"),
        }
    }

    /// Number or text, by the first field.
    fn visit_int_or_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let bytes = self.raw.bytes()?;
        if find_signed(bytes, 1)? == 0 {
            return visitor.visit_i64(short(find_signed(bytes, 2)?));
        }
        Self::one(self.at, Kind::Text, 0, Raw::Bytes(find_bytes(bytes, 3)?)).visit_text(visitor)
    }

    fn visit_json<V: Visitor<'de>>(self, visitor: V, target: Target) -> Result<V::Value, Fault> {
        let Some(json) = json(self.raw.bytes()?)? else { return visitor.visit_unit() };
        if self.is(Kind::RawExtension) && json.starts_with(MAGIC) {
            return self.visit_envelope(json, visitor, target);
        }
        let limits = self.at.run.limits;
        let mut inner = serde_json::Deserializer::from_slice(json);
        let guarded = Guarded::new(&mut inner, limits, self.at.place);
        let value = match target {
            Target::Struct => de::Deserializer::deserialize_struct(guarded, "", &[], visitor),
            Target::Collection | Target::Anything => de::Deserializer::deserialize_any(guarded, visitor),
        };
        let ended = value.and_then(|value| inner.end().map(|()| value));
        ended.map_err(|error| match is_too_deep(&error) {
            true => limits.exceeded::<()>(Exceeded::Depth).err().map_or_else(|| error.into(), Fault::from),
            false => error.into(),
        })
    }

    /// An object within another.
    fn visit_envelope<V: Visitor<'de>>(
        self,
        bytes: &'de [u8],
        visitor: V,
        target: Target,
    ) -> Result<V::Value, Fault> {
        let envelope = Envelope::read(bytes)?;
        let Some(schema) = Schema::of(envelope.api_version, envelope.kind) else {
            let what = format_args!("the kind {} {} is not known", envelope.api_version, envelope.kind);
            return Err(de::Error::custom(what));
        };
        Object::new(self.at, schema, envelope.object).visit(visitor, target)
    }

    /// The unions of apiextensions: their JSON is that of the one member that is set.
    fn visit_union<V: Visitor<'de>>(self, visitor: V, target: Target) -> Result<V::Value, Fault> {
        let or_bool = self.is(Kind::SchemaOrBool);
        let schema_number = if or_bool { 2 } else { 1 };
        let mut rest = self.raw.bytes()?;
        let (mut schema, mut allows) = (None, false);
        while !rest.is_empty() {
            let here = rest;
            match field(&mut rest)? {
                (number, raw) if number == schema_number => {
                    if schema.replace(raw).is_some() {
                        return Err(Fault::from(&ProtobufProblem::Disordered));
                    }
                }
                (1, raw) => allows = raw.number()? != 0,
                (2, _) => {
                    let kind = if self.is(Kind::SchemaOrArray) { Kind::Message } else { Kind::Text };
                    let shape = Shape::new(Card::One, kind, self.shape.message);
                    let size = size_of::<V::Value>();
                    return visitor.visit_seq(Entries::within(self.at, shape, 2, here, size, target)?);
                }
                _ => self.at.run.skipped(),
            }
        }
        match schema {
            Some(raw) => {
                let schema = Self::one(self.at, Kind::Message, self.shape.message, raw);
                schema.visit_members(visitor, target)
            }
            None if or_bool => visitor.visit_bool(allows),
            None => visitor.visit_unit(),
        }
    }

    /// The other entries must not be taken for something else.
    fn skip_entries(&mut self) -> Result<(), Fault> {
        if let Some(more) = self.more.take() {
            while field_if(more, u32::from(self.number))?.is_some() {}
        }
        Ok(())
    }
}

/// Whether JSON has null for a value.
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
            // What is broken is not null.
            Kind::RawJson | Kind::RawExtension => matches!(json(bytes), Ok(None)),
            _ => bytes.is_empty(),
        }
}

/// A number of 32 bits as Go takes it: without what is beyond them.
fn short(number: i64) -> i64 {
    i64::from(number as i32)
}

/// The JSON in a message around it, unless it is null.
fn json(bytes: &[u8]) -> Result<Option<&[u8]>, Fault> {
    let json = find_bytes(bytes, 1)?;
    Ok(Some(json).filter(|json| !json.is_empty() && json.trim_ascii() != b"null"))
}

macro_rules! by {
    ($visit:ident: $($question:ident)*) => { $(
        #[inline]
        fn $question<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.$visit(visitor)
        }
    )* };
}

impl<'de> de::Deserializer<'de> for Value<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (self.shape.card, self.shape.kind) {
            (Card::Map, _) | (Card::One, Kind::Message) => self.visit_members(visitor, Target::Anything),
            (Card::Repeated, _) | (Card::One, Kind::TextList) => {
                self.visit_entries(visitor, Target::Anything)
            }
            (Card::One, Kind::Bool) => visitor.visit_bool(self.raw.number()? != 0),
            (Card::One, Kind::Int | Kind::Int32 | Kind::Double) => self.visit_number(visitor),
            (Card::One, Kind::IntOrString) => self.visit_int_or_string(visitor),
            (Card::One, Kind::RawJson | Kind::RawExtension) => self.visit_json(visitor, Target::Anything),
            (Card::One, Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings) => {
                self.visit_union(visitor, Target::Anything)
            }
            (Card::One, Kind::Text | Kind::Bytes | Kind::Time | Kind::MicroTime | Kind::Quantity) => {
                self.visit_text(visitor)
            }
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.visit_members(visitor, Target::Struct)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_members(visitor, Target::Collection)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_entries(visitor, Target::Collection)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if !self.is(Kind::Bool) {
            return self.visit_whatever(visitor, "a bool");
        }
        visitor.visit_bool(self.raw.number()? != 0)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if !self.is(Kind::Text) {
            return Err(expected("a text"));
        }
        match text(self.raw.bytes()?) {
            Cow::Borrowed(text) => visitor.visit_enum(text.into_deserializer()),
            Cow::Owned(text) => visitor.visit_enum(text.into_deserializer()),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        self.skip_entries()?;
        visitor.visit_unit()
    }

    by!(visit_text: deserialize_identifier deserialize_str deserialize_string deserialize_char);
    by!(visit_number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16);
    by!(visit_number: deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64);

    serde::forward_to_deserialize_any! { bytes byte_buf unit unit_struct tuple tuple_struct }
}
