//! The metadata of packed objects, without the rest of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use kinformer_core::ResourceVersion;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Packed;
use crate::Error;

/// An object, of which only the metadata is read.
#[derive(Deserialize)]
pub(super) struct Whole<M> {
    #[serde(default = "Option::default")]
    pub(super) metadata: Option<M>,
}

impl<K> Packed<K> {
    /// Its metadata as any type that decodes from it, such as `ObjectMeta`. The rest is not decoded; in JSON it is looked
    /// over. None if it has none.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn metadata<'de, M: Deserialize<'de>>(&'de self) -> Result<Option<M>, Error> {
        self.decoder.decode::<Whole<M>>(self.bytes()).map(|whole| whole.metadata)
    }

    /// Its annotations; none is read but these.
    ///
    /// # Errors
    /// The bytes are broken.
    pub fn annotations(&self) -> Result<BTreeMap<Cow<'_, str>, Cow<'_, str>>, Error> {
        #[derive(Default, Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            annotations: Pairs<'a>,
        }
        let metadata = self.metadata::<Metadata<'_>>()?.unwrap_or_default();
        Ok(metadata.annotations.0.into_iter().map(|(key, value)| (key.0, value.0)).collect())
    }

    /// Its owners, as any type that decodes from an `OwnerReference`.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn owner_references<'de, O: Deserialize<'de>>(&'de self) -> Result<Vec<O>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<O> {
            #[serde(default = "Option::default")]
            owner_references: Option<Vec<O>>,
        }
        let metadata = self.metadata::<Metadata<O>>()?;
        Ok(metadata.and_then(|metadata| metadata.owner_references).unwrap_or_default())
    }

    /// When it was marked for deletion, as any type that decodes from a time; none if it was not.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn deletion_timestamp<'de, T: Deserialize<'de>>(&'de self) -> Result<Option<T>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<T> {
            #[serde(default = "Option::default")]
            deletion_timestamp: Option<T>,
        }
        Ok(self.metadata::<Metadata<T>>()?.and_then(|metadata| metadata.deletion_timestamp))
    }
}

/// What is read of every object as it arrives.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identified<'a> {
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    labels: Pairs<'a>,
}

impl Identified<'_> {
    /// Namespace, name and UID, and the keys and values of labels.
    pub(super) fn parts(&self) -> Vec<&str> {
        let Self { namespace, name, uid, labels, .. } = self;
        let first = [namespace, name, uid].map(|part| part.as_ref().map_or("", |part| &*part.0));
        let labels = labels.0.iter().flat_map(|(key, value)| [&*key.0, &*value.0]);
        first.into_iter().chain(labels).collect()
    }

    pub(super) fn version(&self) -> ResourceVersion {
        self.resource_version.as_ref().map(|version| ResourceVersion::from(&*version.0)).unwrap_or_default()
    }
}

/// Text that is not copied where it stands as it is.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The entries of a map in their order; none for null.
#[derive(Default)]
struct Pairs<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Entries<'a> {
            type Value = Pairs<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(Pairs::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.deserialize_map(self)
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(0).min(64));
                while let Some(entry) = map.next_entry()? {
                    pairs.push(entry);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_option(Entries(PhantomData))
    }
}
