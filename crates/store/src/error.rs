//! What can go wrong in a store.

use std::sync::Arc;

use kinformer_core::{BoxError, ObjectKey, ResourceVersion};

/// Why a store did not do what it was asked. Nothing has changed then.
///
/// In a [`Report`](kinformer_core::Report) it is what [`downcast_ref`](kinformer_core::Error::downcast_ref) gives of a
/// problem with an index function or a push function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no index of this name.
    #[error("there is no index {name:?}; there are {known:?}")]
    UnknownIndex {
        /// What was asked for.
        name: String,
        /// The names of the indexes that there are.
        known: Vec<Arc<str>>,
    },
    /// There is an index of this name already.
    #[error("there is an index {name:?} already")]
    IndexerConflict {
        /// Which name.
        name: Arc<str>,
    },
    /// The store was stopped: what was waited for will not come.
    #[error("the store was stopped at resource version \"{reached}\" before it reached \"{wanted}\"")]
    Stopped {
        /// What was waited for.
        wanted: ResourceVersion,
        /// Where the store stood.
        reached: ResourceVersion,
    },
    /// The deadline has passed.
    #[error("the deadline passed at resource version \"{reached}\" before the store reached \"{wanted}\"")]
    DeadlineExceeded {
        /// What was waited for.
        wanted: ResourceVersion,
        /// Where the store stood.
        reached: ResourceVersion,
    },
    /// Whether the store has reached the version cannot be known.
    #[error("resource version \"{reached}\" of the store cannot be compared with \"{wanted}\"")]
    Incomparable {
        /// What was waited for.
        wanted: ResourceVersion,
        /// Where the store stood.
        reached: ResourceVersion,
    },
    /// There is no such part, or the part does not follow from the key.
    #[error("{place} names none of the {parts} parts of the store")]
    NoPart {
        /// The part or the key that was named.
        place: String,
        /// How many parts there are.
        parts: u32,
    },
    /// An index function failed or panicked. In a report: the object is stored, and found by everything but this index.
    #[error("index function {index:?} failed for {key}: {source}")]
    IndexFunction {
        /// Which object.
        key: ObjectKey,
        /// The name of the index.
        index: Arc<str>,
        /// What the function returned, or the message of its panic.
        source: BoxError,
    },
    /// The push function of an [`UndeltaStore`](crate::UndeltaStore) panicked. The write is applied.
    #[error("the push function failed after a write, which is applied: {source}")]
    Push {
        /// The message of the panic.
        source: BoxError,
    },
    /// Something is wrong with an object.
    #[error(transparent)]
    Core(#[from] kinformer_core::Error),
}
