//! The parts of API responses, in any encoding.

use kinformer_core::{ObjectKey, ResourceVersion};
use serde::{Deserialize, Deserializer};

use crate::Encoding;

/// The treatment of `metadata.managedFields`.
#[doc(alias = "TransformStripManagedFields")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManagedFields {
    /// Dropped while reading, so that the layers above have no cost for it.
    #[default]
    Drop,
    /// Kept, for programs that read which manager owns which field.
    Keep,
}

/// The fields of a list other than its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListEnvelope {
    /// For example `PodList`; empty if the response has none.
    pub kind: String,
    /// For example `v1`; empty if the response has none.
    pub api_version: String,
    /// The resource version of the list.
    pub resource_version: String,
    /// The token for the next page; empty on the last one.
    pub continue_token: String,
    /// The number of items after this page, if the server sends it.
    pub remaining_item_count: Option<i64>,
}

/// The type of a watch event, as the server names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RawEventType {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`
    Bookmark,
    /// `ERROR`: the object is a `Status`.
    Error,
    /// Any other type.
    Other(String),
}

impl From<&str> for RawEventType {
    fn from(name: &str) -> Self {
        match name {
            "ADDED" => Self::Added,
            "MODIFIED" => Self::Modified,
            "DELETED" => Self::Deleted,
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// The API version and the kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeMeta<'a> {
    /// For example `apps/v1`.
    pub api_version: &'a str,
    /// For example `Deployment`.
    pub kind: &'a str,
}

/// One event of a watch with its encoded object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawEvent<'a> {
    /// The type of the event.
    pub event_type: RawEventType,
    /// The JSON or the protobuf message of the object, without its managed fields if they are
    /// [dropped](ManagedFields::Drop).
    pub object: &'a [u8],
    /// The API version and the kind of the object, if they are not part of its bytes: `Some` in protobuf, `None` in
    /// JSON.
    pub types: Option<TypeMeta<'a>>,
    pub(crate) encoding: Encoding,
}

/// What identifies an object, read without decoding the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The key, if the object has a valid one.
    pub key: Option<ObjectKey>,
    /// The resource version; unset if the object has none.
    pub resource_version: ResourceVersion,
    /// The UID, if the object has one.
    pub uid: Option<String>,
}

/// Reads null as an absent field, as Go does.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, V: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<V, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
