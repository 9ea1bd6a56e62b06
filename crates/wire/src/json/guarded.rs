//! A deserializer that counts what the type behind it takes.

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use crate::limits::{Exceeded, Growth, Limits, Place, Target};

/// A deserializer, or an access to what is in a value, within [`Limits`].
pub(crate) struct Guarded<'a, T> {
    inner: T,
    limits: &'a Limits,
    place: Place,
}

impl<'a, T> Guarded<'a, T> {
    pub(crate) fn new(inner: T, limits: &'a Limits, place: Place) -> Self {
        Self { inner, limits, place }
    }
}

#[cold]
fn failure<E: Error>(exceeded: Exceeded) -> E {
    E::custom(exceeded.text())
}

/// A visitor that is to be given only what is guarded, and what it makes of it.
struct Visit<'a, V> {
    visitor: V,
    limits: &'a Limits,
    place: Place,
    target: Target,
}

macro_rules! forward {
    ($($question:ident)*) => { $(
        #[inline]
        fn $question<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$question(visitor)
        }
    )* };
}

macro_rules! guard {
    ($target:ident: $($question:ident($($name:ident: $kind:ty),*))*) => { $(
        #[inline]
        fn $question<V: Visitor<'de>>(self, $($name: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            let Self { inner, limits, place } = self;
            inner.$question($($name,)* Visit { visitor, limits, place, target: Target::$target })
        }
    )* };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Guarded<'_, D> {
    type Error = D::Error;

    forward!(deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128);
    forward!(deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32);
    forward!(deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes);
    forward!(deserialize_byte_buf deserialize_unit deserialize_identifier deserialize_ignored_any);
    guard!(Anything: deserialize_any());
    guard!(Collection: deserialize_option() deserialize_seq() deserialize_map() deserialize_tuple(len: usize)
        deserialize_newtype_struct(name: &'static str) deserialize_unit_struct(name: &'static str)
        deserialize_tuple_struct(name: &'static str, len: usize));
    guard!(Struct: deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_enum(name: &'static str, variants: &'static [&'static str]));

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! pass {
    ($($visit:ident: $kind:ty),*) => { $(
        #[inline]
        fn $visit<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.visitor.$visit(value)
        }
    )* };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Visit<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.visitor.expecting(f)
    }

    pass!(visit_bool: bool, visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128);
    pass!(visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128, visit_f32: f32);
    pass!(visit_f64: f64, visit_char: char, visit_str: &str, visit_borrowed_str: &'de str, visit_string: String);
    pass!(visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>);

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Guarded::new(inner, self.limits, self.place))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Guarded::new(inner, self.limits, self.place))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let place = self.place.enter(self.limits, size_of::<V::Value>()).map_err(failure)?;
        let inner = Guarded::new(inner, self.limits, place);
        self.visitor.visit_seq(Elements { inner, growth: Growth::new(self.target) })
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let place = self.place.enter(self.limits, size_of::<V::Value>()).map_err(failure)?;
        let inner = Guarded::new(inner, self.limits, place);
        self.visitor.visit_map(Entries { inner, growth: Growth::new(self.target), key: 0 })
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let place = self.place.enter(self.limits, size_of::<V::Value>()).map_err(failure)?;
        self.visitor.visit_enum(Guarded::new(inner, self.limits, place))
    }
}

/// The elements of a list.
struct Elements<'a, A> {
    inner: Guarded<'a, A>,
    growth: Growth,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let Guarded { inner, limits, place } = &mut self.inner;
        inner.next_element_seed(Element { seed, limits, place: *place, growth: &mut self.growth })
    }
}

/// An element, counted when there is one.
struct Element<'a, S> {
    seed: S,
    limits: &'a Limits,
    place: Place,
    growth: &'a mut Growth,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Element<'_, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let size = size_of::<S::Value>();
        self.growth.element(self.limits, size, 0).map_err(failure)?;
        self.seed.deserialize(Guarded::new(inner, self.limits, self.place.within(size)))
    }
}

/// The entries of a map, or the fields of a struct.
struct Entries<'a, A> {
    inner: Guarded<'a, A>,
    growth: Growth,
    /// How large the last key is.
    key: usize,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.key = size_of::<K::Value>();
        self.growth.key(self.inner.limits, self.key).map_err(failure)?;
        self.inner.inner.next_key_seed(seed)
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        let size = size_of::<T::Value>();
        let Guarded { inner, limits, place } = &mut self.inner;
        self.growth.entry(limits, self.key.saturating_add(size)).map_err(failure)?;
        inner.next_value_seed(Seed { seed, limits, place: place.within(size) })
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        None
    }
}

/// A value somewhere within.
struct Seed<'a, S> {
    seed: S,
    limits: &'a Limits,
    place: Place,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(Guarded::new(inner, self.limits, self.place))
    }
}

impl<'a, 'de, A: EnumAccess<'de>> EnumAccess<'de> for Guarded<'a, A> {
    type Error = A::Error;
    type Variant = Guarded<'a, A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let Self { inner, limits, place } = self;
        let (name, variant) = inner.variant_seed(seed)?;
        Ok((name, Guarded { inner: variant, limits, place }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Guarded<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        let Self { inner, limits, place } = self;
        inner.newtype_variant_seed(Seed { seed, limits, place: place.within(size_of::<T::Value>()) })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let Self { inner, limits, place } = self;
        inner.tuple_variant(len, Visit { visitor, limits, place, target: Target::Struct })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let Self { inner, limits, place } = self;
        inner.struct_variant(fields, Visit { visitor, limits, place, target: Target::Struct })
    }
}
