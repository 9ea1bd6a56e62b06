//! Watches, event by event.

use std::borrow::Cow;

use serde::Deserialize;

use crate::codec::AnyWatch;
use crate::{Encoding, Error, ManagedFields, ObjectDecoder, RawEvent, TypeMeta};

impl RawEvent<'_> {
    /// The kind of the object, unless nothing says it.
    pub fn kind(&self) -> Option<Cow<'_, str>> {
        match self.types {
            Some(types) => Some(types.kind.into()),
            None => self.encoding.kind(self.object).map(Cow::Owned),
        }
    }

    /// Decodes the object, of whatever kind it is: a `Status` in an error.
    ///
    /// Objects of the kind that is watched are decoded by the [`ObjectDecoder`] of the watch, which looks up the kind
    /// once and counts the fields that it skips.
    ///
    /// # Errors
    /// The object is broken, is not what the type wants, or is of a kind that is not known in this encoding.
    pub fn decode<K: for<'de> Deserialize<'de>>(&self) -> Result<K, Error> {
        let TypeMeta { api_version, kind } = self.types.unwrap_or(TypeMeta { api_version: "", kind: "" });
        match ObjectDecoder::new(self.encoding, api_version, kind) {
            Some(decoder) => decoder.decode(self.object),
            None => Err(Error::unknown_kind(api_version, kind)),
        }
    }
}

/// Takes the body of a watch in chunks and gives out each event as soon as it is complete.
///
/// Memory: one event, and one object. It grows by what has come, never by what the bytes say of their length.
#[derive(Debug)]
pub struct WatchDecoder(AnyWatch);

impl WatchDecoder {
    /// The longest event that is taken: 64 MiB.
    pub const LIMIT: usize = 64 * 1024 * 1024;

    /// A decoder for one watch in JSON.
    pub fn new(managed_fields: ManagedFields) -> Self {
        Self::of(Encoding::Json, managed_fields)
    }

    /// A decoder for one watch.
    pub fn of(encoding: Encoding, managed_fields: ManagedFields) -> Self {
        Self(encoding.watch(managed_fields, Self::LIMIT))
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
        self.0.feed(chunk, on_event)
    }

    /// Says that the body has ended. In JSON a last line without a line end counts if it is complete.
    ///
    /// # Errors
    /// The body ended in the middle of an event.
    pub fn finish(self, on_event: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error> {
        self.0.finish(on_event)
    }
}
