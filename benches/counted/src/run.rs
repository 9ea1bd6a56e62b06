//! A prepared hot path.

/// Each call does the same work.
pub(crate) type Run = Box<dyn FnMut()>;
