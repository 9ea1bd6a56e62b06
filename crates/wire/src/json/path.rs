//! One member of an object, without the rest of it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::Error;

/// Decodes the member, if the object has it and it is not null.
pub(crate) fn decode_at<'de, K: Deserialize<'de>>(
    object: &'de [u8],
    names: &[Box<str>],
) -> Result<Option<K>, Error> {
    let mut json = serde_json::Deserializer::from_slice(object);
    let member = Member { names, kind: PhantomData };
    member.deserialize(&mut json).map_err(|error| Error::malformed("an object", error, object))
}

/// What the names lead to from here.
struct Member<'a, K> {
    names: &'a [Box<str>],
    kind: PhantomData<fn() -> K>,
}

impl<'de, K: Deserialize<'de>> DeserializeSeed<'de> for Member<'_, K> {
    type Value = Option<K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<K>, D::Error> {
        if self.names.is_empty() {
            Option::deserialize(deserializer)
        } else {
            deserializer.deserialize_option(self)
        }
    }
}

impl<'de, K: Deserialize<'de>> Visitor<'de> for Member<'_, K> {
    type Value = Option<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<Option<K>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<K>, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<K>, A::Error> {
        /// A key, borrowed where it has no escapes.
        #[derive(serde::Deserialize)]
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
        let mut found = None;
        while let Some(Key(key)) = map.next_key()? {
            match self.names.split_first() {
                Some((name, names)) if **name == *key => {
                    found = map.next_value_seed(Member { names, kind: PhantomData })?;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(found)
    }
}
