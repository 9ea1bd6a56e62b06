//! The cache, and its options.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer::{KeyError, KeyRef, Packed, SharedInformerFactory, SharedInformerFactoryBuilder};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::gvk::GroupVersionKind;
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, Resource};

use crate::error::Error;
use crate::kind::Kind;
use crate::list::ListOptions;
use crate::mapper::RestMapper;
use crate::shared::Shared;

/// A cache of Kubernetes objects. Cheap to clone; all clones are handles to the same cache.
///
/// A read of a kind starts its informer if it is the first, waits until the informer has synced, and is answered from
/// memory.
///
/// Follows controller-runtime 0.25 (`cache.Cache`).
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
    mapper: RestMapper,
}

/// Builds a [`Cache`].
#[must_use = "nothing is built yet"]
pub struct CacheBuilder {
    client: Client,
    factory: SharedInformerFactoryBuilder,
    sync_timeout: Duration,
    starts_on_read: bool,
}

impl CacheBuilder {
    /// Sets the options of the informers: namespaces, selectors, transforms, and those of single kinds.
    ///
    /// ```
    /// # use kinformer_cache::Cache;
    /// # fn example(client: kube_client::Client) {
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    ///
    /// let cache = Cache::builder(client).options(|informers| {
    ///     informers
    ///         .namespaces(["team-a", "team-b"])
    ///         .of_kind::<Secret>(|secrets| secrets.labels("app=web"))
    ///         .of_kind::<ConfigMap>(|maps| maps.namespaces(["kube-system"]))
    /// });
    /// # _ = cache;
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`cache.Options`: `ByObject`, `DefaultNamespaces`, `DefaultLabelSelector`,
    /// `DefaultFieldSelector`, `DefaultTransform`, `SyncPeriod`).
    pub fn options(
        mut self,
        change: impl FnOnce(SharedInformerFactoryBuilder) -> SharedInformerFactoryBuilder,
    ) -> Self {
        self.factory = change(self.factory);
        self
    }

    /// Sets how long a read waits for an informer to sync. The default is 2 minutes. A read whose caller should wait for
    /// another time is put into [`tokio::time::timeout`].
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// Makes reads fail with [`Error::NotCached`] instead of starting the informer of a kind.
    ///
    /// Follows controller-runtime 0.25 (`ReaderFailOnMissingInformer`).
    pub fn fail_on_missing_informer(mut self) -> Self {
        self.starts_on_read = false;
        self
    }

    /// Builds the cache.
    pub fn build(self) -> Cache {
        let Self { client, factory, sync_timeout, starts_on_read } = self;
        let shared = Arc::new(Shared::new(factory.build(), sync_timeout, starts_on_read));
        Cache { shared, mapper: RestMapper::new(client) }
    }
}

impl Cache {
    /// Returns a builder of a cache with this client.
    ///
    /// The informers of the cache deliver all objects again after 10 hours, as those of controller-runtime; see
    /// [`SharedInformerFactoryBuilder::default_resync`](kinformer::SharedInformerFactoryBuilder::default_resync).
    pub fn builder(client: Client) -> CacheBuilder {
        let factory = SharedInformerFactory::builder(client.clone()).default_resync(SYNC_PERIOD);
        CacheBuilder { client, factory, sync_timeout: Duration::from_secs(120), starts_on_read: true }
    }

    /// Starts the requested informers, and allows reads. May be called several times.
    ///
    /// # Errors
    /// [`kinformer::Error::NoRuntime`] outside a tokio runtime.
    pub fn start(&self) -> Result<(), Error> {
        Ok(self.shared.start()?)
    }

    /// Stops all informers, as [`SharedInformerFactory::shutdown`].
    ///
    /// # Cancel safety
    /// As [`SharedInformerFactory::shutdown`].
    ///
    /// # Errors
    /// [`kinformer::Error::Stuck`]: handlers did not return within the grace period.
    pub async fn shutdown(&self) -> Result<(), Error> {
        Ok(self.shared.factory.shutdown().await?)
    }

    /// Waits until all requested informers have synced, at most for the timeout of the cache.
    ///
    /// # Cancel safety
    /// As [`SharedInformerFactory::wait_for_cache_sync`].
    ///
    /// # Errors
    /// [`kinformer::Error::NotSynced`] names the informers that have not synced.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + self.shared.sync_timeout;
        Ok(self.shared.factory.wait_for_cache_sync_until(deadline).await.into_result()?)
    }

    /// The factory of the informers of this cache, for handlers, listers and controllers.
    pub fn factory(&self) -> &SharedInformerFactory {
        &self.shared.factory
    }

    /// The resources of the kinds that the server serves.
    pub fn mapper(&self) -> &RestMapper {
        &self.mapper
    }

    /// Returns the objects of a kind.
    pub fn kind<K: Resource<DynamicType = (), Scope: 'static>>(&self) -> Kind<K> {
        Kind::new(&self.shared, |factory| factory.informer::<K>(), ApiResource::erase::<K>(&()))
    }

    /// Returns the metadata of the objects of a kind. If nothing else has requested the kind, only metadata is fetched.
    pub fn metadata<K: Resource<DynamicType = (), Scope: 'static>>(&self) -> Kind<PartialObjectMeta<K>> {
        Kind::new(&self.shared, |factory| factory.metadata::<K>(), ApiResource::erase::<K>(&()))
    }

    /// Returns the objects of a kind without a type. Finds its resource on the server.
    ///
    /// # Cancel safety
    /// Dropping the future ends the request, if there is one.
    ///
    /// # Errors
    /// [`Error::UnknownKind`] if the server does not serve the kind; [`kinformer::Error::Discovery`] if the request fails.
    pub async fn dynamic(&self, kind: &GroupVersionKind) -> Result<Kind<DynamicObject>, Error> {
        let (resource, scope) = self.mapper.resource(kind).await?;
        let of = resource.clone();
        Ok(Kind::new(&self.shared, move |factory| factory.dynamic(of.clone(), scope.clone()), resource))
    }

    /// As [`Self::dynamic`], with only the metadata of the objects.
    ///
    /// # Cancel safety
    /// As [`Self::dynamic`].
    ///
    /// # Errors
    /// As [`Self::dynamic`].
    pub async fn dynamic_metadata(
        &self,
        kind: &GroupVersionKind,
    ) -> Result<Kind<PartialObjectMeta<DynamicObject>>, Error> {
        let (resource, scope) = self.mapper.resource(kind).await?;
        let of = resource.clone();
        Ok(Kind::new(
            &self.shared,
            move |factory| factory.dynamic_metadata(of.clone(), scope.clone()),
            resource,
        ))
    }

    /// Returns an object by its key: [`Kind::get`] of [`Self::kind`].
    ///
    /// # Cancel safety
    /// As [`Kind::get`].
    ///
    /// # Errors
    /// As [`Kind::get`].
    pub async fn get<'k, K: Resource<DynamicType = (), Scope: 'static>>(
        &self,
        key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>,
    ) -> Result<Packed<K>, Error> {
        self.kind::<K>().get(key).await
    }

    /// Returns objects, ordered by key: [`Kind::list`] of [`Self::kind`].
    ///
    /// # Cancel safety
    /// As [`Kind::list`].
    ///
    /// # Errors
    /// As [`Kind::list`].
    pub async fn list<K: Resource<DynamicType = (), Scope: 'static>>(
        &self,
        options: &ListOptions,
    ) -> Result<Vec<Packed<K>>, Error> {
        self.kind::<K>().list(options).await
    }
}

/// Follows controller-runtime 0.25.
const SYNC_PERIOD: Duration = Duration::from_secs(10 * 3600);

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("is_started", &self.shared.is_started()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBuilder").field("factory", &self.factory).finish_non_exhaustive()
    }
}
