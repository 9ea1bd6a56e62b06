//! Watches, event by event.

use serde::Deserialize;

use crate::{Encoding, Error, ManagedFields, ObjectDecoder, json, protobuf};

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
    /// The object, its JSON or its protobuf message, without its managed fields if they are [cut](ManagedFields::Cut).
    pub object: &'a [u8],
    /// What the object is, where its bytes do not say so themselves: in protobuf. In JSON they do.
    pub types: Option<TypeMeta<'a>>,
}

impl RawEvent<'_> {
    /// Decodes the object, whatever it is: a `Status` in an error, the little that a bookmark has.
    ///
    /// Objects of the kind that is watched are rather decoded by the [`ObjectDecoder`] of the watch, which has
    /// looked for the kind once and counts what it skips.
    ///
    /// # Errors
    /// The object is broken, is not what the type wants, or is of a kind whose protobuf is not known.
    pub fn decode<K: for<'de> Deserialize<'de>>(&self) -> Result<K, Error> {
        let Some(TypeMeta { api_version, kind }) = self.types else {
            return ObjectDecoder::json().decode(self.object);
        };
        match ObjectDecoder::new(Encoding::Protobuf, api_version, kind) {
            Some(decoder) => decoder.decode(self.object),
            None => Err(Error::unknown_kind(api_version, kind)),
        }
    }
}

/// Takes the body of a watch in chunks and gives out each event as soon as it is complete.
///
/// Memory: one event, and one object. It grows by what has come, never by what the bytes say of their length.
#[derive(Debug)]
pub struct WatchDecoder {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Json(json::WatchDecoder),
    Protobuf(protobuf::WatchDecoder),
}

impl WatchDecoder {
    /// The longest event that is taken: 64 MiB.
    pub const LIMIT: usize = 64 * 1024 * 1024;

    /// A decoder for one watch in JSON.
    pub fn new(managed_fields: ManagedFields) -> Self {
        Self::of(Encoding::Json, managed_fields)
    }

    /// A decoder for one watch.
    pub fn of(encoding: Encoding, managed_fields: ManagedFields) -> Self {
        let form = match encoding {
            Encoding::Json => Form::Json(json::WatchDecoder::new(managed_fields, Self::LIMIT)),
            Encoding::Protobuf => Form::Protobuf(protobuf::WatchDecoder::new(managed_fields, Self::LIMIT)),
        };
        Self { form }
    }

    /// Takes the next chunk and shows each event that ends in it. What is no event is shown as an error and the
    /// next one starts afresh.
    ///
    /// # Errors
    /// An event above [`Self::LIMIT`]: the watch is of no more use.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_event: impl FnMut(Result<RawEvent<'_>, Error>),
    ) -> Result<(), Error> {
        match &mut self.form {
            Form::Json(decoder) => decoder.feed(chunk, on_event),
            Form::Protobuf(decoder) => decoder.feed(chunk, on_event),
        }
    }

    /// Says that the body has ended. In JSON a last line without a line end counts if it is complete.
    ///
    /// # Errors
    /// The body ended in the middle of an event.
    pub fn finish(self, on_event: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error> {
        match self.form {
            Form::Json(decoder) => decoder.finish(on_event),
            Form::Protobuf(decoder) => decoder.finish(),
        }
    }
}
