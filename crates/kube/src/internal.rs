//! Helpers shared by the kinformer crates. Not part of the public API; may change in any version.

pub use kinformer_wire::internal::borrowed_field;

pub use crate::client::pem::certificates;
pub use crate::list_kind::is_list_of;
pub use crate::path::{of as path_of_resource, of_object as path_of_object};
