//! Compares two states of an object.

use kinformer_core::Object;

/// Returns whether both states are of one object at one version and have the same content. If the content is not
/// comparable, the result is `if_unknown` for states with a version, and `false` for others. Two objects without a UID
/// count as the same object.
pub(crate) fn is_same<T: Object>(one: &T, other: &T, if_unknown: bool) -> bool {
    let version = one.resource_version();
    version == other.resource_version()
        && one.uid() == other.uid()
        && one.has_same_content(other).unwrap_or(if_unknown && !version.is_unset())
}
