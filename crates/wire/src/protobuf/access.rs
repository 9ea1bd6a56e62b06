//! The members of messages and maps, and the entries of lists.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess};

use super::reader::{ProtobufProblem, Raw, field, field_if, is_zero, number, tag, value};
use super::run::{DEPTH, Fault, Run, expected};
use super::schema::{Card, Field, Kind, Rule, Shape, message};
use super::value::Value;

/// The members of a message, or of a map; one type for both, so that visitors are compiled once.
pub(super) struct Access<'a, 'de> {
    run: &'a Run,
    /// How many messages and maps are around the members.
    level: u8,
    members: Members<'a, 'de>,
}

enum Members<'a, 'de> {
    Message(Fields<'de>),
    Map {
        first: Option<Raw<'de>>,
        more: &'a mut &'de [u8],
        number: u32,
        shape: Shape,
        /// Of the key that was given last.
        value: Raw<'de>,
    },
}

/// The fields of a message that are left.
struct Fields<'de> {
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
    #[inline]
    fn next(&mut self, run: &Run) -> Result<Option<&'static Field>, Fault> {
        loop {
            if self.rest.is_empty() {
                let Some(around) = self.around.take() else { return Ok(None) };
                *self = *around;
                continue;
            }
            let (number, wire_type) = tag(&mut self.rest)?;
            let last = std::mem::replace(&mut self.last, number);
            if number < last {
                return Err(Fault::from(&ProtobufProblem::Disordered));
            }
            while let [first, rest @ ..] = self.fields
                && u32::from(first.number) < number
            {
                self.fields = rest;
            }
            let known = self.fields.first().filter(|field| u32::from(field.number) == number);
            let Some(field) = known else {
                value(&mut self.rest, wire_type)?;
                run.skipped();
                continue;
            };
            if number == last && field.shape.card != Card::One {
                return Err(Fault::from(&ProtobufProblem::Disordered));
            }
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

impl<'a, 'de> Access<'a, 'de> {
    #[inline]
    pub(super) fn of(value: Value<'a, 'de>) -> Result<Self, Fault> {
        let Value { run, level, shape, raw, number, more } = value;
        if level >= DEPTH {
            return Err(Fault::from(&ProtobufProblem::TooDeep));
        }
        let members = match (shape.card, shape.kind, more) {
            (Card::One, Kind::Message, _) => Members::Message(Fields::new(raw.bytes()?, shape.message)),
            (Card::Map, _, Some(more)) => {
                let shape = Shape { card: Card::One, ..shape };
                Members::Map { first: Some(raw), more, number: u32::from(number), shape, value: raw }
            }
            _ => return Err(expected("an object")),
        };
        Ok(Self { run, level, members })
    }

    #[inline(never)]
    pub(super) fn next_key(&mut self) -> Result<Option<&'de str>, Fault> {
        self.run.between(self.level);
        match &mut self.members {
            Members::Message(fields) => Ok(fields.next(self.run)?.map(|field| field.name.text())),
            Members::Map { first, more, number, shape, value } => {
                let entry = match first.take() {
                    Some(raw) => Some(raw),
                    None => field_if(more, *number)?,
                };
                let Some(entry) = entry else { return Ok(None) };
                let (key, raw) = map_entry(entry, shape.kind)?;
                *value = raw;
                Ok(Some(key))
            }
        }
    }

    /// The value of the key that was given last.
    #[inline(never)]
    pub(super) fn next_value(&mut self) -> Result<Value<'_, 'de>, Fault> {
        let (run, level) = (self.run, self.level + 1);
        match &mut self.members {
            Members::Message(fields) => {
                let field = fields.fields.first().ok_or_else(|| expected("a key"))?;
                run.within(self.level, field);
                // Read here and not with the key, because what was written to memory just before is slow to read.
                let raw = value(&mut fields.rest, fields.wire_type)?;
                let more = (field.shape.card != Card::One).then_some(&mut fields.rest);
                Ok(Value { run, level, shape: field.shape, raw, number: field.number, more })
            }
            Members::Map { shape, value, .. } => {
                run.within_entry(self.level);
                Ok(Value { run, level, shape: *shape, raw: *value, number: 0, more: None })
            }
        }
    }
}

/// The key and the value of an entry of a map. Go writes both, and leaves out neither.
pub(super) fn map_entry(entry: Raw<'_>, kind: Kind) -> Result<(&str, Raw<'_>), Fault> {
    let mut rest = entry.bytes()?;
    let mut key: &[u8] = &[];
    let mut value = match kind {
        Kind::Bool | Kind::Int => Raw::Number(0),
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

impl<'de> MapAccess<'de> for Access<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        match self.next_key()? {
            Some(key) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.next_value()?)
    }
}

/// The entries of a list.
pub(super) struct Entries<'a, 'de> {
    run: &'a Run,
    level: u8,
    shape: Shape,
    number: u32,
    first: Option<Raw<'de>>,
    /// Where the others are: in the message that the list is a field of, or in bytes of the list's own.
    more: Option<&'a mut &'de [u8]>,
    own: &'de [u8],
    /// Numbers, one behind the other. Go does not write them so, and reads them.
    packed: &'de [u8],
}

impl<'a, 'de> Entries<'a, 'de> {
    #[inline(never)]
    pub(super) fn of(value: Value<'a, 'de>) -> Result<Self, Fault> {
        let Value { run, level, shape, raw, number, more } = value;
        match (shape.card, shape.kind) {
            (Card::Repeated, _) => {
                let shape = Shape { card: Card::One, ..shape };
                let number = u32::from(number);
                Ok(Self { run, level, shape, number, first: Some(raw), more, own: &[], packed: &[] })
            }
            (Card::One, Kind::TextList) => {
                Ok(Self::within(run, level, Shape::new(Card::One, Kind::Text, 0), 1, raw.bytes()?))
            }
            _ => Err(expected("a list")),
        }
    }

    /// A list with all its entries in bytes of its own.
    pub(super) fn within(run: &'a Run, level: u8, shape: Shape, number: u32, own: &'de [u8]) -> Self {
        Self { run, level, shape, number, first: None, more: None, own, packed: &[] }
    }

    #[inline(never)]
    fn next(&mut self) -> Result<Option<Value<'a, 'de>>, Fault> {
        self.run.next_place(self.level);
        let raw = loop {
            if !self.packed.is_empty() {
                break Raw::Number(number(&mut self.packed)?);
            }
            let next = match self.first.take() {
                Some(raw) => Some(raw),
                None => field_if(self.more.as_deref_mut().unwrap_or(&mut self.own), self.number)?,
            };
            match next {
                Some(Raw::Bytes(packed)) if matches!(self.shape.kind, Kind::Int | Kind::Bool) => {
                    self.packed = packed;
                }
                Some(raw) => break raw,
                None => return Ok(None),
            }
        };
        Ok(Some(Value::one(self.run, self.level, self.shape.kind, self.shape.message, raw)))
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        match self.next()? {
            Some(value) => seed.deserialize(value).map(Some),
            None => Ok(None),
        }
    }

    /// Exact, so that a list is allocated once and has no slack.
    #[inline(never)]
    fn size_hint(&self) -> Option<usize> {
        let mut rest = *self.more.as_deref().unwrap_or(&self.own);
        let mut count = usize::from(self.first.is_some());
        while let Ok(Some(_)) = field_if(&mut rest, self.number) {
            count += 1;
        }
        Some(count)
    }
}
