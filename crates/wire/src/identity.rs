//! Who an object is, when it cannot be decoded.

use kinformer_core::{ObjectKey, ResourceVersion};

/// What could be read of an object that does not decode as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Its key, where it has a valid one.
    pub key: Option<ObjectKey>,
    /// Its version; unset where it has none.
    pub resource_version: ResourceVersion,
}
