//! The error of waits.

/// A blocking wait has reached its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline has passed")]
pub struct DeadlineExceeded;
