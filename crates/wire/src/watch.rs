//! Decoding of watches, event by event.

use std::borrow::Cow;

use serde::Deserialize;

use crate::codec::AnyWatch;
use crate::{Encoding, Error, ManagedFields, ObjectDecoder, RawEvent, TypeMeta};

impl RawEvent<'_> {
    /// The kind of the object; `None` if the event does not have it.
    pub fn kind(&self) -> Option<Cow<'_, str>> {
        match self.types {
            Some(types) => Some(types.kind.into()),
            None => self.encoding.kind(self.object).map(Cow::Owned),
        }
    }

    /// Decodes the object, whatever its kind: for `ERROR` events a `Status`.
    ///
    /// To decode objects of the watched kind, use one [`ObjectDecoder`] for the watch, which looks up the kind once and
    /// counts skipped fields.
    ///
    /// # Errors
    /// The object is broken, does not match the type, or is of a kind that is unknown in this encoding.
    pub fn decode<K: for<'de> Deserialize<'de>>(&self) -> Result<K, Error> {
        let TypeMeta { api_version, kind } = self.types.unwrap_or(TypeMeta { api_version: "", kind: "" });
        match ObjectDecoder::new(self.encoding, api_version, kind) {
            Some(decoder) => decoder.decode(self.object),
            None => Err(Error::unknown_kind(api_version, kind)),
        }
    }
}

/// Reads the body of a watch in chunks and delivers each event as soon as it is complete.
///
/// In JSON a watch is a stream of objects, as in Go: an event may take several lines, and events need no newline between
/// them. An event that ends neither with its line nor with a chunk may be delivered with the next chunk.
///
/// Memory: one event, and one object. Grows with the received bytes only, never by a length that the bytes announce.
#[derive(Debug)]
pub struct WatchDecoder(AnyWatch);

impl WatchDecoder {
    /// The maximum size of an event: 64 MiB.
    pub const LIMIT: usize = 64 * 1024 * 1024;

    /// Creates a decoder for one watch in JSON.
    pub fn new(managed_fields: ManagedFields) -> Self {
        Self::of(Encoding::Json, managed_fields)
    }

    /// Creates a decoder for one watch.
    pub fn of(encoding: Encoding, managed_fields: ManagedFields) -> Self {
        Self(encoding.watch(managed_fields, Self::LIMIT))
    }

    /// Reads the next chunk and calls `on_event` with each event that ends in it. A malformed event is passed as an
    /// error, and decoding continues with the next event; in JSON after a malformed object, or else with a next line.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if an event exceeds [`Self::LIMIT`], or another error if the end of an event is unknown. The
    /// rest of the watch cannot be decoded.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_event: impl FnMut(Result<RawEvent<'_>, Error>),
    ) -> Result<(), Error> {
        self.0.feed(chunk, on_event)
    }

    /// Ends the body. In JSON, complete events that were not delivered yet are delivered.
    ///
    /// # Errors
    /// [`Error::Truncated`] if the body ended within an event.
    pub fn finish(self, on_event: impl FnMut(Result<RawEvent<'_>, Error>)) -> Result<(), Error> {
        self.0.finish(on_event)
    }
}
