//! One value, and what it looks like in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{self, Expected};

use super::access::Container;
use super::envelope::{Envelope, MAGIC};
use super::reader::{ProtobufProblem, Raw, field, find_bytes, find_signed, text};
use super::schema::{Card, Kind, Schema, Shape};
use super::time::{Precision, rfc3339};
use crate::codec::AnyContainer;
use crate::decode::{At, Fault, Number, ReadValue, Text, Token};
use crate::json;

/// A value of one field, or an object.
pub(crate) struct Value<'a, 'de> {
    pub(super) at: At<'a, 'de>,
    pub(super) shape: Shape,
    pub(super) raw: Raw<'de>,
    /// Of a list or map: the number of its field, and the other entries.
    pub(super) number: u8,
    pub(super) more: &'de [u8],
    /// Of an object, which says its version and kind in JSON and not in its message.
    pub(super) schema: Option<&'a Schema>,
}

impl<'a, 'de> Value<'a, 'de> {
    #[inline]
    pub(super) fn new(at: At<'a, 'de>, shape: Shape, raw: Raw<'de>) -> Self {
        Self { at, shape, raw, number: 0, more: &[], schema: None }
    }

    #[inline]
    pub(super) fn one(at: At<'a, 'de>, kind: Kind, message: u16, raw: Raw<'de>) -> Self {
        Self::new(at, Shape::new(Card::One, kind, message), raw)
    }

    pub(super) fn text(at: At<'a, 'de>, text: &'de str) -> Self {
        Self::one(at, Kind::Text, 0, Raw::Bytes(text.as_bytes()))
    }

    pub(super) fn object(at: At<'a, 'de>, schema: &'a Schema, message: &'de [u8]) -> Self {
        let value = Self::one(at, Kind::Message, schema.message, Raw::Bytes(message));
        Self { schema: Some(schema), ..value }
    }

    fn container(at: At<'a, 'de>, container: Container<'a, 'de>) -> Token<'a, 'de> {
        Token::Container(at, AnyContainer::Protobuf(container))
    }

    /// What is text in JSON only.
    #[inline(never)]
    fn written(&self, bytes: &[u8]) -> Result<Token<'a, 'de>, Fault> {
        if self.shape.kind == Kind::Bytes {
            return Ok(Token::Text(Text::Whole(BASE64.encode(bytes).into())));
        }
        if bytes.is_empty() {
            return Ok(Token::Null);
        }
        let mut text = [0; 27];
        let length = self.time(bytes, &mut text)?.len();
        Ok(Token::Text(Text::Short(text, length)))
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

    /// Number or text, by the first field.
    #[inline(never)]
    fn int_or_string(&self, bytes: &'de [u8]) -> Result<Token<'a, 'de>, Fault> {
        if find_signed(bytes, 1)? == 0 {
            return Ok(Token::Number(Number::Signed(short(find_signed(bytes, 2)?))));
        }
        Ok(Token::Text(Text::Whole(text(find_bytes(bytes, 3)?))))
    }

    #[inline(never)]
    fn json(&self, bytes: &'de [u8], size: usize) -> Result<Token<'a, 'de>, Fault> {
        let Some(json) = json(bytes)? else { return Ok(Token::Null) };
        if self.shape.kind == Kind::RawExtension && json.starts_with(MAGIC) {
            return self.envelope(json, size);
        }
        self.json_value(json).token(size)
    }

    /// Its levels are counted anew.
    fn json_value(&self, json: &'de [u8]) -> json::Value<'a, 'de> {
        json::Value::of(At { level: 0, ..self.at }, json)
    }

    /// An object within another.
    fn envelope(&self, bytes: &'de [u8], size: usize) -> Result<Token<'a, 'de>, Fault> {
        let envelope = Envelope::read(bytes)?;
        let Some(schema) = Schema::find(envelope.api_version, envelope.kind) else {
            let what = format_args!("the kind {} {} is not known", envelope.api_version, envelope.kind);
            return Err(de::Error::custom(what));
        };
        Self::object(self.at, schema, envelope.object).token(size)
    }

    /// The unions of apiextensions: their JSON is that of the one member that is set.
    #[inline(never)]
    fn union(&self, mut rest: &'de [u8], size: usize) -> Result<Token<'a, 'de>, Fault> {
        let or_bool = self.shape.kind == Kind::SchemaOrBool;
        let schema_number = if or_bool { 2 } else { 1 };
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
                    let or_array = self.shape.kind == Kind::SchemaOrArray;
                    let kind = if or_array { Kind::Message } else { Kind::Text };
                    let shape = Shape::new(Card::One, kind, self.shape.message);
                    return Ok(Self::container(self.at.enter(size)?, Container::within(shape, 2, here)));
                }
                _ => self.at.run.skipped(),
            }
        }
        match schema {
            Some(raw) => Self::one(self.at, Kind::Message, self.shape.message, raw).token(size),
            None if or_bool => Ok(Token::Bool(allows)),
            None => Ok(Token::Null),
        }
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

impl<'a, 'de> ReadValue<'a, 'de> for Value<'a, 'de> {
    #[inline]
    fn take_null(&self) -> Result<bool, Fault> {
        Ok(is_null(self.shape, self.raw))
    }

    #[inline]
    fn token(&self, size: usize) -> Result<Token<'a, 'de>, Fault> {
        match (self.shape.card, self.shape.kind) {
            (Card::Map | Card::Repeated, _) | (Card::One, Kind::Message | Kind::TextList) => {
                let at = self.at.enter(size)?;
                Ok(Self::container(at, Container::of(self)?))
            }
            (Card::One, Kind::Text) => Ok(Token::Text(Text::Whole(text(self.raw.bytes()?)))),
            (Card::One, Kind::Bool) => Ok(Token::Bool(self.raw.number()? != 0)),
            (Card::One, Kind::Int) => Ok(Token::Number(Number::Signed(self.raw.signed()?))),
            (Card::One, Kind::Int32) => Ok(Token::Number(Number::Signed(short(self.raw.signed()?)))),
            (Card::One, Kind::Double) => Ok(Token::Number(Number::Float(self.raw.double()?))),
            (Card::One, kind) => {
                let bytes = self.raw.bytes()?;
                match kind {
                    Kind::Quantity => Ok(Token::Text(Text::Whole(text(find_bytes(bytes, 1)?)))),
                    Kind::IntOrString => self.int_or_string(bytes),
                    Kind::RawJson | Kind::RawExtension => self.json(bytes, size),
                    Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings => {
                        self.union(bytes, size)
                    }
                    _ => self.written(bytes),
                }
            }
        }
    }

    #[inline]
    fn text(&self, expected: &dyn Expected) -> Result<Text<'de>, Fault> {
        if self.shape.card == Card::One && self.shape.kind == Kind::Text {
            return Ok(Text::Whole(text(self.raw.bytes()?)));
        }
        match self.token(0)? {
            Token::Text(text) => Ok(text),
            other => Err(other.unexpected(expected)),
        }
    }

    /// The message that it is in is behind it already.
    #[inline]
    fn skip(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn raw_json(&self) -> Result<Option<&'de str>, Fault> {
        match (self.shape.card, self.shape.kind) {
            (Card::One, Kind::RawJson | Kind::RawExtension) => match json(self.raw.bytes()?)? {
                Some(json) if !json.starts_with(MAGIC) => self.json_value(json).raw_json(),
                Some(_) => Ok(None),
                None => Ok(Some("null")),
            },
            _ => Ok(None),
        }
    }
}
