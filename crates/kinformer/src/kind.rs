//! Scope and names of a kind, as the factory uses them.

use std::any::TypeId;

use k8s_openapi::ClusterResourceScope;
use kube_core::Resource;
use kube_core::discovery::{ApiResource, Scope};

/// The scope of a type: namespaced or cluster-wide.
///
/// ```
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kinformer::kube_core::discovery::Scope;
///
/// assert!(kinformer::scope_of::<Pod>() == Scope::Namespaced);
/// assert!(kinformer::scope_of::<Node>() == Scope::Cluster);
/// ```
#[doc(alias = "IsObjectNamespaced")]
pub fn scope_of<K: Resource<Scope: 'static>>() -> Scope {
    match TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>() {
        true => Scope::Cluster,
        false => Scope::Namespaced,
    }
}

/// The resource name as in kubectl: `pods`, `deployments.apps`.
pub(crate) fn resource_name(resource: &ApiResource) -> String {
    match resource.group.is_empty() {
        true => resource.plural.clone(),
        false => format!("{}.{}", resource.plural, resource.group),
    }
}

/// As [`resource_name`], with the version unless that is `v1`: `horizontalpodautoscalers.v2.autoscaling`. Unique among
/// the resources of one server.
pub(crate) fn versioned_name(resource: &ApiResource) -> String {
    match resource.group.is_empty() || resource.version == "v1" {
        true => resource_name(resource),
        false => format!("{}.{}.{}", resource.plural, resource.version, resource.group),
    }
}
