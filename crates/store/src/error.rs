//! Errors of a store.

use std::sync::Arc;

use kinformer_core::{BoxError, ObjectKey, PartId, ResourceVersion};

/// Why an operation of a store failed. Nothing has changed, except where a variant says otherwise.
///
/// In a [`PartialErrors`](kinformer_core::PartialErrors), [`downcast_ref`](kinformer_core::Error::downcast_ref) returns it for errors
/// of index functions and push functions.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no index of this name.
    #[error("no index {name:?}; available: {known:?}")]
    UnknownIndex {
        /// The requested name.
        name: String,
        /// The names of all indexes.
        known: Vec<Arc<str>>,
    },
    /// There already is an index of this name.
    #[error("index {name:?} already exists")]
    IndexerConflict {
        /// The name.
        name: Arc<str>,
    },
    /// The store was stopped before it reached the version.
    #[error("the store was stopped at resource version \"{reached}\" before reaching \"{wanted}\"")]
    Stopped {
        /// The version waited for.
        wanted: ResourceVersion,
        /// The version of the store.
        reached: ResourceVersion,
    },
    /// The deadline passed before the store reached the version.
    #[error("deadline exceeded at resource version \"{reached}\" before reaching \"{wanted}\"")]
    DeadlineExceeded {
        /// The version waited for.
        wanted: ResourceVersion,
        /// The version of the store.
        reached: ResourceVersion,
    },
    /// The versions cannot be compared, so it is unknown whether the store has reached the wanted one.
    #[error("the store's resource version \"{reached}\" cannot be compared with \"{wanted}\"")]
    Incomparable {
        /// The version waited for.
        wanted: ResourceVersion,
        /// The version of the store.
        reached: ResourceVersion,
    },
    /// There is no such part, or the key does not determine one.
    #[error("{place} does not name one of the store's parts ({parts})")]
    NoPart {
        /// The requested part or key.
        place: String,
        /// The number of parts.
        parts: u32,
    },
    /// The part was removed before it reached the version.
    #[error("{part} was removed before it reached the resource version")]
    PartRemoved {
        /// The part.
        part: PartId,
    },
    /// An index function failed or panicked. As a partial error: the object is stored and found by every look-up
    /// except this index.
    #[error("index function {index:?} failed for {key}: {source}")]
    IndexFunction {
        /// The object's key.
        key: ObjectKey,
        /// The name of the index.
        index: Arc<str>,
        /// The error returned by the function, or the message of its panic.
        source: BoxError,
    },
    /// The push function of an [`UndeltaStore`](crate::UndeltaStore) panicked. The write is applied.
    #[error("the push function failed; the write is applied: {source}")]
    Push {
        /// The message of the panic.
        source: BoxError,
    },
    /// An error of an object.
    #[error(transparent)]
    Core(#[from] kinformer_core::Error),
}

kinformer_core::debug_as_message!(Error);
