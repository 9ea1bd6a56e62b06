//! Who an object is, when it cannot be decoded.

use kinformer_core::{ObjectKey, ResourceVersion};
use serde::Deserialize;

/// What could be read of an object that does not decode as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Its key, where it has a valid one.
    pub key: Option<ObjectKey>,
    /// Its version; unset where it has none.
    pub resource_version: ResourceVersion,
}

/// Reads the key and the version from an object's JSON and ignores everything else in it.
///
/// Where even that is not possible, the result is empty: the object stays unnamed.
pub fn identify(json: &[u8]) -> Identity {
    #[derive(Deserialize)]
    struct Any {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        namespace: Option<String>,
        name: Option<String>,
        resource_version: Option<String>,
    }
    let Ok(Any { metadata }) = serde_json::from_slice::<Any>(json) else { return Identity::default() };
    let namespace = metadata.namespace.unwrap_or_default();
    Identity {
        key: metadata.name.and_then(|name| ObjectKey::new(&namespace, &name).ok()),
        resource_version: metadata.resource_version.unwrap_or_default().into(),
    }
}
