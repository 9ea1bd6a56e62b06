//! Helpers shared by the kinformer crates. Not part of the public API; may change in any version.

use serde::Deserialize;

use crate::{Error, FieldPath, PackedObject};

/// As [`PackedObject::field`], into a type that may borrow from the object: for indexes, which copy the value into
/// storage of their own.
///
/// # Errors
/// As [`PackedObject::field`].
pub fn borrowed_field<'de, M: Deserialize<'de>>(
    object: &'de PackedObject,
    path: &FieldPath,
) -> Result<Option<M>, Error> {
    object.borrowed_field(path)
}
