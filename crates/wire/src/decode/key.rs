//! Map keys and field names.

use std::borrow::Cow;

use serde::Deserializer;
use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{IntoDeserializer, Visitor};

use super::Fault;

/// A string from which a type builds a key, which can also be a number or a bool.
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

macro_rules! parsed {
    ($($method:ident: $kind:ty => $visit:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match serde_json::from_str::<$kind>(&self.0) {
                // White space is part of the key, not of a number or bool.
                Ok(value) if self.0.trim_ascii().len() == self.0.len() => visitor.$visit(value),
                _ => self.deserialize_any(visitor),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Fault;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
            Cow::Owned(text) => {
                let text: StringDeserializer<Fault> = text.into_deserializer();
                visitor.visit_enum(text)
            }
        }
    }

    parsed!(deserialize_bool: bool => visit_bool);
    parsed!(deserialize_i8: i64 => visit_i64 deserialize_i16: i64 => visit_i64 deserialize_i32: i64 => visit_i64);
    parsed!(deserialize_i64: i64 => visit_i64 deserialize_i128: i128 => visit_i128);
    parsed!(deserialize_u8: u64 => visit_u64 deserialize_u16: u64 => visit_u64 deserialize_u32: u64 => visit_u64);
    parsed!(deserialize_u64: u64 => visit_u64 deserialize_u128: u128 => visit_u128);
    parsed!(deserialize_f32: f64 => visit_f64 deserialize_f64: f64 => visit_f64);

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
