//! What the factory needs to know of a kind to make its informer.

use std::any::TypeId;
use std::fmt::Debug;

use k8s_openapi::ClusterResourceScope;
use kinformer_kube::KubeListerWatcher;
use kube_client::Client;
use kube_core::Resource;
use kube_core::discovery::{ApiResource, Scope};
use serde::de::DeserializeOwned;

/// A Kubernetes object that can be listed and watched: what every built-in kind, every derived custom resource,
/// `DynamicObject` and `PartialObjectMeta` are.
pub trait KnownKind: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static> KnownKind for K {}

/// What says which resource it is: nothing beside the type, or an [`ApiResource`].
pub trait Kind<K>: Clone {
    /// The source of the kind's objects.
    fn lister_watcher(&self, client: Client) -> KubeListerWatcher<K>;

    /// The resource beside the type, where the type does not say it all.
    fn resource(&self) -> Option<String>;
}

impl<K: Resource<DynamicType = ()>> Kind<K> for () {
    fn lister_watcher(&self, client: Client) -> KubeListerWatcher<K> {
        KubeListerWatcher::new(client)
    }

    fn resource(&self) -> Option<String> {
        None
    }
}

impl<K: Resource<DynamicType = Self>> Kind<K> for ApiResource {
    fn lister_watcher(&self, client: Client) -> KubeListerWatcher<K> {
        KubeListerWatcher::dynamic(client, self.clone())
    }

    fn resource(&self) -> Option<String> {
        Some(format!("{}/{}", self.api_version, self.plural))
    }
}

/// Whether objects of a type are in namespaces.
pub(crate) fn scope_of<K: Resource<Scope: 'static>>() -> Scope {
    match TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>() {
        true => Scope::Cluster,
        false => Scope::Namespaced,
    }
}

/// The resource as people write it: `pods`, `deployments.apps`.
pub(crate) fn resource_name<K: Resource>(dynamic_type: &K::DynamicType) -> String {
    let (plural, group) = (K::plural(dynamic_type), K::group(dynamic_type));
    match group.is_empty() {
        true => plural.into_owned(),
        false => format!("{plural}.{group}"),
    }
}
