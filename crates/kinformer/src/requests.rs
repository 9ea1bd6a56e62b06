//! Methods of the factory that return informers.

use std::sync::Arc;

use kinformer_kube::{check_group_version, discovery_client};
use kube_core::discovery::{ApiCapabilities, ApiResource, Scope};
use kube_core::gvk::{GroupVersion, GroupVersionKind, GroupVersionResource};
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, Resource};

use crate::error::Error;
use crate::factory::SharedInformerFactory;
use crate::informer::Informer;
use crate::kind::scope_of;
use crate::projection::Projection;
use crate::target::Target;

impl SharedInformerFactory {
    /// Returns the informer of a kind, built in or derived.
    ///
    /// All views of a kind that are requested before the start share one informer, also those of its
    /// [metadata](Self::metadata). If that has started with metadata only, this is a view of a second informer, of the whole
    /// objects; [`ResourceOptions::whole_objects`](crate::ResourceOptions::whole_objects) avoids it.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// # fn example(factory: &SharedInformerFactory) {
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = factory.informer::<Pod>(); // the same as factory.core().v1().pods()
    /// # _ = pods;
    /// # }
    /// ```
    #[doc(alias("InformerFor", "reflect_shared"))]
    pub fn informer<K: Resource<DynamicType = (), Scope: 'static>>(&self) -> Informer<K> {
        self.view(ApiResource::erase::<K>(&()), scope_of::<K>(), Projection::Whole)
    }

    /// Returns an informer of the metadata of a kind. If the factory has an informer of the whole objects, the result is a
    /// view of that. Else only metadata is fetched, unless whole objects of the kind are requested before the informer
    /// starts.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// # fn example(factory: &SharedInformerFactory) -> Result<(), kinformer::Error> {
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// let secrets = factory.metadata::<Secret>(); // their data is not fetched
    /// for secret in secrets.snapshot()?.iter() {
    ///     println!("{}", secret.key());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias(
        "metadata_watcher",
        "metadatainformer",
        "NewFilteredMetadataInformer",
        "NewSharedInformerFactory",
        "OnlyMetadata",
        "PartialObjectMetadata"
    ))]
    pub fn metadata<K>(&self) -> Informer<PartialObjectMeta<K>>
    where
        K: Resource<DynamicType = (), Scope: 'static>,
    {
        self.view(ApiResource::erase::<K>(&()), scope_of::<K>(), Projection::Metadata)
    }

    /// Returns the informer of a resource that is described by the caller, with dynamic objects. Sends no request to
    /// the server.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// # fn example(factory: &SharedInformerFactory) {
    /// use kinformer::kube_core::discovery::{ApiResource, Scope};
    /// use kinformer::kube_core::gvk::GroupVersionKind;
    ///
    /// let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    /// let widgets = factory.dynamic(ApiResource::from_gvk_with_plural(&kind, "widgets"), Scope::Namespaced);
    /// # _ = widgets;
    /// # }
    /// ```
    #[doc(alias("dynamicinformer", "NewDynamicSharedInformerFactory", "NewFilteredDynamicInformer"))]
    pub fn dynamic(&self, resource: ApiResource, scope: Scope) -> Informer<DynamicObject> {
        self.view(resource, scope, Projection::Whole)
    }

    /// As [`Self::metadata`], for a resource that is described by the caller.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// # fn example(factory: &SharedInformerFactory) -> Result<(), kinformer::Error> {
    /// use kinformer::kube_core::discovery::{ApiResource, Scope};
    /// use kinformer::kube_core::gvk::GroupVersionKind;
    ///
    /// // A garbage collector needs the owners of the objects of any kind, and nothing else of them.
    /// let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    /// let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    /// let widgets = factory.dynamic_metadata(resource, Scope::Namespaced);
    /// widgets.index("owner", |widget, values| {
    ///     let widget = widget.decode()?;
    ///     widget.metadata.owner_references.iter().flatten().for_each(|owner| values.push(&owner.uid));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "NewSharedInformerFactory")]
    pub fn dynamic_metadata(
        &self,
        resource: ApiResource,
        scope: Scope,
    ) -> Informer<PartialObjectMeta<DynamicObject>> {
        self.view(resource, scope, Projection::Metadata)
    }

    /// Returns the informers that the factory has of a resource now: for each version that was requested and not released or
    /// removed since, the one of whole objects, the one of metadata, or both; see
    /// [`InformerSelection::projection`](crate::InformerSelection::projection). Does not keep them: one that is only leased
    /// stops with its last lease.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// # fn example(factory: &SharedInformerFactory) {
    /// let pods = factory.core().v1().pods();
    /// let [known] = &factory.informers_of("", "pods")[..] else { panic!("one version") };
    /// assert_eq!(known.id(), pods.id());
    /// assert!(factory.informers_of("apps", "deployments").is_empty());
    /// # }
    /// ```
    pub fn informers_of(&self, group: &str, plural: &str) -> Vec<Informer<()>> {
        let entries = self.entries_of(group, plural).into_iter();
        entries.filter_map(|entry| Informer::of_entry(self, entry)).collect()
    }

    /// Returns all informers of Kubernetes objects that the factory has now, ordered by their resources: for what shows or exports
    /// each of them. Does not keep them, as [`Self::informers_of`].
    ///
    /// ```
    /// # fn example(factory: &kinformer::SharedInformerFactory) -> Result<(), kinformer::Error> {
    /// for informer in factory.informers() {
    ///     let objects = informer.snapshot()?.len();
    ///     println!("{}: {objects} objects, {:?}", informer.name(), informer.status().phase());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn informers(&self) -> Vec<Informer<DynamicObject>> {
        self.entries().into_iter().filter_map(|entry| Informer::of_entry(self, entry)).collect()
    }

    fn view<K>(&self, resource: ApiResource, scope: Scope, projection: Projection) -> Informer<K> {
        Informer::new(self, Target { resource, scope, projection })
    }

    /// Returns the informer of a resource by its group, version and plural name, with dynamic objects. Discovers the
    /// resource on the server.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// use kinformer::kube_core::gvk::GroupVersionResource;
    ///
    /// # async fn example(factory: &SharedInformerFactory) -> Result<(), kinformer::Error> {
    /// let deployments = factory.for_resource(&GroupVersionResource::gvr("apps", "v1", "deployments")).await?;
    /// # _ = deployments;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the discovery request. The factory is unchanged: the informer is created after the last
    /// await.
    ///
    /// # Errors
    /// [`Error::NoSuchResource`] if the server serves the group and version, but not this resource.
    /// [`Error::Discovery`] if it does not serve the group and version, or the request fails. [`Error::Name`] if the
    /// group or version cannot be a segment of a URL path.
    ///
    /// Follows client-go 0.37 (`ForResource`).
    #[doc(alias = "NewDynamicSharedInformerFactory")]
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
        let group = kube_client::discovery::pinned_group(&discovery_client(self.client()), &group_version)
            .await
            .map_err(error)?;
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

    /// Returns the informer of a resource by its kind, with dynamic objects. Discovers the kind on the server.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// use kinformer::kube_core::gvk::GroupVersionKind;
    ///
    /// # async fn example(factory: &SharedInformerFactory) -> Result<(), kinformer::Error> {
    /// let deployments = factory.for_kind(&GroupVersionKind::gvk("apps", "v1", "Deployment")).await?;
    /// # _ = deployments;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As [`Self::for_resource`].
    ///
    /// # Errors
    /// [`Error::Discovery`] if the server does not serve the kind, or the request fails. [`Error::Name`] if its group
    /// or version cannot be a segment of a URL path.
    pub async fn for_kind(&self, kind: &GroupVersionKind) -> Result<Informer<DynamicObject>, Error> {
        check_group_version(&kind.group, &kind.version).map_err(|error| Error::Name(Arc::new(error)))?;
        match kube_client::discovery::pinned_kind(&discovery_client(self.client()), kind).await {
            Ok((resource, capabilities)) => Ok(self.dynamic(resource, capabilities.scope)),
            Err(source) => Err(Error::Discovery {
                what: format!("{} of {}", kind.kind, kind.api_version()).into(),
                source: Arc::new(source),
            }),
        }
    }
}
