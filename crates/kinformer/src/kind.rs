//! What the factory needs to know of a kind to make its informer.

use std::any::TypeId;

use k8s_openapi::ClusterResourceScope;
use kube_core::Resource;
use kube_core::discovery::{ApiResource, Scope};

/// Whether objects of a type are in namespaces.
pub(crate) fn scope_of<K: Resource<Scope: 'static>>() -> Scope {
    match TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>() {
        true => Scope::Cluster,
        false => Scope::Namespaced,
    }
}

/// The resource as people write it: `pods`, `deployments.apps`.
pub(crate) fn resource_name(resource: &ApiResource) -> String {
    match resource.group.is_empty() {
        true => resource.plural.clone(),
        false => format!("{}.{}", resource.plural, resource.group),
    }
}

/// As [`resource_name`], with the version unless that is `v1`: `horizontalpodautoscalers.v2.autoscaling`. The resources of
/// one server differ in it.
pub(crate) fn versioned_name(resource: &ApiResource) -> String {
    match resource.group.is_empty() || resource.version == "v1" {
        true => resource_name(resource),
        false => format!("{}.{}.{}", resource.plural, resource.version, resource.group),
    }
}
