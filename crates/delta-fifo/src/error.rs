//! How waiting for a queue can end, and how writing can fail.

use kinformer_core::{BoxError, ObjectKey};

/// Why there is nothing to pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The queue has been closed and everything in it has been popped.
    #[error("the queue is closed")]
    Closed,
    /// The deadline has passed.
    #[error("the deadline has passed")]
    DeadlineExceeded,
}

/// What a queue reports of a write beside the errors that all sinks have:
/// [`downcast_ref`](kinformer_core::Error::downcast_ref) gives it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The priority function of a heap panicked. The object is left out.
    #[error("the priority function failed for {key}: {source}")]
    Priority {
        /// Which object.
        key: ObjectKey,
        /// The message of the panic.
        source: BoxError,
    },
    /// The known objects, which a queue asks what is missing in a list, panicked. Nothing has changed.
    #[error("the known objects could not be asked: {source}")]
    KnownObjects {
        /// The message of the panic.
        source: BoxError,
    },
}
