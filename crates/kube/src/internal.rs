//! Helpers shared by the kinformer crates. Not part of the public API; may change in any version.

pub use kinformer_wire::internal::borrowed_field;

pub use crate::list_kind::is_list_of;
