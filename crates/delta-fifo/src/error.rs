//! Errors of waits, pops and writes.

use kinformer_core::{BoxError, ObjectKey};

/// Why a pop or a wait failed.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The queue is closed and empty, or was closed before it could sync.
    #[doc(alias = "ErrFIFOClosed")]
    #[error("the queue is closed")]
    Closed,
    /// The deadline has passed.
    #[error("the deadline has passed")]
    DeadlineExceeded,
}

/// Errors of a write that are specific to queues, in addition to the errors of all sinks. Returned by
/// [`downcast_ref`](kinformer_core::Error::downcast_ref).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The priority function of a heap panicked. The object is left out.
    #[error("the priority function failed for {key}: {source}")]
    Priority {
        /// The object's key.
        key: ObjectKey,
        /// The message of the panic.
        source: BoxError,
    },
    /// The known objects panicked when the queue looked up the objects missing from a list. Nothing has changed.
    #[error("the known objects could not be read: {source}")]
    KnownObjects {
        /// The message of the panic.
        source: BoxError,
    },
}

kinformer_core::debug_as_message!(Error, WriteError);
