//! List answers, item by item.

use crate::codec::AnyList;
use crate::{Encoding, Error, ListEnvelope, ManagedFields};

/// Takes a list answer in chunks and gives out the bytes of each item as soon as it is complete: its JSON, or its
/// protobuf message, which an [`ObjectDecoder`](crate::ObjectDecoder) decodes.
///
/// Memory: one item, and the list without its items. It grows by what has come, never by what the bytes say of their
/// length.
#[derive(Debug)]
pub struct ListDecoder(AnyList);

impl ListDecoder {
    /// The largest single item, and the largest envelope, that is taken: 64 MiB. etcd's own limit for an
    /// object is 1.5 MiB by default.
    pub const LIMIT: usize = 64 * 1024 * 1024;

    /// A decoder for one list answer in JSON.
    pub fn new(managed_fields: ManagedFields) -> Self {
        Self::of(Encoding::Json, managed_fields)
    }

    /// A decoder for one list answer.
    pub fn of(encoding: Encoding, managed_fields: ManagedFields) -> Self {
        Self(encoding.list(managed_fields, Self::LIMIT))
    }

    /// Takes the next chunk and shows each item that ends in it.
    ///
    /// # Errors
    /// Something other than objects between the items, or an item above [`Self::LIMIT`]. Items that were
    /// shown before stay good.
    pub fn feed(&mut self, chunk: &[u8], on_item: impl FnMut(&[u8])) -> Result<(), Error> {
        self.0.feed(chunk, on_item)
    }

    /// Says that the answer has ended.
    ///
    /// # Errors
    /// The answer is not complete, or is no list.
    pub fn finish(self) -> Result<ListEnvelope, Error> {
        self.0.finish()
    }
}
