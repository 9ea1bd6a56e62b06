//! How waiting for a queue can end.

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
