//! Access to the members of messages and maps, and to the entries of lists.

use std::borrow::Cow;

use super::reader::{ProtobufProblem, Raw, field, field_if, is_zero, number, tag, value};
use super::value::Value;
use crate::codec::{AnyValue, ReadContainer};
use crate::decode::{Fault, Position, Run};
use crate::schema::{Card, Field, Kind, Rule, Schema, Shape, message};

/// The members of an object, message or map, or the entries of a list.
pub(crate) enum Container<'a, 'de> {
    Message {
        fields: Fields<'de>,
        /// For an object: its schema, since version and kind are not in its message.
        schema: Option<&'a Schema>,
        type_field: TypeField,
    },
    Map {
        first: Option<Raw<'de>>,
        more: &'de [u8],
        number: u32,
        shape: Shape,
        /// The value of the last key.
        value: Raw<'de>,
    },
    List(Entries<'de>),
}

/// The progress through `apiVersion` and `kind`, which precede the fields of the message of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeField {
    Start,
    Version,
    Kind,
    Message,
}

/// The remaining fields of a message.
pub(crate) struct Fields<'de> {
    /// The unread bytes: from the value of the current field, else from the next field.
    rest: &'de [u8],
    /// The table of fields, from the last known one.
    fields: &'static [Field],
    /// The number of the last field, and its wire type.
    last: u32,
    wire_type: u8,
    /// The rest of the outer message, for a message that protobuf nests and JSON inlines.
    around: Option<Box<Fields<'de>>>,
}

impl<'de> Fields<'de> {
    fn new(rest: &'de [u8], index: u16) -> Self {
        Self { rest, fields: message(index), last: 0, wire_type: 0, around: None }
    }

    /// Moves to the value of the next field that JSON has.
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
    /// Whether a field may be repeated: only an unknown one, since the entries of lists and maps were all read with the
    /// first.
    #[cold]
    fn repeats(&self, number: u32) -> bool {
        self.fields.first().is_none_or(|field| u32::from(field.number) != number)
    }
}

impl<'de> Fields<'de> {
    /// Returns the value of the current field on this level.
    #[inline(always)]
    fn value<'a>(&mut self, position: Position<'a, 'de>) -> Result<Value<'a, 'de>, Fault> {
        let field = self.fields.first().ok_or_else(|| Fault::new("a value without a key"))?;
        position.run.within(position.level, field);
        // Read here and not with the key, because reading a value that was just written to memory is slow.
        let raw = value(&mut self.rest, self.wire_type)?;
        let more = match field.shape.card {
            Card::One => &[],
            Card::Repeated | Card::Map => entries(&mut self.rest, field.number),
        };
        Ok(Value { number: field.number, more, ..Value::new(position.deeper(), field.shape, raw) })
    }
}

impl TypeField {
    /// Returns the next state for objects of this schema.
    fn next(self, schema: &Schema) -> Self {
        match self {
            Self::Start if schema.types.api_version => Self::Version,
            Self::Start | Self::Version if schema.types.kind => Self::Kind,
            _ => Self::Message,
        }
    }
}

impl<'a, 'de> Container<'a, 'de> {
    #[inline(always)]
    pub(super) fn message(message: &'de [u8], index: u16, schema: Option<&'a Schema>) -> Self {
        let type_field = if schema.is_some() { TypeField::Start } else { TypeField::Message };
        Self::Message { fields: Fields::new(message, index), schema, type_field }
    }

    #[inline(always)]
    pub(super) fn map(shape: Shape, number: u32, first: Raw<'de>, more: &'de [u8]) -> Self {
        Self::Map { first: Some(first), more, number, shape, value: first }
    }

    #[inline(always)]
    pub(super) fn list(shape: Shape, number: u32, first: Raw<'de>, more: &'de [u8]) -> Self {
        Self::List(Entries { first: Some(first), ..Entries::within(shape, number, more) })
    }

    /// Creates a list with all its entries in `own`.
    pub(super) fn within(shape: Shape, number: u32, own: &'de [u8]) -> Self {
        Self::List(Entries::within(shape, number, own))
    }
}

impl<'a, 'de: 'a> ReadContainer<'a, 'de> for Container<'a, 'de> {
    #[inline]
    fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }

    /// Exact, so that a list is allocated once and without slack.
    fn count(&self) -> Option<usize> {
        match self {
            Self::List(entries) => Some(entries.count()),
            _ => None,
        }
    }

    /// Nothing to undo: the value still has its bytes.
    fn unread(&self, _: Position<'a, 'de>) {}

    #[inline]
    fn next_key(&mut self, position: Position<'a, 'de>) -> Result<Option<Cow<'de, str>>, Fault> {
        position.run.between(position.level);
        match self {
            Self::Message { fields, schema, type_field } => {
                if let Some(schema) = schema
                    && *type_field != TypeField::Message
                {
                    *type_field = type_field.next(schema);
                    match type_field {
                        TypeField::Version => return Ok(Some("apiVersion".into())),
                        TypeField::Kind => return Ok(Some("kind".into())),
                        _ => {}
                    }
                }
                Ok(fields.next(position.run)?.map(|field| field.name.text().into()))
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
    fn value(
        &mut self,
        position: Position<'a, 'de>,
        place: &mut Option<AnyValue<'a, 'de>>,
    ) -> Result<(), Fault> {
        match self {
            Self::Message { fields, schema, type_field } => match (schema, type_field) {
                (Some(schema), TypeField::Version) => {
                    *place = Some(AnyValue::Protobuf(Value::text(position, schema.api_version)));
                }
                (Some(schema), TypeField::Kind) => {
                    *place = Some(AnyValue::Protobuf(Value::text(position, schema.kind)))
                }
                _ => *place = Some(AnyValue::Protobuf(fields.value(position)?)),
            },
            Self::Map { shape, value, .. } => {
                position.run.within_entry(position.level);
                *place = Some(AnyValue::Protobuf(Value::new(position.deeper(), *shape, *value)));
            }
            Self::List(_) => return Err(Fault::new("a value without a key")),
        }
        Ok(())
    }

    #[inline]
    fn next_element(
        &mut self,
        position: Position<'a, 'de>,
        value: &mut Option<AnyValue<'a, 'de>>,
    ) -> Result<bool, Fault> {
        let Self::List(entries) = self else { return Ok(false) };
        position.run.next_place(position.level);
        let Some(raw) = entries.next()? else { return Ok(false) };
        *value = Some(AnyValue::Protobuf(Value::new(position, entries.shape, raw)));
        Ok(true)
    }

    /// Nothing to check: the length of the container was known from the start.
    #[inline]
    fn end(&mut self, _: Position<'a, 'de>) -> Result<(), Fault> {
        Ok(())
    }
}

/// Reads the other entries of a list or map, which follow the first, from the front.
pub(super) fn entries<'de>(rest: &mut &'de [u8], number: u8) -> &'de [u8] {
    let from = *rest;
    // A broken field is left and reported by the next read.
    while let Ok(Some(_)) = field_if(rest, u32::from(number)) {}
    from.get(..from.len().saturating_sub(rest.len())).unwrap_or_default()
}

/// Returns the key and the value of a map entry. Go always writes both.
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
    /// The other entries.
    more: &'de [u8],
    /// Packed numbers. Go does not write them, but reads them.
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
