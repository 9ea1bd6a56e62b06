//! Containers: the fields of an object, the entries of a map or list, the content of an enum variant.

use std::borrow::Cow;
use std::cell::Cell;

use serde::Deserializer;
use serde::de::{DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::{Fault, Key, Position};
use crate::codec::{AnyContainer, AnyValue, ReadContainer, ReadValue};
use crate::limits::{Growth, Target};

/// The entries of a list, map or object. The memory of each is counted before it is built.
pub(crate) struct Container<'a, 'de> {
    position: Position<'a, 'de>,
    growth: Growth,
    /// The size of the last key.
    key: usize,
    /// The number of entries that was announced to the type by the size hint.
    expected: Cell<usize>,
    entries: AnyContainer<'a, 'de>,
    /// The current value. Types receive a reference, because it is large.
    value: Option<AnyValue<'a, 'de>>,
}

impl<'a, 'de> Container<'a, 'de> {
    #[inline(always)]
    fn new(position: Position<'a, 'de>, entries: AnyContainer<'a, 'de>, target: Target) -> Self {
        Self { position, growth: Growth::new(target), key: 0, expected: Cell::new(0), entries, value: None }
    }

    /// Opens a value; `None` if it is not a container. The result is large and should not be moved.
    #[inline(never)]
    pub(super) fn open(
        value: &AnyValue<'a, 'de>,
        size: usize,
        target: Target,
    ) -> Result<Option<Self>, Fault> {
        value.open(size, |position, entries| Self::new(position, entries, target))
    }

    /// Undoes the opening of the value.
    pub(super) fn unread(&self) {
        self.entries.unread(self.position);
    }

    #[inline]
    pub(super) fn is_list(&self) -> bool {
        self.entries.is_list()
    }

    #[inline]
    pub(super) fn visit<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        if self.entries.is_list() { self.visit_list(visitor) } else { self.visit_map(visitor) }
    }

    #[inline]
    pub(super) fn visit_list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let built = visitor.visit_seq(&mut *self);
        self.ended(built)
    }

    #[inline]
    pub(super) fn visit_map<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let built = visitor.visit_map(&mut *self);
        self.ended(built)
    }

    /// Checks that no entries are left. Inlined, so that a large result is not copied.
    #[inline]
    fn ended<T>(&mut self, built: Result<T, Fault>) -> Result<T, Fault> {
        if built.is_ok() {
            self.end()?;
        }
        built
    }

    #[inline(never)]
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        self.entries.end(self.position)
    }

    #[inline(never)]
    pub(super) fn next_key(&mut self, size: usize) -> Result<Option<Cow<'de, str>>, Fault> {
        self.key = size;
        self.growth.key(self.position.run.limits, size)?;
        self.entries.next_key(self.position)
    }

    /// Returns the value of the last key, for building a value of this size.
    #[inline(never)]
    fn value(&mut self, size: usize) -> Result<&AnyValue<'a, 'de>, Fault> {
        self.growth.entry(self.position.run.limits, self.key.saturating_add(size))?;
        self.entries.value(self.position.within(size), &mut self.value)?;
        self.value.as_ref().ok_or_else(|| Fault::new("a value without a key"))
    }

    /// Returns the next entry of a list, for building a value of this size.
    #[inline(never)]
    fn next_element(&mut self, size: usize) -> Result<Option<&AnyValue<'a, 'de>>, Fault> {
        if !self.entries.next_element(self.position.within(size), &mut self.value)? {
            return Ok(None);
        }
        self.growth.element(self.position.run.limits, size, self.expected.get())?;
        Ok(self.value.as_ref())
    }

    #[inline(never)]
    fn count(&self) -> Option<usize> {
        // Limited by the available memory.
        let count = self.position.run.limits.expected(self.entries.count()?);
        self.expected.set(count);
        Some(count)
    }
}

impl<'de> MapAccess<'de> for Container<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        match self.next_key(size_of::<K::Value>())? {
            Some(key) => seed.deserialize(Key(key)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.value(size_of::<T::Value>())?)
    }
}

impl<'de> SeqAccess<'de> for Container<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        match self.next_element(size_of::<T::Value>())? {
            Some(value) => seed.deserialize(value).map(Some),
            None => Ok(None),
        }
    }

    /// The number of entries, if it is known and within the memory limit, so that a list is allocated once and without
    /// unused capacity.
    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.count()
    }
}

/// An enum variant: a name, or an object with the name of the variant as its only field.
pub(super) struct Variant<'v, 'a, 'de> {
    pub(super) name: Cow<'de, str>,
    pub(super) content: Option<&'v mut Container<'a, 'de>>,
}

impl<'v, 'a, 'de> EnumAccess<'de> for Variant<'v, 'a, 'de> {
    type Error = Fault;
    type Variant = Content<'v, 'a, 'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), Fault> {
        Ok((seed.deserialize(Key(self.name))?, Content(self.content)))
    }
}

/// The content of a variant.
pub(super) struct Content<'v, 'a, 'de>(Option<&'v mut Container<'a, 'de>>);

impl<'a, 'de> Content<'_, 'a, 'de> {
    fn value(&mut self, size: usize) -> Result<&AnyValue<'a, 'de>, Fault> {
        let content = self.0.as_mut().ok_or_else(|| Fault::new("a variant has no content"))?;
        content.value(size)
    }
}

impl<'de> VariantAccess<'de> for Content<'_, '_, 'de> {
    type Error = Fault;

    fn unit_variant(mut self) -> Result<(), Fault> {
        match self.0 {
            None => Ok(()),
            Some(_) => serde::Deserialize::deserialize(self.value(0)?),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.value(size_of::<T::Value>())?)
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        self.value(size_of::<V::Value>())?.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.value(size_of::<V::Value>())?.deserialize_struct("", fields, visitor)
    }
}
