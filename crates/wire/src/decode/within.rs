//! Decoding of one field of an object.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// Decodes the field of a path in a value; `None` if it is missing or null. Of duplicate names the last one is used.
pub(crate) struct Within<'a, N, K> {
    names: &'a [N],
    kind: PhantomData<fn() -> K>,
}

impl<'a, N, K> Within<'a, N, K> {
    pub(crate) fn new(names: &'a [N]) -> Self {
        Self { names, kind: PhantomData }
    }
}

impl<'de, N: AsRef<str>, K: Deserialize<'de>> DeserializeSeed<'de> for Within<'_, N, K> {
    type Value = Option<K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<K>, D::Error> {
        if self.names.is_empty() {
            Option::deserialize(deserializer)
        } else {
            deserializer.deserialize_option(self)
        }
    }
}

impl<'de, N: AsRef<str>, K: Deserialize<'de>> Visitor<'de> for Within<'_, N, K> {
    type Value = Option<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<Option<K>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<K>, E> {
        Ok(None)
    }

    // As a struct, which contains its fields, because a map would be counted as a separate allocation.
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<K>, D::Error> {
        deserializer.deserialize_struct("", &[], self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<K>, A::Error> {
        /// A key, borrowed if it has no escapes.
        #[derive(serde::Deserialize)]
        #[serde(transparent)]
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
        let mut found = None;
        while let Some(Key(key)) = map.next_key()? {
            match self.names.split_first() {
                Some((name, names)) if name.as_ref() == key => {
                    found = map.next_value_seed(Within { names, kind: PhantomData })?;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(found)
    }
}
