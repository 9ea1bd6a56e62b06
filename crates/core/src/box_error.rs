//! The error of user code.

/// An error of user code: its returned error, or the message of its panic.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
