//! Whether two states of an object are one.

use kinformer_core::Object;

/// Whether both are of one object and one version. Two objects without a UID are taken for one.
pub(crate) fn is_same_version<T: Object>(one: &T, other: &T) -> bool {
    let version = one.resource_version();
    !version.is_unset() && version == other.resource_version() && one.uid() == other.uid()
}
