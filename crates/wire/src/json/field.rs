//! One field of an object, without the rest of it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The field that the names lead to from a value, if the value has it and it is not null. Of equal names the last one
/// counts.
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

    // As a struct, which has what it is made of in itself: as a map it would be counted as one.
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<K>, D::Error> {
        deserializer.deserialize_struct("", &[], self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<K>, A::Error> {
        /// A key, borrowed where it has no escapes.
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
