//! The deserializer of one value.

use std::borrow::Cow;

use serde::Deserializer;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Expected, MapAccess, Visitor};

use super::container::Variant;
use super::{Container, Fault, Key, Number, Text, Token};
use crate::codec::{AnyValue, ReadValue};
use crate::limits::Target;

/// The type name by which serde_json's `RawValue` requests unparsed JSON, which it receives as the only field of an
/// object.
const RAW_JSON: &str = "$serde_json::private::RawValue";

impl<'de> AnyValue<'_, 'de> {
    #[cold]
    #[inline(never)]
    fn unexpected(&self, expected: &dyn Expected) -> Fault {
        match self.token(&mut [0; _]) {
            Ok(token) => token.unexpected(expected),
            Err(fault) => fault,
        }
    }

    /// Returns the error for a type that does not accept the opened value.
    #[cold]
    #[inline(never)]
    fn refused(&self, opened: Result<Option<Container<'_, '_>>, Fault>, expected: &dyn Expected) -> Fault {
        match opened {
            Ok(Some(container)) => {
                // Restored, for a type that continues after such an error.
                container.unread();
                let token = if container.is_list() { Token::List } else { Token::Map };
                token.unexpected(expected)
            }
            Ok(None) => self.unexpected(expected),
            Err(fault) => fault,
        }
    }

    #[inline(never)]
    fn number(&self, expected: &dyn Expected) -> Result<Number<'de>, Fault> {
        match self.token(&mut [0; _])? {
            Token::Number(number) => Ok(number),
            other => Err(other.unexpected(expected)),
        }
    }

    #[inline(never)]
    fn bool(&self, expected: &dyn Expected) -> Result<bool, Fault> {
        match self.token(&mut [0; _])? {
            Token::Bool(value) => Ok(value),
            other => Err(other.unexpected(expected)),
        }
    }

    #[inline]
    fn visit_text<V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        let mut scratch = [0; _];
        let text = self.text(&mut scratch, &visitor)?;
        visit_text(text, visitor)
    }

    #[inline]
    fn visit_number<V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        let number = self.number(&visitor)?;
        visit_number(number, visitor)
    }
}

#[inline]
fn visit_text<'de, V: Visitor<'de>>(text: Text<'_, 'de>, visitor: V) -> Result<V::Value, Fault> {
    match text {
        Text::Borrowed(text) => visitor.visit_borrowed_str(text),
        Text::Owned(text) => visitor.visit_string(text),
        Text::Short(text) => visitor.visit_str(text),
    }
}

#[inline]
fn visit_number<'de, V: Visitor<'de>>(number: Number<'de>, visitor: V) -> Result<V::Value, Fault> {
    match number {
        Number::Unsigned(number) => visitor.visit_u64(number),
        Number::Signed(number) => visitor.visit_i64(number),
        Number::Float(number) | Number::Large(_, number) => visitor.visit_f64(number),
    }
}

macro_rules! by {
    ($visit:ident: $($method:ident)*) => { $(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.$visit(visitor)
        }
    )* };
}

macro_rules! large {
    ($($method:ident: $kind:ty => $visit:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let number = self.number(&visitor)?;
            let large = match number {
                Number::Unsigned(number) => Some(number.into()),
                Number::Signed(number) => <$kind>::try_from(number).ok(),
                Number::Large(text, _) => text.parse::<$kind>().ok(),
                Number::Float(_) => None,
            };
            match large {
                Some(number) => visitor.$visit(number),
                None => visit_number(number, visitor),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for &AnyValue<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut container = Container::open(self, size_of::<V::Value>(), Target::Anything);
        match &mut container {
            Ok(Some(container)) => return container.visit(visitor),
            Ok(None) => {}
            Err(_) => return Err(self.refused(container, &visitor)),
        }
        let mut scratch = [0; _];
        match self.token(&mut scratch)? {
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Number(number) => visit_number(number, visitor),
            Token::Text(text) => visit_text(text, visitor),
            Token::Null | Token::List | Token::Map => visitor.visit_unit(),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.take_null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == RAW_JSON {
            return match self.raw_json()? {
                Some(json) => visitor.visit_map(RawJson(Some(json))),
                None => Err(Token::Null.unexpected(&visitor)),
            };
        }
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let mut container = Container::open(self, size_of::<V::Value>(), Target::Struct);
        match &mut container {
            // Derived types accept a list.
            Ok(Some(container)) => container.visit(visitor),
            _ => Err(self.refused(container, &visitor)),
        }
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut container = Container::open(self, size_of::<V::Value>(), Target::Collection);
        match &mut container {
            Ok(Some(map)) if !map.is_list() => map.visit_map(visitor),
            _ => Err(self.refused(container, &visitor)),
        }
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut container = Container::open(self, size_of::<V::Value>(), Target::Collection);
        match &mut container {
            Ok(Some(list)) if list.is_list() => list.visit_list(visitor),
            _ => Err(self.refused(container, &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let mut container = Container::open(self, size_of::<V::Value>(), Target::Struct);
        match &mut container {
            Ok(Some(map)) if !map.is_list() => {
                let name = map.next_key(0)?.ok_or_else(|| Fault::new("a variant has no name"))?;
                let value = visitor.visit_enum(Variant { name, content: Some(&mut *map) })?;
                map.end()?;
                return Ok(value);
            }
            Ok(None) => {}
            _ => return Err(self.refused(container, &visitor)),
        }
        let mut scratch = [0; _];
        let name: Cow<'de, str> = match self.token(&mut scratch)? {
            Token::Text(Text::Borrowed(name)) => name.into(),
            Token::Text(Text::Owned(name)) => name.into(),
            Token::Text(Text::Short(name)) => name.to_owned().into(),
            other => return Err(other.unexpected(&visitor)),
        };
        visitor.visit_enum(Variant { name, content: None })
    }

    /// The bytes of a string, or a list of numbers.
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut scratch = [0; _];
        match self.token(&mut scratch)? {
            Token::Text(Text::Borrowed(text)) => visitor.visit_borrowed_bytes(text.as_bytes()),
            Token::Text(Text::Owned(text)) => visitor.visit_byte_buf(text.into_bytes()),
            Token::Text(Text::Short(text)) => visitor.visit_bytes(text.as_bytes()),
            Token::List => self.deserialize_seq(visitor),
            other => Err(other.unexpected(&visitor)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.bool(&visitor)?;
        visitor.visit_bool(value)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.take_null()? {
            true => visitor.visit_unit(),
            false => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit_text(visitor)
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.skip()?;
        visitor.visit_unit()
    }

    by!(visit_text: deserialize_str deserialize_string deserialize_char);
    by!(visit_number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16);
    by!(visit_number: deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64);
    by!(deserialize_bytes: deserialize_byte_buf);
    large!(deserialize_i128: i128 => visit_i128 deserialize_u128: u128 => visit_u128);
}

/// Unparsed JSON, as the only field of an object.
struct RawJson<'de>(Option<&'de str>);

impl<'de> MapAccess<'de> for RawJson<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.0.map(|_| seed.deserialize(Key(RAW_JSON.into()))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(BorrowedStrDeserializer::new(self.0.take().unwrap_or_default()))
    }
}
