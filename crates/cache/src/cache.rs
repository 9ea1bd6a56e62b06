//! The cache, and its options.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kinformer::{KeyError, KeyRef, Packed, SharedInformerFactory, SharedInformerFactoryBuilder, scope_of};
use kube_client::Client;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::gvk::{GroupVersionKind, GroupVersionResource};
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, Resource};

use crate::error::Error;
use crate::kind::Kind;
use crate::list::Query;
use crate::mapper::RestMapper;
use crate::shared::{Settings, Shared, resource_name};
use crate::writes::Kept;
use crate::writes::recorder::Recorder;

/// A cache of Kubernetes objects. Cheap to clone; all clones are handles to the same cache.
///
/// A read of a kind starts its informer if it is the first, waits until the informer has synced, and is answered from
/// memory.
///
/// ```
/// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kinformer_cache::{Cache, Query};
///
/// let cache = Cache::builder(client).build().await?;
/// cache.start()?;
/// let web = Query::new().namespace("default").labels("app=web".parse()?);
/// for pod in cache.list::<Pod>(&web).await? { // the first read starts the informer of pods
///     let Some(node) = pod.decode()?.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
///     let node = cache.get_opt::<Node>(&node).await?;
///     let zone = node.as_ref().and_then(|node| node.label("topology.kubernetes.io/zone"));
///     println!("{} runs in {zone:?}", pod.name());
/// }
/// # Ok(())
/// # }
/// ```
///
/// Follows controller-runtime 0.25 (`cache.Cache`).
#[derive(Clone)]
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
    /// The resources with namespaces of their own that the server did not serve when the cache was built.
    unknown_scopes: Arc<[GroupVersionResource]>,
}

/// Builds a [`Cache`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
/// # let client = kinformer::client(server.config()?)?;
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::{Pod, Secret, Service};
/// use kinformer_cache::{Cache, Error, Query};
///
/// let cache = Cache::builder(client)
///     .sync_timeout(Duration::from_secs(30))
///     .uncached::<Secret>() // read from the server
///     .fail_on_missing_informer() // a kind that was not requested before is a bug of this program
///     .build()
///     .await?;
/// cache.kind::<Pod>().informer()?;
/// cache.start()?;
/// assert!(cache.list::<Pod>(&Query::new()).await?.is_empty());
/// assert!(cache.list::<Secret>(&Query::new()).await?.is_empty());
/// assert!(matches!(cache.list::<Service>(&Query::new()).await, Err(Error::NotCached { .. })));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "CacheOptions")]
#[must_use = "nothing is built yet"]
pub struct CacheBuilder {
    client: Client,
    factory: SharedInformerFactoryBuilder,
    settings: Settings,
}

impl CacheBuilder {
    /// Sets the options of the informers: namespaces, selectors, transforms, and those of single kinds.
    ///
    /// ```
    /// # use kinformer_cache::Cache;
    /// # async fn example(client: kube_client::Client) -> Result<(), kinformer_cache::Error> {
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    ///
    /// let builder = Cache::builder(client).options(|informers| {
    ///     informers
    ///         .namespaces(["team-a", "team-b"])
    ///         .of_kind::<Secret>(|secrets| secrets.labels("app=web"))
    ///         .of_kind::<ConfigMap>(|maps| maps.namespaces(["kube-system"]))
    /// });
    /// let cache = builder.build().await?;
    /// # _ = cache;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Managed fields are never stored (`TransformStripManagedFields` of controller-runtime);
    /// [`default_drop_fields`](SharedInformerFactoryBuilder::default_drop_fields) removes other fields of all objects. A
    /// namespace without a selector has that of its resource, else that of the same namespace of all resources, else that
    /// of all.
    ///
    /// Namespaces of all resources have no effect on those that are not in namespaces. Namespaces of such a resource itself
    /// are an error of [`Self::build`].
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
        self.settings.sync_timeout = timeout;
        self
    }

    /// Sets how long a read waits for a write of the cache's [client](Cache::client). The default is 30 s. A wait for a version
    /// that only a bookmark may bring is 90 s at least.
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.settings.write_timeout = timeout;
        self
    }

    /// Sets how many writes that an informer may not have are kept by key, and how long; reads of any key wait for the others. For
    /// tests, which would not reach the defaults.
    #[cfg(feature = "test-util")]
    #[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
    pub fn kept_writes(mut self, writes: usize, time: Duration) -> Self {
        self.settings.kept = Kept { writes, time, ..self.settings.kept };
        self
    }

    /// Makes reads fail with [`Error::NotCached`] instead of starting the informer of a kind.
    ///
    /// Follows controller-runtime 0.25 (`ReaderFailOnMissingInformer`).
    #[doc(alias = "ReaderFailOnMissingInformer")]
    pub fn fail_on_missing_informer(mut self) -> Self {
        self.settings.starts_on_read = false;
        self
    }

    /// Makes the reads of a kind be answered by the server instead of by an informer, as [`Kind::live`]: for kinds that
    /// should not be in memory, such as secrets, and that are read rarely. Informers of the kind can still be requested.
    ///
    /// Follows controller-runtime 0.25 (`CacheOptions.DisableFor`).
    #[doc(alias = "DisableFor")]
    pub fn uncached<K: Resource<DynamicType = ()>>(self) -> Self {
        self.uncached_resource(&ApiResource::erase::<K>(&()))
    }

    /// As [`Self::uncached`], for a kind without a type.
    #[doc(alias = "DisableFor")]
    pub fn uncached_resource(mut self, resource: &ApiResource) -> Self {
        self.settings.live.push(resource_name(&resource.group, &resource.plural));
        self
    }

    /// Builds the cache. Sends no request, unless namespaces were set for a resource without a type
    /// ([`resource`](SharedInformerFactoryBuilder::resource)): its scope is found by discovery. If the server does not serve
    /// it yet, its scope is checked when it is requested by [`Cache::dynamic`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the request, if there is one.
    ///
    /// # Errors
    /// [`Error::ClusterScoped`] if namespaces were set for a resource that is not in namespaces;
    /// [`kinformer::Error::Discovery`] if a request fails.
    pub async fn build(self) -> Result<Cache, Error> {
        let Self { client, factory, settings } = self;
        let mapper = RestMapper::new(client.clone());
        let mut unknown_scopes = Vec::new();
        for (resource, scope) in factory.resources_with_namespaces() {
            let scope = match scope {
                Some(scope) => Some(scope),
                None => mapper.scope(&resource).await?,
            };
            match scope {
                Some(Scope::Cluster) => return Err(cluster_scoped(&resource.group, &resource.resource)),
                Some(Scope::Namespaced) => {}
                None => unknown_scopes.push(resource),
            }
        }
        let shared = Arc::new_cyclic(|of_cache: &Weak<Shared>| {
            let of_cache = of_cache.clone();
            let mapper = mapper.on_served(move |is_served| {
                if let Some(shared) = of_cache.upgrade() {
                    shared.factory.retry_not_served(is_served);
                }
            });
            Shared::new(client, factory.build(), mapper, settings)
        });
        Ok(Cache { shared, unknown_scopes: unknown_scopes.into() })
    }
}

impl Cache {
    /// Returns a builder of a cache with this client.
    ///
    /// The informers of the cache deliver all objects again after 10 hours plus or minus 10 %, as those of
    /// controller-runtime: see
    /// [`default_resync`](kinformer::SharedInformerFactoryBuilder::default_resync) and
    /// [`resync_jitter`](kinformer::SharedInformerFactoryBuilder::resync_jitter).
    #[doc(alias = "HTTPClient")]
    pub fn builder(client: Client) -> CacheBuilder {
        let factory = SharedInformerFactory::builder(client.clone())
            .default_resync(SYNC_PERIOD)
            .resync_jitter(SYNC_JITTER);
        let settings = Settings {
            sync_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(30),
            starts_on_read: true,
            live: Vec::new(),
            kept: Kept::default(),
        };
        CacheBuilder { client, factory, settings }
    }

    /// Starts the requested informers, and allows reads, as [`SharedInformerFactory::start`] of its
    /// [factory](Self::factory) does, which a manager calls. May be called several times.
    ///
    /// # Errors
    /// [`kinformer::Error::NoRuntime`] outside a tokio runtime.
    pub fn start(&self) -> Result<(), Error> {
        Ok(self.shared.factory.start()?)
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
        let deadline = tokio::time::Instant::now() + self.shared.settings.sync_timeout;
        Ok(self.shared.factory.wait_for_cache_sync().until(deadline).await.into_result()?)
    }

    /// Returns a client whose writes this cache knows: each later read of a written object waits until the cache reflects
    /// the write, at most for the [timeout](CacheBuilder::write_timeout).
    ///
    /// ```
    /// # use kinformer_cache::Cache;
    /// # async fn example(cache: Cache) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube_client::Api;
    ///
    /// let maps: Api<ConfigMap> = Api::namespaced(cache.client(), "default");
    /// # let map = ConfigMap::default();
    /// maps.create(&Default::default(), &map).await?;
    /// let map = cache.get::<ConfigMap>("default/settings").await?; // waits for it
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// What a read waits for depends on the response of the write: the version of the returned object; after a deletion,
    /// until the object with its UID is gone, or is being deleted if it has finalizers; otherwise, as after an eviction, the
    /// read asks the server once, by a list of the object. A get waits for its key. A list waits for the writes to its
    /// namespaces whose objects, written or cached, have its labels. Neither waits for a write outside the namespaces and
    /// selectors of the informer, for a dry run, or for a write that returned an error.
    ///
    /// An update of a cached object without the fields that the cache has dropped, or that a transform has removed, is refused
    /// with [`IncompleteUpdate`]. If the resource has a transform, the server is asked for the object before each update of a
    /// cached state.
    ///
    /// The response of a write is read to its end before it is returned.
    ///
    /// [`IncompleteUpdate`]: crate::IncompleteUpdate
    pub fn client(&self) -> Client {
        Recorder::wrap(&self.shared.client, &self.shared)
    }

    /// The number of writes of the [client](Self::client) for which a read would look at the cache's state: those that some
    /// informer may not have yet.
    pub fn pending_writes(&self) -> usize {
        self.shared.writes.len()
    }

    /// The factory of the informers of this cache, for handlers, listers and controllers.
    ///
    /// ```
    /// # use kinformer_cache::Cache;
    /// # async fn example(cache: Cache) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kinformer_controller::{Action, Controller, Manager};
    ///
    /// // A controller and the reads of its reconciliations have the same informers.
    /// let maps = Controller::of(cache.factory()).reconciles::<ConfigMap>();
    /// let reads = cache.clone();
    /// let maps = maps.build(move |request| {
    ///     let cache = reads.clone();
    ///     async move {
    ///         println!("{:?}", cache.get_opt::<ConfigMap>(&request.key).await?);
    ///         Ok(Action::none())
    ///     }
    /// });
    /// Manager::new().factory(cache.factory()).add(maps)?.run_until_signal().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn factory(&self) -> &SharedInformerFactory {
        &self.shared.factory
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The resources of the kinds that the server serves.
    ///
    /// An informer whose resource is not served requests it at most once a minute, and at once when this mapper finds the
    /// resource in a response of discovery, or is [reset](RestMapper::reset).
    #[doc(alias = "RESTMapper")]
    pub fn mapper(&self) -> &RestMapper {
        &self.shared.mapper
    }

    /// Returns the objects of a kind.
    pub fn kind<K: Resource<DynamicType = (), Scope: 'static>>(&self) -> Kind<K> {
        Kind::new(
            &self.shared,
            |factory| factory.informer::<K>(),
            ApiResource::erase::<K>(&()),
            (scope_of::<K>() == Scope::Namespaced, false),
        )
    }

    /// Returns the metadata of the objects of a kind. If nothing else has requested the kind, only metadata is fetched. Reads
    /// of whole objects have a second informer then; for a kind that is read in both ways, set
    /// [`whole_objects`](kinformer::ResourceOptions::whole_objects) in its [options](CacheBuilder::options).
    ///
    /// ```
    /// # async fn example(cache: &kinformer_cache::Cache) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// // Whether a secret exists, without its data in the memory of this process.
    /// let exists = cache.metadata::<Secret>().get_opt("default/token").await?.is_some();
    /// println!("the token exists: {exists}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn metadata<K: Resource<DynamicType = (), Scope: 'static>>(&self) -> Kind<PartialObjectMeta<K>> {
        Kind::new(
            &self.shared,
            |factory| factory.metadata::<K>(),
            ApiResource::erase::<K>(&()),
            (scope_of::<K>() == Scope::Namespaced, true),
        )
    }

    /// Returns the objects of a kind without a type. Finds its resource on the server.
    ///
    /// ```
    /// # async fn example(cache: &kinformer_cache::Cache) -> Result<(), Box<dyn std::error::Error>> {
    /// use kinformer::kube_core::gvk::GroupVersionKind;
    ///
    /// // The kind is a text of the configuration.
    /// let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    /// let widget = cache.dynamic(&kind).await?.get("default/one").await?;
    /// println!("{}", widget.decode()?.data["spec"]["size"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the request, if there is one.
    ///
    /// # Errors
    /// [`Error::UnknownKind`] if the server does not serve the kind; [`kinformer::Error::Discovery`] if the request fails.
    /// [`Error::ClusterScoped`] as [`CacheBuilder::build`], if the server did not serve the kind then.
    pub async fn dynamic(&self, kind: &GroupVersionKind) -> Result<Kind<DynamicObject>, Error> {
        let (resource, scope) = self.resource(kind).await?;
        let (of, is_namespaced) = (resource.clone(), scope == Scope::Namespaced);
        let request = move |factory: &SharedInformerFactory| factory.dynamic(of.clone(), scope.clone());
        Ok(Kind::new(&self.shared, request, resource, (is_namespaced, false)))
    }

    /// As [`Self::dynamic`], with only the metadata of the objects. If only metadata is fetched, their type is
    /// `meta.k8s.io/v1 PartialObjectMetadata`, as the server sends them; see [`Self::metadata`] and
    /// [`PackedObject::is_metadata_only`](kinformer::PackedObject::is_metadata_only).
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
        let (resource, scope) = self.resource(kind).await?;
        let (of, is_namespaced) = (resource.clone(), scope == Scope::Namespaced);
        let request =
            move |factory: &SharedInformerFactory| factory.dynamic_metadata(of.clone(), scope.clone());
        Ok(Kind::new(&self.shared, request, resource, (is_namespaced, true)))
    }

    /// Finds the resource of a kind, and checks the options of its namespaces.
    async fn resource(&self, kind: &GroupVersionKind) -> Result<(ApiResource, Scope), Error> {
        let (resource, scope) = self.mapper().resource(kind).await?;
        let is_same = |one: &GroupVersionResource| {
            one.group == resource.group && one.version == resource.version && one.resource == resource.plural
        };
        if scope == Scope::Cluster && self.unknown_scopes.iter().any(is_same) {
            return Err(cluster_scoped(&resource.group, &resource.plural));
        }
        Ok((resource, scope))
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

    /// As [`Self::get`], for an object that may not exist: [`Kind::get_opt`] of [`Self::kind`].
    ///
    /// # Cancel safety
    /// As [`Kind::get`].
    ///
    /// # Errors
    /// As [`Kind::get_opt`].
    pub async fn get_opt<'k, K: Resource<DynamicType = (), Scope: 'static>>(
        &self,
        key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>,
    ) -> Result<Option<Packed<K>>, Error> {
        self.kind::<K>().get_opt(key).await
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
        query: &Query,
    ) -> Result<Vec<Packed<K>>, Error> {
        self.kind::<K>().list(query).await
    }
}

fn cluster_scoped(group: &str, plural: &str) -> Error {
    Error::ClusterScoped { resource: resource_name(group, plural) }
}

/// Follows controller-runtime 0.25.
const SYNC_PERIOD: Duration = Duration::from_secs(10 * 3600);
const SYNC_JITTER: f64 = 0.1;

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("is_started", &self.shared.factory.is_started()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBuilder").field("factory", &self.factory).finish_non_exhaustive()
    }
}
