//! The informers that a factory gives out.

use std::sync::Arc;

use kinformer_kube::check_group_version;
use kube_core::discovery::{ApiCapabilities, ApiResource, Scope};
use kube_core::gvk::{GroupVersion, GroupVersionKind, GroupVersionResource};
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, Resource};

use crate::engine::projection::Projection;
use crate::error::Error;
use crate::factory::SharedInformerFactory;
use crate::informer::Informer;
use crate::kind::scope_of;
use crate::target::Target;

impl SharedInformerFactory {
    /// The informer of a kind, built in or derived.
    ///
    /// If the factory has fetched only [metadata](Self::metadata) of it, whole objects are listed and watched from now on.
    /// Until they are stored this is as an informer that has not synced: it has no objects, and
    /// [`Informer::wait_for_sync`] waits.
    pub fn informer<K: Resource<DynamicType = (), Scope: 'static>>(&self) -> Informer<K> {
        self.view(ApiResource::erase::<K>(&()), scope_of::<K>(), Projection::Whole)
    }

    /// Only the metadata of a kind. Where the factory has the informer of the whole objects it is a view of that; else only
    /// metadata is fetched, until whole objects of the kind are requested. They are then listed, and this view goes on as it
    /// was: its handlers receive no object again for it.
    pub fn metadata<K>(&self) -> Informer<PartialObjectMeta<K>>
    where
        K: Resource<DynamicType = (), Scope: 'static>,
    {
        self.view(ApiResource::erase::<K>(&()), scope_of::<K>(), Projection::Metadata)
    }

    /// A resource that is named here, with objects of any shape. Nothing is asked of the server.
    pub fn dynamic(&self, resource: ApiResource, scope: Scope) -> Informer<DynamicObject> {
        self.view(resource, scope, Projection::Whole)
    }

    /// As [`Self::metadata`], of a resource that is named here.
    pub fn dynamic_metadata(
        &self,
        resource: ApiResource,
        scope: Scope,
    ) -> Informer<PartialObjectMeta<DynamicObject>> {
        self.view(resource, scope, Projection::Metadata)
    }

    fn view<K>(&self, resource: ApiResource, scope: Scope, projection: Projection) -> Informer<K> {
        Informer::new(self, Target { resource, scope, projection })
    }

    /// A resource by its group, version and plural name, with objects of any shape. The server is asked about it.
    ///
    /// # Errors
    /// [`Error::NoSuchResource`]: the server serves the group and version, but not this in it. [`Error::Discovery`]:
    /// it does not serve these either, or does not answer. [`Error::Name`]: they cannot be part of a path.
    ///
    /// Follows client-go 1.37 (`ForResource`).
    pub async fn for_resource(
        &self,
        resource: &GroupVersionResource,
    ) -> Result<Informer<DynamicObject>, Error> {
        check_group_version(&resource.group, &resource.version)
            .map_err(|error| Error::Name(Arc::new(error)))?;
        let group_version = GroupVersion { group: resource.group.clone(), version: resource.version.clone() };
        let error = |source| Error::Discovery {
            what: format!("{}.{}.{}", resource.resource, resource.version, resource.group).into(),
            source: Arc::new(source),
        };
        let group =
            kube_client::discovery::pinned_group(self.client(), &group_version).await.map_err(error)?;
        let found: Option<(ApiResource, ApiCapabilities)> = group
            .versioned_resources(&resource.version)
            .into_iter()
            .find(|(found, _)| found.plural == resource.resource);
        match found {
            Some((found, capabilities)) => Ok(self.dynamic(found, capabilities.scope)),
            None => Err(Error::NoSuchResource {
                resource: resource.resource.as_str().into(),
                group_version: group_version.api_version().into(),
            }),
        }
    }

    /// A resource by its kind, with objects of any shape. The server is asked about it.
    ///
    /// # Errors
    /// [`Error::Discovery`]: the server does not serve it, or does not answer. [`Error::Name`]: its group or version
    /// cannot be part of a path.
    pub async fn for_kind(&self, kind: &GroupVersionKind) -> Result<Informer<DynamicObject>, Error> {
        check_group_version(&kind.group, &kind.version).map_err(|error| Error::Name(Arc::new(error)))?;
        match kube_client::discovery::pinned_kind(self.client(), kind).await {
            Ok((resource, capabilities)) => Ok(self.dynamic(resource, capabilities.scope)),
            Err(source) => Err(Error::Discovery {
                what: format!("{} of {}", kind.kind, kind.api_version()).into(),
                source: Arc::new(source),
            }),
        }
    }
}
