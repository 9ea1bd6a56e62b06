//! What answers of the API consist of, in any encoding.

use kinformer_core::{ObjectKey, ResourceVersion};

use crate::Encoding;

/// What becomes of `metadata.managedFields`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManagedFields {
    /// Dropped while reading: it costs the layers above nothing.
    #[default]
    Drop,
    /// Kept, for programs that need to know which manager owns which field.
    Keep,
}

/// What a list says of itself, beside its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListEnvelope {
    /// For example `PodList`; empty where the answer has none.
    pub kind: String,
    /// For example `v1`; empty where the answer has none.
    pub api_version: String,
    /// The version of the list.
    pub resource_version: String,
    /// The token for the next page; empty on the last one.
    pub continue_token: String,
    /// How many items follow after this page, where the server says so.
    pub remaining_item_count: Option<i64>,
}

/// The type of a watch event, as the server names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventType {
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
    /// Anything else.
    Other(String),
}

impl From<&str> for EventType {
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

/// The version and the kind that an object says it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeMeta<'a> {
    /// For example `apps/v1`.
    pub api_version: &'a str,
    /// For example `Deployment`.
    pub kind: &'a str,
}

/// One event of a watch, its object not yet decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawEvent<'a> {
    /// What happened.
    pub event_type: EventType,
    /// The object, its JSON or its protobuf message, without its managed fields if they are
    /// [dropped](ManagedFields::Drop).
    pub object: &'a [u8],
    /// The version and the kind of the object, if they are beside its bytes: in protobuf. In JSON they are in them.
    pub types: Option<TypeMeta<'a>>,
    pub(crate) encoding: Encoding,
}

/// What could be read of an object that does not decode as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Its key, where it has a valid one.
    pub key: Option<ObjectKey>,
    /// Its version; unset where it has none.
    pub resource_version: ResourceVersion,
}
