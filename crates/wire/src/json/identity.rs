//! What identifies an object, read without decoding the rest.

use std::fmt;

use kinformer_core::ObjectKey;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Identity;
use crate::codec::AnyCodec;
use crate::decode::Within;

/// Reads the key, the resource version and the UID from an object's JSON and ignores all other fields.
///
/// Returns an empty identity if they cannot be read.
pub(super) fn identify(codec: &AnyCodec, json: &[u8]) -> Identity {
    let metadata = Within::<_, Meta>::new(&["metadata"]);
    let Ok((Some(metadata), _)) = codec.decode(json, metadata) else {
        return Identity::default();
    };
    let namespace = metadata.namespace.unwrap_or_default();
    Identity {
        key: metadata.name.and_then(|name| ObjectKey::new(&namespace, &name).ok()),
        resource_version: metadata.resource_version.unwrap_or_default().into(),
        uid: metadata.uid,
    }
}

#[derive(Default)]
struct Meta {
    namespace: Option<String>,
    name: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
}

// Of duplicate names the last one is used, as everywhere else.
impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Meta;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the metadata of an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Meta, M::Error> {
                let mut found = Meta::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "namespace" => found.namespace = map.next_value()?,
                        "name" => found.name = map.next_value()?,
                        "uid" => found.uid = map.next_value()?,
                        "resourceVersion" => found.resource_version = map.next_value()?,
                        _ => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(found)
            }
        }

        deserializer.deserialize_struct("", &[], Fields)
    }
}
