//! Helpers shared by the kinformer crates. Not part of the public API; may change in any version.

pub use crate::change::differences;
pub use crate::diff::ShownEntry;
