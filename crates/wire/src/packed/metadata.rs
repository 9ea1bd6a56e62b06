//! The metadata of packed objects, without the rest of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::PackedObject;
use super::identified::Pairs;
use crate::Error;
use crate::json::Within;

/// What a server sends when only the metadata is requested.
const METADATA_API: &str = "meta.k8s.io/v1";
const METADATA_KIND: &str = "PartialObjectMetadata";

impl PackedObject {
    /// Whether it has come as its metadata alone, a `PartialObjectMetadata`, and its other fields are not known.
    pub fn is_metadata_only(&self) -> bool {
        let types = self.encoded.decoder.types();
        types.is_some_and(|types| types.api_version == METADATA_API && types.kind == METADATA_KIND)
    }

    /// Its metadata as any type that decodes from it, such as `ObjectMeta`. The rest is not decoded; in JSON it is looked
    /// over. None if it has none.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn metadata<'de, M: Deserialize<'de>>(&'de self) -> Result<Option<M>, Error> {
        self.within(&["metadata"])
    }

    fn within<'de, M: Deserialize<'de>>(&'de self, names: &[&str]) -> Result<Option<M>, Error> {
        self.encoded.decode(Within::new(names))
    }

    /// Its annotations; none is read but these.
    ///
    /// # Errors
    /// The bytes are broken.
    pub fn annotations(&self) -> Result<BTreeMap<Cow<'_, str>, Cow<'_, str>>, Error> {
        let annotations: Pairs<'_> = self.within(&["metadata", "annotations"])?.unwrap_or_default();
        Ok(annotations.0.into_iter().map(|(key, value)| (key.0, value.0)).collect())
    }

    /// Its owners, as any type that decodes from an `OwnerReference`.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn owner_references<'de, O: Deserialize<'de>>(&'de self) -> Result<Vec<O>, Error> {
        Ok(self.within(&["metadata", "ownerReferences"])?.unwrap_or_default())
    }

    /// When it was marked for deletion, as any type that decodes from a time; none if it was not.
    ///
    /// # Errors
    /// The bytes are broken, or not what the type wants.
    pub fn deletion_timestamp<'de, T: Deserialize<'de>>(&'de self) -> Result<Option<T>, Error> {
        self.within(&["metadata", "deletionTimestamp"])
    }
}
