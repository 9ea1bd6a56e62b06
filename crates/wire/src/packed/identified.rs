//! The metadata that is parsed on arrival.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use kinformer_core::ResourceVersion;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The metadata of an object that is parsed on arrival.
#[derive(Default)]
pub(super) struct Identified<'a> {
    namespace: Option<Text<'a>>,
    name: Option<Text<'a>>,
    uid: Option<Text<'a>>,
    resource_version: Option<Text<'a>>,
    labels: Pairs<'a>,
}

// Not derived, because of duplicate names the last one is used, as everywhere else.
impl<'de: 'a, 'a> Deserialize<'de> for Identified<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Fields<'a> {
            type Value = Identified<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the metadata of an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut found = Identified::default();
                while let Some(Text(name)) = map.next_key()? {
                    match &*name {
                        "namespace" => found.namespace = map.next_value()?,
                        "name" => found.name = map.next_value()?,
                        "uid" => found.uid = map.next_value()?,
                        "resourceVersion" => found.resource_version = map.next_value()?,
                        "labels" => found.labels = map.next_value()?,
                        _ => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(found)
            }
        }

        deserializer.deserialize_struct("", &[], Fields(PhantomData))
    }
}

impl Identified<'_> {
    /// Returns namespace, name and UID, the keys and values of labels, and an optional last part.
    pub(super) fn parts<'s>(&'s self, last: Option<&'s str>) -> Vec<&'s str> {
        let Self { namespace, name, uid, labels, .. } = self;
        let mut parts = Vec::with_capacity(4 + 2 * labels.0.len());
        parts.extend([namespace, name, uid].map(|part| part.as_ref().map_or("", |part| &*part.0)));
        for (key, value) in &labels.0 {
            parts.extend([&*key.0, &*value.0]);
        }
        parts.extend(last);
        parts
    }

    pub(super) fn version(&self) -> ResourceVersion {
        self.resource_version.as_ref().map(|version| ResourceVersion::from(&*version.0)).unwrap_or_default()
    }
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Returns the last entry of each key. Go writes each key once and in order.
fn last_of_equal<'a>(mut pairs: Vec<(Text<'a>, Text<'a>)>) -> Vec<(Text<'a>, Text<'a>)> {
    if !pairs.is_sorted_by(|(a, _), (b, _)| a.0 < b.0) {
        pairs.reverse();
        pairs.sort_by(|(a, _), (b, _)| a.0.cmp(&b.0));
        pairs.dedup_by(|(a, _), (b, _)| a.0 == b.0);
    }
    pairs
}

/// The entries of a map; empty for null.
#[derive(Default)]
pub(super) struct Pairs<'a>(pub(super) Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Entries<'a> {
            type Value = Pairs<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(Pairs::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.deserialize_map(self)
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut pairs = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    pairs.push(entry);
                }
                Ok(Pairs(last_of_equal(pairs)))
            }
        }

        deserializer.deserialize_option(Entries(PhantomData))
    }
}
