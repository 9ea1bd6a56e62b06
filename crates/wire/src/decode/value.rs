//! One value, as serde asks for it.

use std::borrow::Cow;

use serde::Deserializer;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Expected, MapAccess, Visitor};

use super::container::Variant;
use super::{Container, Fault, Key, Number, ReadContainer, ReadValue, Text, Token};
use crate::codec::AnyValue;
use crate::limits::Target;

/// By this name of a type serde_json's `RawValue` asks for JSON as it stands, and receives it as the only field of an object.
const RAW_JSON: &str = "$serde_json::private::RawValue";

/// What a type takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    List,
    Map,
    Any,
}

impl Wanted {
    fn is(self, is_list: bool) -> bool {
        match self {
            Self::List => is_list,
            Self::Map => !is_list,
            Self::Any => true,
        }
    }
}

impl<'a, 'de> AnyValue<'a, 'de> {
    /// Puts there what is in it, if it is what is wanted. It is too large to be moved.
    #[inline(never)]
    fn open<'c>(
        &self,
        container: &'c mut Option<Container<'a, 'de>>,
        size: usize,
        target: Target,
        wanted: Wanted,
        expected: &dyn Expected,
    ) -> Result<&'c mut Container<'a, 'de>, Fault> {
        match self.token(size)? {
            Token::Container(at, entries) if wanted.is(entries.is_list()) => {
                Ok(container.insert(Container::new(at, entries, target)))
            }
            other => Err(other.unexpected(expected)),
        }
    }

    /// What is there, where anything is taken.
    #[inline(never)]
    fn any(&self, size: usize) -> Result<Token<'a, 'de>, Fault> {
        self.token(size)
    }

    #[inline(never)]
    fn number(&self, expected: &dyn Expected) -> Result<Number<'de>, Fault> {
        match self.token(0)? {
            Token::Number(number) => Ok(number),
            other => Err(other.unexpected(expected)),
        }
    }

    #[inline(never)]
    fn bool(&self, expected: &dyn Expected) -> Result<bool, Fault> {
        match self.token(0)? {
            Token::Bool(value) => Ok(value),
            other => Err(other.unexpected(expected)),
        }
    }

    #[inline(never)]
    fn name(&self, expected: &dyn Expected) -> Result<Cow<'de, str>, Fault> {
        Ok(match self.text(expected)? {
            Text::Whole(text) => text,
            short @ Text::Short(..) => short.as_str().to_owned().into(),
        })
    }

    #[inline]
    fn visit_text<V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        let text = self.text(&visitor)?;
        visit_text(text, visitor)
    }

    #[inline]
    fn visit_number<V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        let number = self.number(&visitor)?;
        visit_number(number, visitor)
    }
}

#[inline]
fn visit_text<'de, V: Visitor<'de>>(text: Text<'de>, visitor: V) -> Result<V::Value, Fault> {
    match text {
        Text::Whole(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
        Text::Whole(Cow::Owned(text)) => visitor.visit_string(text),
        short @ Text::Short(..) => visitor.visit_str(short.as_str()),
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
    ($visit:ident: $($question:ident)*) => { $(
        #[inline]
        fn $question<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.$visit(visitor)
        }
    )* };
}

macro_rules! large {
    ($($question:ident: $kind:ty => $visit:ident)*) => { $(
        fn $question<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let number = self.number(&visitor)?;
            if let Number::Large(text, _) = number && let Ok(number) = text.parse::<$kind>() {
                return visitor.$visit(number);
            }
            visit_number(number, visitor)
        }
    )* };
}

impl<'de> Deserializer<'de> for &AnyValue<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.any(size_of::<V::Value>())? {
            Token::Null => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Number(number) => visit_number(number, visitor),
            Token::Text(text) => visit_text(text, visitor),
            Token::Container(at, entries) => Container::new(at, entries, Target::Anything).visit(visitor),
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
        // A list is taken by types that are derived.
        let mut container = None;
        let size = size_of::<V::Value>();
        self.open(&mut container, size, Target::Struct, Wanted::Any, &visitor)?.visit(visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut container = None;
        let size = size_of::<V::Value>();
        let map = self.open(&mut container, size, Target::Collection, Wanted::Map, &visitor)?;
        let value = visitor.visit_map(&mut *map)?;
        map.end()?;
        Ok(value)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut container = None;
        let size = size_of::<V::Value>();
        let list = self.open(&mut container, size, Target::Collection, Wanted::List, &visitor)?;
        let value = visitor.visit_seq(&mut *list)?;
        list.end()?;
        Ok(value)
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
        match self.any(size_of::<V::Value>())? {
            Token::Container(at, entries) if !entries.is_list() => {
                let mut container = Container::new(at, entries, Target::Struct);
                let name = container.next_key(0)?.ok_or_else(|| Fault::new("a variant has no name"))?;
                let value = visitor.visit_enum(Variant { name, content: Some(&mut container) })?;
                container.end()?;
                Ok(value)
            }
            Token::Text(Text::Whole(name)) => visitor.visit_enum(Variant { name, content: None }),
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
            false => Err(self.any(0)?.unexpected(&visitor)),
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
        let name = self.name(&visitor)?;
        visit_text(Text::Whole(name), visitor)
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.skip()?;
        visitor.visit_unit()
    }

    by!(visit_text: deserialize_str deserialize_string deserialize_char);
    by!(visit_number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16);
    by!(visit_number: deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64);
    by!(deserialize_any: deserialize_bytes deserialize_byte_buf);
    large!(deserialize_i128: i128 => visit_i128 deserialize_u128: u128 => visit_u128);
}

/// JSON as it stands, as the only field of an object.
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
