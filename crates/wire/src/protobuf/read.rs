//! Reads protobuf values as their JSON counterparts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{self, Expected};

use super::access::Container;
use super::envelope::{Envelope, MAGIC};
use super::reader::{ProtobufProblem, field, find_bytes, find_signed, text};
use super::time::{Precision, rfc3339};
use super::value::{Value, is_null, json};
use crate::codec::{AnyContainer, ReadValue};
use crate::decode::{Fault, Number, Position, Scratch, Text, Token};
use crate::json;
use crate::schema::{Card, Kind, Schema, Shape};

impl<'a, 'de> ReadValue<'a, 'de> for Value<'a, 'de> {
    #[inline]
    fn take_null(&self) -> Result<bool, Fault> {
        Ok(is_null(self.shape, self.raw))
    }

    #[inline(always)]
    fn open<R>(
        &self,
        size: usize,
        make: impl FnOnce(Position<'a, 'de>, AnyContainer<'a, 'de>) -> R,
    ) -> Result<Option<R>, Fault> {
        let Self { shape, raw, number, more, schema, .. } = *self;
        let (of_one, number) = (Shape { card: Card::One, ..shape }, u32::from(number));
        let entries = match (shape.card, shape.kind) {
            (Card::One, Kind::Message) => Container::message(raw.bytes()?, shape.message, schema),
            (Card::Map, _) => Container::map(of_one, number, raw, more),
            (Card::Repeated, _) => Container::list(of_one, number, raw, more),
            (Card::One, Kind::TextList) => {
                Container::within(Shape::new(Card::One, Kind::Text, 0), 1, raw.bytes()?)
            }
            (
                Card::One,
                Kind::RawJson
                | Kind::RawExtension
                | Kind::SchemaOrBool
                | Kind::SchemaOrArray
                | Kind::SchemaOrStrings,
            ) => return Ok(self.open_inner(size)?.map(|(position, entries)| make(position, entries))),
            _ => return Ok(None),
        };
        Ok(Some(make(self.position.enter(size)?, AnyContainer::Protobuf(entries))))
    }

    #[inline]
    fn token<'t>(&self, scratch: &'t mut Scratch) -> Result<Token<'t, 'de>, Fault> {
        match (self.shape.card, self.shape.kind) {
            (Card::Map, _) | (Card::One, Kind::Message) => Ok(Token::Map),
            (Card::Repeated, _) | (Card::One, Kind::TextList) => Ok(Token::List),
            (Card::One, Kind::Text) => Ok(Token::Text(text(self.raw.bytes()?).into())),
            (Card::One, Kind::Bool) => Ok(Token::Bool(self.raw.number()? != 0)),
            (Card::One, Kind::Int) => Ok(Token::Number(Number::Signed(self.raw.signed()?))),
            (Card::One, Kind::Int32) => Ok(Token::Number(Number::Signed(truncated(self.raw.signed()?)))),
            (Card::One, Kind::Double) => Ok(Token::Number(Number::Float(self.raw.double()?))),
            (Card::One, Kind::Quantity) => Ok(Token::Text(text(find_bytes(self.raw.bytes()?, 1)?).into())),
            (Card::One, Kind::IntOrString) => self.int_or_string(self.raw.bytes()?),
            (Card::One, Kind::Bytes | Kind::Time | Kind::MicroTime) => {
                self.bytes_or_time(self.raw.bytes()?, scratch)
            }
            // Unknown fields were counted when the value was opened.
            (Card::One, _) => match self.inner(&|| ())? {
                Inner::Null => Ok(Token::Null),
                Inner::Bool(value) => Ok(Token::Bool(value)),
                Inner::List(..) => Ok(Token::List),
                Inner::Value(_) => Ok(Token::Map),
                Inner::Json(value) => value.token(scratch),
            },
        }
    }

    #[inline]
    fn text<'t>(&self, scratch: &'t mut Scratch, expected: &dyn Expected) -> Result<Text<'t, 'de>, Fault> {
        if self.shape.card == Card::One && self.shape.kind == Kind::Text {
            return Ok(text(self.raw.bytes()?).into());
        }
        match self.token(scratch)? {
            Token::Text(text) => Ok(text),
            other => Err(other.unexpected(expected)),
        }
    }

    /// The reader of the surrounding message is already after this value.
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

impl<'a, 'de> Value<'a, 'de> {
    /// Reads a value that is a string only in JSON: bytes and times.
    #[inline(never)]
    fn bytes_or_time<'t>(&self, bytes: &[u8], scratch: &'t mut Scratch) -> Result<Token<'t, 'de>, Fault> {
        if self.shape.kind == Kind::Bytes {
            return Ok(Token::Text(Text::Owned(BASE64.encode(bytes))));
        }
        if bytes.is_empty() {
            return Ok(Token::Null);
        }
        Ok(Token::Text(Text::Short(self.time(bytes, scratch)?)))
    }

    #[inline(never)]
    fn time<'t>(&self, bytes: &[u8], text: &'t mut Scratch) -> Result<&'t str, Fault> {
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

    /// Reads a number or a string, as the first field specifies.
    #[inline(never)]
    fn int_or_string<'t>(&self, bytes: &'de [u8]) -> Result<Token<'t, 'de>, Fault> {
        if find_signed(bytes, 1)? == 0 {
            return Ok(Token::Number(Number::Signed(truncated(find_signed(bytes, 2)?))));
        }
        Ok(Token::Text(text(find_bytes(bytes, 3)?).into()))
    }

    /// Opens the content of a message that JSON does not have.
    #[inline(never)]
    fn open_inner(&self, size: usize) -> Result<Option<(Position<'a, 'de>, AnyContainer<'a, 'de>)>, Fault> {
        let both = |position, entries| (position, entries);
        match self.inner(&|| self.position.run.skipped())? {
            Inner::Null | Inner::Bool(_) => Ok(None),
            Inner::List(shape, bytes) => {
                let entries = AnyContainer::Protobuf(Container::within(shape, 2, bytes));
                Ok(Some((self.position.enter(size)?, entries)))
            }
            Inner::Value(value) => value.open(size, both),
            Inner::Json(value) => value.open(size, both),
        }
    }

    /// Returns the content of a message that JSON does not have.
    #[inline(never)]
    fn inner(&self, unknown: &dyn Fn()) -> Result<Inner<'a, 'de>, Fault> {
        let bytes = self.raw.bytes()?;
        match self.shape.kind {
            Kind::RawJson | Kind::RawExtension => self.json(bytes),
            Kind::SchemaOrBool | Kind::SchemaOrArray | Kind::SchemaOrStrings => self.union(bytes, unknown),
            _ => Ok(Inner::Null),
        }
    }

    fn json(&self, bytes: &'de [u8]) -> Result<Inner<'a, 'de>, Fault> {
        let Some(json) = json(bytes)? else { return Ok(Inner::Null) };
        if self.shape.kind == Kind::RawExtension && json.starts_with(MAGIC) {
            return self.envelope(json);
        }
        Ok(Inner::Json(self.json_value(json)))
    }

    /// Counts its levels from 0.
    fn json_value(&self, json: &'de [u8]) -> json::Value<'a, 'de> {
        json::Value::of(Position { level: 0, ..self.position }, json)
    }

    /// Returns an object within another.
    fn envelope(&self, bytes: &'de [u8]) -> Result<Inner<'a, 'de>, Fault> {
        let envelope = Envelope::read(bytes)?;
        let Some(schema) = Schema::find(envelope.api_version, envelope.kind) else {
            let what = format_args!("the kind {} {} is not known", envelope.api_version, envelope.kind);
            return Err(de::Error::custom(what));
        };
        Ok(Inner::Value(Self::object(self.position, schema, envelope.object)))
    }

    /// Returns the content of a union of apiextensions: its JSON is the JSON of the member that is set.
    fn union(&self, mut rest: &'de [u8], unknown: &dyn Fn()) -> Result<Inner<'a, 'de>, Fault> {
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
                    return Ok(Inner::List(shape, here));
                }
                _ => unknown(),
            }
        }
        Ok(match schema {
            Some(raw) => Inner::Value(Self::one(self.position, Kind::Message, self.shape.message, raw)),
            None if or_bool => Inner::Bool(allows),
            None => Inner::Null,
        })
    }
}

/// The JSON counterpart of a message that JSON does not have.
enum Inner<'a, 'de> {
    Null,
    Bool(bool),
    /// A list with all its entries in these bytes.
    List(Shape, &'de [u8]),
    Value(Value<'a, 'de>),
    Json(json::Value<'a, 'de>),
}

/// Truncates a number to 32 bits, as Go does.
fn truncated(number: i64) -> i64 {
    i64::from(number as i32)
}
