//! Decoding of list responses, item by item.

use crate::codec::AnyList;
use crate::{Encoding, Error, ListEnvelope, ManagedFields};

/// Reads a list response in chunks and delivers the bytes of each item as soon as it is complete: its JSON, or its
/// protobuf message, which an [`ObjectDecoder`](crate::ObjectDecoder) decodes.
///
/// Memory: one item, and the list without its items. Grows with the received bytes only, never by a length that the
/// bytes announce.
#[derive(Debug)]
pub struct ListDecoder(AnyList);

impl ListDecoder {
    /// The maximum size of a single item, and of the list without its items: 64 MiB. etcd's limit for an object is 1.5
    /// MiB by default.
    pub const LIMIT: usize = 64 * 1024 * 1024;

    /// Creates a decoder for one list response in JSON.
    pub fn new(managed_fields: ManagedFields) -> Self {
        Self::of(Encoding::Json, managed_fields)
    }

    /// Creates a decoder for one list response.
    pub fn of(encoding: Encoding, managed_fields: ManagedFields) -> Self {
        Self(encoding.list(managed_fields, Self::LIMIT))
    }

    /// Reads the next chunk and calls `on_item` with each item that ends in it.
    ///
    /// # Errors
    /// The list is malformed, or exceeds [`Self::LIMIT`]. Items delivered before are valid.
    pub fn feed(&mut self, chunk: &[u8], on_item: impl FnMut(&[u8])) -> Result<(), Error> {
        self.0.feed(chunk, on_item)
    }

    /// Ends the response and returns its fields other than the items.
    ///
    /// # Errors
    /// The response is incomplete or is not a list.
    pub fn finish(self) -> Result<ListEnvelope, Error> {
        self.0.finish()
    }
}
