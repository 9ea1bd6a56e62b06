//! Compares two states of an object.

use kinformer_core::Object;

/// Returns whether both states are of one object at one version. Two objects without a UID count as the same object.
pub(crate) fn is_same_version<T: Object>(one: &T, other: &T) -> bool {
    let version = one.resource_version();
    !version.is_unset() && version == other.resource_version() && one.uid() == other.uid()
}
