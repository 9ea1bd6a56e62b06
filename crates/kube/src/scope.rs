//! Resources with another scope than that of the requests.

use kinformer_core::Object;
use kinformer_core::internal::contain;
use kinformer_reflector::{SourceError, WatchEvent};
use kube_core::discovery::ApiResource;

/// Returns the error of requests in a namespace for a cluster-scoped resource, or for one that is in namespaces instead of
/// cluster-scoped.
pub(crate) fn other(resource: &ApiResource, namespace: Option<&str>) -> SourceError {
    let ApiResource { group, plural, .. } = resource;
    let resource = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
    SourceError::OtherScope { resource, namespace: namespace.map(Into::into) }
}

/// Returns whether an object is in a namespace. One whose key panics is left to the reflector.
pub(crate) fn is_in_namespace<K: Object>(object: &K) -> bool {
    contain(|| object.key().namespace().is_some()).unwrap_or_default()
}

/// Refuses an event about an object in a namespace.
///
/// # Errors
/// [`SourceError::OtherScope`] if the resource is to be cluster-scoped.
pub(crate) fn check<K: Object>(
    event: WatchEvent<K>,
    cluster_scoped: Option<&ApiResource>,
) -> Result<WatchEvent<K>, SourceError> {
    match (&event, cluster_scoped) {
        (
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object),
            Some(resource),
        ) if is_in_namespace(&**object) => Err(other(resource, None)),
        _ => Ok(event),
    }
}
