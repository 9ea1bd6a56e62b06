//! A whole object, which says its version and kind in JSON and not in its message.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, MapAccess, Visitor};

use super::access::Access;
use super::reader::Raw;
use super::run::{At, Fault};
use super::schema::{Kind, Schema};
use super::value::Value;
use crate::limits::Target;

/// An object of a known kind.
pub(crate) struct Object<'a, 'de> {
    at: At<'a>,
    schema: Schema,
    message: &'de [u8],
}

/// How much of what is not in the message was given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Version,
    Kind,
}

impl<'a, 'de> Object<'a, 'de> {
    pub(super) fn new(at: At<'a>, schema: Schema, message: &'de [u8]) -> Self {
        Self { at, schema, message }
    }

    #[inline]
    pub(super) fn visit<V: Visitor<'de>>(self, visitor: V, target: Target) -> Result<V::Value, Fault> {
        let Self { at, schema, message } = self;
        let value = Value::one(at, Kind::Message, schema.message, Raw::Bytes(message));
        let access = Access::of(value, size_of::<V::Value>(), target)?;
        visitor.visit_map(Members { at, schema, said: Said::Nothing, access })
    }
}

/// The fields of an object.
struct Members<'a, 'de> {
    at: At<'a>,
    schema: Schema,
    said: Said,
    access: Access<'a, 'de>,
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        if self.said == Said::Nothing && !self.schema.says.api_version {
            self.said = Said::Version;
        }
        if self.said == Said::Version && !self.schema.says.kind {
            self.said = Said::Kind;
        }
        let key = match self.said {
            Said::Nothing => Some("apiVersion"),
            Said::Version => Some("kind"),
            Said::Kind => return self.access.next_key_seed(seed),
        };
        key.map(|key| seed.deserialize(BorrowedStrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let text = match self.said {
            Said::Nothing => self.schema.api_version,
            Said::Version => self.schema.kind,
            Said::Kind => return self.access.next_value_seed(seed),
        };
        self.said = if self.said == Said::Nothing { Said::Version } else { Said::Kind };
        seed.deserialize(Value::text(self.at, text))
    }
}

impl<'de> de::Deserializer<'de> for Object<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit(visitor, Target::Anything)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.visit(visitor, Target::Struct)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit(visitor, Target::Collection)
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
        seq tuple tuple_struct enum identifier
    }
}
