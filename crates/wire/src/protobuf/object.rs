//! A whole object, which says its version and kind in JSON and not in its message.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, MapAccess, Visitor};

use super::access::Access;
use super::reader::Raw;
use super::run::{Fault, Run};
use super::schema::{Kind, Schema};
use super::value::Value;

/// An object of a known kind.
pub(crate) struct Object<'a, 'de> {
    run: &'a Run<'a>,
    level: u8,
    schema: Schema,
    said: Said,
    access: Access<'a, 'de>,
}

/// How much of what is not in the message was given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Version,
    Kind,
}

impl<'a, 'de> Object<'a, 'de> {
    pub(crate) fn new(run: &'a Run<'a>, schema: Schema, message: &'de [u8]) -> Result<Self, Fault> {
        Self::within(run, 0, schema, message)
    }

    pub(super) fn within(
        run: &'a Run<'a>,
        level: u8,
        schema: Schema,
        message: &'de [u8],
    ) -> Result<Self, Fault> {
        let value = Value::one(run, level, Kind::Message, schema.message, Raw::Bytes(message));
        Ok(Self { run, level, schema, said: Said::Nothing, access: Access::of(value)? })
    }

    pub(super) fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(self)
    }
}

impl<'de> MapAccess<'de> for Object<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let key = match self.said {
            Said::Nothing => Some("apiVersion"),
            Said::Version => Some("kind"),
            Said::Kind => self.access.next_key()?,
        };
        key.map(|key| seed.deserialize(BorrowedStrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let text = match self.said {
            Said::Nothing => self.schema.api_version,
            Said::Version => self.schema.kind,
            Said::Kind => return seed.deserialize(self.access.next_value()?),
        };
        self.said = if self.said == Said::Nothing { Said::Version } else { Said::Kind };
        seed.deserialize(Value::text(self.run, self.level, text))
    }
}

impl<'de> de::Deserializer<'de> for Object<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct enum identifier
    }
}
