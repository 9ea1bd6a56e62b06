//! The members of messages and maps, and the entries of lists.

use std::cell::Cell;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess};

use super::reader::{ProtobufProblem, Raw, field, field_if, is_zero, number, tag, value};
use super::run::{At, Fault, Run, expected};
use super::schema::{Card, Field, Kind, Rule, Shape, message};
use super::value::Value;
use crate::limits::{Growth, Target};

/// The members of a message, or of a map; one type for both, so that visitors are compiled once.
pub(super) struct Access<'a, 'de> {
    at: At<'a>,
    members: Members<'a, 'de>,
    growth: Growth,
    /// How large the last key is.
    key: usize,
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
    fn next(&mut self, run: &Run<'_>) -> Result<Option<&'static Field>, Fault> {
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

impl<'a, 'de> Access<'a, 'de> {
    /// Not inlined: in every type that is decoded it would be a third of the code.
    #[inline(never)]
    pub(super) fn of(value: Value<'a, 'de>, size: usize, target: Target) -> Result<Self, Fault> {
        let Value { at, shape, raw, number, more } = value;
        let at = at.enter(size)?;
        let members = match (shape.card, shape.kind, more) {
            (Card::One, Kind::Message, _) => Members::Message(Fields::new(raw.bytes()?, shape.message)),
            (Card::Map, _, Some(more)) => {
                let shape = Shape { card: Card::One, ..shape };
                Members::Map { first: Some(raw), more, number: u32::from(number), shape, value: raw }
            }
            _ => return Err(expected("an object")),
        };
        Ok(Self { at, members, growth: Growth::new(target), key: 0 })
    }

    #[inline(never)]
    pub(super) fn next_key(&mut self) -> Result<Option<&'de str>, Fault> {
        self.at.run.between(self.at.level);
        match &mut self.members {
            Members::Message(fields) => Ok(fields.next(self.at.run)?.map(|field| field.name.text())),
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

    /// The value of the key that was given last, of which something of that size is built.
    #[inline(never)]
    pub(super) fn next_value(&mut self, size: usize) -> Result<Value<'_, 'de>, Fault> {
        let At { run, level, place } = self.at;
        self.growth.entry(run.limits, self.key.saturating_add(size))?;
        let at = At { run, level: level + 1, place: place.within(size) };
        match &mut self.members {
            Members::Message(fields) => {
                let field = fields.fields.first().ok_or_else(|| expected("a key"))?;
                run.within(level, field);
                // Read here and not with the key, because what was written to memory just before is slow to read.
                let raw = value(&mut fields.rest, fields.wire_type)?;
                let more = (field.shape.card != Card::One).then_some(&mut fields.rest);
                Ok(Value { at, shape: field.shape, raw, number: field.number, more })
            }
            Members::Map { shape, value, .. } => {
                run.within_entry(level);
                Ok(Value { at, shape: *shape, raw: *value, number: 0, more: None })
            }
        }
    }
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

impl<'de> MapAccess<'de> for Access<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.key = size_of::<K::Value>();
        self.growth.key(self.at.run.limits, self.key)?;
        match self.next_key()? {
            Some(key) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.next_value(size_of::<T::Value>())?)
    }
}

/// The entries of a list.
pub(super) struct Entries<'a, 'de> {
    at: At<'a>,
    growth: Growth,
    /// How many there are, once that was asked for.
    expected: Cell<usize>,
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
    pub(super) fn of(value: Value<'a, 'de>, size: usize, target: Target) -> Result<Self, Fault> {
        let Value { at, shape, raw, number, more } = value;
        match (shape.card, shape.kind) {
            (Card::Repeated, _) => {
                let shape = Shape { card: Card::One, ..shape };
                let number = u32::from(number);
                let entries = Self::within(at, shape, number, &[], size, target)?;
                Ok(Self { first: Some(raw), more, ..entries })
            }
            (Card::One, Kind::TextList) => {
                let shape = Shape::new(Card::One, Kind::Text, 0);
                Self::within(at, shape, 1, raw.bytes()?, size, target)
            }
            _ => Err(expected("a list")),
        }
    }

    /// A list with all its entries in bytes of its own.
    pub(super) fn within(
        at: At<'a>,
        shape: Shape,
        number: u32,
        own: &'de [u8],
        size: usize,
        target: Target,
    ) -> Result<Self, Fault> {
        let (at, growth) = (at.enter(size)?, Growth::new(target));
        Ok(Self {
            at,
            growth,
            expected: Cell::new(0),
            shape,
            number,
            first: None,
            more: None,
            own,
            packed: &[],
        })
    }

    /// The next entry, of which something of that size is built.
    #[inline(never)]
    fn next(&mut self, size: usize) -> Result<Option<Value<'a, 'de>>, Fault> {
        let At { run, level, place } = self.at;
        run.next_place(level);
        let raw = loop {
            if !self.packed.is_empty() {
                break Raw::Number(number(&mut self.packed)?);
            }
            let next = match self.first.take() {
                Some(raw) => Some(raw),
                None => field_if(self.more.as_deref_mut().unwrap_or(&mut self.own), self.number)?,
            };
            match next {
                Some(Raw::Bytes(packed))
                    if matches!(self.shape.kind, Kind::Int | Kind::Int32 | Kind::Bool) =>
                {
                    self.packed = packed;
                }
                Some(raw) => break raw,
                None => return Ok(None),
            }
        };
        self.growth.element(run.limits, size, self.expected.get())?;
        let at = At { run, level, place: place.within(size) };
        Ok(Some(Value::one(at, self.shape.kind, self.shape.message, raw)))
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        match self.next(size_of::<T::Value>())? {
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
        // Not for more than there is memory for.
        let count = self.at.run.limits.expected(count);
        self.expected.set(count);
        Some(count)
    }
}
