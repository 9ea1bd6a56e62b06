//! The members of messages and maps, and the entries of lists.

use std::borrow::Cow;

use super::lookup::message;
use super::reader::{ProtobufProblem, Raw, field, field_if, is_zero, number, tag, value};
use super::schema::{Card, Field, Kind, Rule, Schema, Shape};
use super::value::Value;
use crate::codec::{AnyValue, ReadContainer};
use crate::decode::{At, Fault, Run};

/// The members of an object, a message or a map, or the entries of a list.
pub(crate) enum Container<'a, 'de> {
    Message {
        fields: Fields<'de>,
        /// Of an object, which says its version and kind in JSON and not in its message.
        schema: Option<&'a Schema>,
        said: Said,
    },
    Map {
        first: Option<Raw<'de>>,
        more: &'de [u8],
        number: u32,
        shape: Shape,
        /// Of the key that was given last.
        value: Raw<'de>,
    },
    List(Entries<'de>),
}

/// Up to where it was given what is not in the message of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    Version,
    Kind,
    Message,
}

/// The fields of a message that are left.
pub(crate) struct Fields<'de> {
    /// From the value on of a field whose key was given, else from the next field on.
    rest: &'de [u8],
    /// From the last that was known.
    fields: &'static [Field],
    /// The number of the last one, and its wire type.
    last: u32,
    wire_type: u8,
    /// What is left of the message around it, whose member this is in protobuf and not in JSON.
    around: Option<Box<Fields<'de>>>,
}

impl<'de> Fields<'de> {
    fn new(rest: &'de [u8], index: u16) -> Self {
        Self { rest, fields: message(index), last: 0, wire_type: 0, around: None }
    }

    /// Goes to the value of the next field that JSON has.
    #[inline(always)]
    fn next(&mut self, run: &Run<'_, '_>) -> Result<Option<&'static Field>, Fault> {
        loop {
            if self.rest.is_empty() {
                let Some(around) = self.around.take() else { return Ok(None) };
                *self = *around;
                continue;
            }
            let (number, wire_type) = tag(&mut self.rest)?;
            let last = std::mem::replace(&mut self.last, number);
            if number <= last && (number < last || !self.repeats(number)) {
                return Err(Fault::from(&ProtobufProblem::Disordered));
            }
            let mut fields = self.fields;
            while let [first, rest @ ..] = fields
                && u32::from(first.number) < number
            {
                fields = rest;
            }
            self.fields = fields;
            let known = fields.first().filter(|field| u32::from(field.number) == number);
            let Some(field) = known else {
                value(&mut self.rest, wire_type)?;
                run.skipped();
                continue;
            };
            match field.rule {
                Rule::Plain => {}
                Rule::OmitZero => {
                    if is_zero(self.rest, wire_type) {
                        value(&mut self.rest, wire_type)?;
                        continue;
                    }
                }
                Rule::Inline => {
                    let raw = value(&mut self.rest, wire_type)?;
                    let inner = Self::new(raw.bytes()?, field.shape.message);
                    let around = std::mem::replace(self, inner);
                    self.around = Some(Box::new(around));
                    continue;
                }
            }
            self.wire_type = wire_type;
            return Ok(Some(field));
        }
    }
}

impl Fields<'_> {
    /// Only what is not known may be there more than once: the entries of lists and maps were all taken with the first.
    #[cold]
    fn repeats(&self, number: u32) -> bool {
        self.fields.first().is_none_or(|field| u32::from(field.number) != number)
    }
}

impl<'de> Fields<'de> {
    /// The value of the field to which it went, which is on this level.
    #[inline(always)]
    fn value<'a>(&mut self, at: At<'a, 'de>) -> Result<Value<'a, 'de>, Fault> {
        let field = self.fields.first().ok_or_else(|| Fault::new("a value without a key"))?;
        at.run.within(at.level, field);
        // Read here and not with the key, because what was written to memory just before is slow to read.
        let raw = value(&mut self.rest, self.wire_type)?;
        let more = match field.shape.card {
            Card::One => &[],
            Card::Repeated | Card::Map => entries(&mut self.rest, field.number),
        };
        Ok(Value { number: field.number, more, ..Value::new(at.deeper(), field.shape, raw) })
    }
}

impl Said {
    /// What is given next, of what objects of that kind say.
    fn next(self, schema: &Schema) -> Self {
        match self {
            Self::Nothing if schema.says.api_version => Self::Version,
            Self::Nothing | Self::Version if schema.says.kind => Self::Kind,
            _ => Self::Message,
        }
    }
}

impl<'a, 'de> Container<'a, 'de> {
    #[inline(always)]
    pub(super) fn message(message: &'de [u8], index: u16, schema: Option<&'a Schema>) -> Self {
        let said = if schema.is_some() { Said::Nothing } else { Said::Message };
        Self::Message { fields: Fields::new(message, index), schema, said }
    }

    #[inline(always)]
    pub(super) fn map(shape: Shape, number: u32, first: Raw<'de>, more: &'de [u8]) -> Self {
        Self::Map { first: Some(first), more, number, shape, value: first }
    }

    #[inline(always)]
    pub(super) fn list(shape: Shape, number: u32, first: Raw<'de>, more: &'de [u8]) -> Self {
        Self::List(Entries { first: Some(first), ..Entries::within(shape, number, more) })
    }

    /// A list with all its entries in bytes of its own.
    pub(super) fn within(shape: Shape, number: u32, own: &'de [u8]) -> Self {
        Self::List(Entries::within(shape, number, own))
    }
}

impl<'a, 'de: 'a> ReadContainer<'a, 'de> for Container<'a, 'de> {
    #[inline]
    fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }

    /// Exact, so that a list is allocated once and has no slack.
    fn count(&self) -> Option<usize> {
        match self {
            Self::List(entries) => Some(entries.count()),
            _ => None,
        }
    }

    /// The value still has it.
    fn unread(&self, _: At<'a, 'de>) {}

    #[inline]
    fn next_key(&mut self, at: At<'a, 'de>) -> Result<Option<Cow<'de, str>>, Fault> {
        at.run.between(at.level);
        match self {
            Self::Message { fields, schema, said } => {
                if let Some(schema) = schema
                    && *said != Said::Message
                {
                    *said = said.next(schema);
                    match said {
                        Said::Version => return Ok(Some("apiVersion".into())),
                        Said::Kind => return Ok(Some("kind".into())),
                        _ => {}
                    }
                }
                Ok(fields.next(at.run)?.map(|field| field.name.text().into()))
            }
            Self::Map { first, more, number, shape, value } => {
                let entry = match first.take() {
                    Some(raw) => Some(raw),
                    None => field_if(more, *number)?,
                };
                let Some(entry) = entry else { return Ok(None) };
                let (key, raw) = map_entry(entry, shape.kind)?;
                *value = raw;
                Ok(Some(key.into()))
            }
            Self::List(_) => Ok(None),
        }
    }

    #[inline]
    fn value(&mut self, at: At<'a, 'de>, place: &mut Option<AnyValue<'a, 'de>>) -> Result<(), Fault> {
        match self {
            Self::Message { fields, schema, said } => match (schema, said) {
                (Some(schema), Said::Version) => {
                    *place = Some(AnyValue::Protobuf(Value::text(at, schema.api_version)));
                }
                (Some(schema), Said::Kind) => *place = Some(AnyValue::Protobuf(Value::text(at, schema.kind))),
                _ => *place = Some(AnyValue::Protobuf(fields.value(at)?)),
            },
            Self::Map { shape, value, .. } => {
                at.run.within_entry(at.level);
                *place = Some(AnyValue::Protobuf(Value::new(at.deeper(), *shape, *value)));
            }
            Self::List(_) => return Err(Fault::new("a value without a key")),
        }
        Ok(())
    }

    #[inline]
    fn next_element(
        &mut self,
        at: At<'a, 'de>,
        value: &mut Option<AnyValue<'a, 'de>>,
    ) -> Result<bool, Fault> {
        let Self::List(entries) = self else { return Ok(false) };
        at.run.next_place(at.level);
        let Some(raw) = entries.next()? else { return Ok(false) };
        *value = Some(AnyValue::Protobuf(Value::new(at, entries.shape, raw)));
        Ok(true)
    }

    /// It was known from the beginning where it ends.
    #[inline]
    fn end(&mut self, _: At<'a, 'de>) -> Result<(), Fault> {
        Ok(())
    }
}

/// Takes the other entries of a list or map, which follow the first, from the front.
pub(super) fn entries<'de>(rest: &mut &'de [u8], number: u8) -> &'de [u8] {
    let from = *rest;
    // What is broken is left, where it is found next.
    while let Ok(Some(_)) = field_if(rest, u32::from(number)) {}
    from.get(..from.len().saturating_sub(rest.len())).unwrap_or_default()
}

/// The key and the value of an entry of a map. Go writes both, and leaves out neither.
pub(super) fn map_entry(entry: Raw<'_>, kind: Kind) -> Result<(&str, Raw<'_>), Fault> {
    let mut rest = entry.bytes()?;
    let mut key: &[u8] = &[];
    let mut value = match kind {
        Kind::Bool | Kind::Int | Kind::Int32 => Raw::Number(0),
        Kind::Double => Raw::Fixed(0),
        _ => Raw::Bytes(&[]),
    };
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, raw) => key = raw.bytes()?,
            (2, raw) => value = raw,
            _ => {}
        }
    }
    let key = std::str::from_utf8(key).map_err(|_| &ProtobufProblem::Text)?;
    Ok((key, value))
}

/// The entries of a list.
pub(crate) struct Entries<'de> {
    shape: Shape,
    number: u32,
    first: Option<Raw<'de>>,
    /// The others.
    more: &'de [u8],
    /// Numbers, one behind the other. Go does not write them so, and reads them.
    packed: &'de [u8],
}

impl<'de> Entries<'de> {
    fn within(shape: Shape, number: u32, more: &'de [u8]) -> Self {
        Self { shape, number, first: None, more, packed: &[] }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Raw<'de>>, Fault> {
        loop {
            if !self.packed.is_empty() {
                return Ok(Some(Raw::Number(number(&mut self.packed)?)));
            }
            let next = match self.first.take() {
                Some(raw) => Some(raw),
                None => field_if(&mut self.more, self.number)?,
            };
            match next {
                Some(Raw::Bytes(packed))
                    if matches!(self.shape.kind, Kind::Int | Kind::Int32 | Kind::Bool) =>
                {
                    self.packed = packed;
                }
                next => return Ok(next),
            }
        }
    }

    fn count(&self) -> usize {
        let mut rest = self.more;
        let mut count = usize::from(self.first.is_some());
        while let Ok(Some(_)) = field_if(&mut rest, self.number) {
            count += 1;
        }
        count
    }
}
