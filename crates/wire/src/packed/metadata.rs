//! The metadata of packed objects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::PackedObject;
use super::identified::Pairs;
use crate::Error;
use crate::decode::Within;

/// The type of the objects that a server sends if only metadata is requested.
const METADATA_API: &str = "meta.k8s.io/v1";
const METADATA_KIND: &str = "PartialObjectMetadata";

impl PackedObject {
    /// Whether only the metadata of the object was fetched, as a `PartialObjectMetadata`.
    pub fn is_metadata_only(&self) -> bool {
        let types = self.encoded.decoder.types();
        types.is_some_and(|types| types.api_version == METADATA_API && types.kind == METADATA_KIND)
    }

    /// Decodes the metadata into any type, such as `ObjectMeta`. The rest is not decoded; in JSON it is scanned.
    /// Returns `None` if the object has no metadata.
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see
    /// [`ObjectDecoder::decode`](crate::ObjectDecoder::decode).
    pub fn metadata_as<M: DeserializeOwned>(&self) -> Result<Option<M>, Error> {
        self.within(&["metadata"])
    }

    fn within<'de, M: Deserialize<'de>>(&'de self, names: &[&str]) -> Result<Option<M>, Error> {
        self.encoded.decode(Within::new(names))
    }

    /// Decodes only the annotations.
    ///
    /// # Errors
    /// The bytes are broken, or a limit is exceeded.
    pub fn annotations(&self) -> Result<BTreeMap<Cow<'_, str>, Cow<'_, str>>, Error> {
        let annotations: Pairs<'_> = self.within(&["metadata", "annotations"])?.unwrap_or_default();
        Ok(annotations.0.into_iter().map(|(key, value)| (key.0, value.0)).collect())
    }

    /// Decodes only the owner references, into any type that decodes from an `OwnerReference`.
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see
    /// [`ObjectDecoder::decode`](crate::ObjectDecoder::decode).
    pub fn owner_references_as<O: DeserializeOwned>(&self) -> Result<Vec<O>, Error> {
        Ok(self.within(&["metadata", "ownerReferences"])?.unwrap_or_default())
    }

    /// Decodes only the deletion timestamp, into any type that decodes from a time. Returns `None` if the object has
    /// none.
    ///
    /// # Errors
    /// The bytes are broken or do not match the type, or a limit is exceeded; see
    /// [`ObjectDecoder::decode`](crate::ObjectDecoder::decode).
    pub fn deletion_timestamp_as<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.within(&["metadata", "deletionTimestamp"])
    }
}
