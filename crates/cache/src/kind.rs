//! The cached objects of one kind.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use kinformer::{
    BoxError, IndexValues, Informer, KeyError, KeyRef, ObjectKey, Packed, PackedRef, Projection,
    SharedInformerFactory,
};
use kube_core::discovery::ApiResource;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::error::Error;
use crate::list::{self, Query};
use crate::live::Live;
use crate::shared::{Shared, resource_name};
use crate::writes::reads::{Read, caught_up};

type Request<K> = dyn Fn(&SharedInformerFactory) -> Informer<K> + Send + Sync;

/// The cached objects of one kind. Clones are independent handles to the same objects; keep one for many reads.
///
/// The first [read](Self::get), and [`Self::informer`], request the informer of the resource, which all users of the cache
/// share.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_cache::{Cache, Error, Kind};
///
/// struct Settings {
///     maps: Kind<ConfigMap>,
/// }
///
/// impl Settings {
///     fn new(cache: &Cache) -> Self {
///         Self { maps: cache.kind() } // the informer is requested by the first read
///     }
///
///     async fn are_locked(&self, namespace: &str) -> Result<bool, Error> {
///         let settings = self.maps.get_opt((namespace, "settings")).await?;
///         Ok(settings.is_some_and(|settings| settings.label("locked").is_some()))
///     }
/// }
/// ```
pub struct Kind<K> {
    shared: Arc<Shared>,
    resource: ApiResource,
    request: Arc<Request<K>>,
    is_namespaced: bool,
    metadata_only: bool,
    reads: Reads,
    /// The informer, from the first use on.
    informer: RwLock<Option<Informer<K>>>,
}

/// Where reads are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// From memory, with the writes of the cache's client.
    OwnWrites,
    /// From memory.
    Cached,
    /// By the server.
    Live,
}

impl<K> Kind<K> {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        request: impl Fn(&SharedInformerFactory) -> Informer<K> + Send + Sync + 'static,
        resource: ApiResource,
        (is_namespaced, metadata_only): (bool, bool),
    ) -> Self {
        let reads = if shared.is_live(&resource) { Reads::Live } else { Reads::OwnWrites };
        Self {
            shared: shared.clone(),
            resource,
            request: Arc::new(request),
            is_namespaced,
            metadata_only,
            reads,
            informer: RwLock::new(None),
        }
    }

    /// The name of the resource, for errors.
    fn name(&self) -> Arc<str> {
        resource_name(&self.resource.group, &self.resource.plural)
    }

    /// Returns the same objects, for reads that do not wait for the writes of the cache's [client](crate::Cache::client).
    ///
    /// ```
    /// # async fn example(cache: &kinformer_cache::Cache) -> Result<(), kinformer_cache::Error> {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer_cache::Query;
    ///
    /// // A page of numbers need not wait for what this process has just written.
    /// let pods = cache.kind::<Pod>().allow_stale();
    /// println!("{} pods", pods.list(&Query::new()).await?.len());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "DisableReadYourWritesConsistency")]
    pub fn allow_stale(mut self) -> Self {
        self.reads = Reads::Cached;
        self
    }

    /// Returns the same objects, for reads that are answered by the server: the newest state, by one request for each get
    /// and one for each 500 objects of a list. Neither the namespaces nor the selectors of the cache restrict them, and a
    /// list by a field needs no index, but a field that the server can select by. The cache need not be started.
    ///
    /// The definition of a custom resource may return with another scope. Reads by older handles have its objects: by a list
    /// at once; by a get that finds nothing, after discovery, which is requested at most once in 10 s.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
    /// #     "metadata": {"name": "settings", "namespace": "default"}}))?;
    /// # let cache = kinformer_cache::Cache::builder(kinformer::client(server.config()?)?).build().await?;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// // The settings of the program, once, before it starts: without an informer.
    /// let settings = cache.kind::<ConfigMap>().live().get("default/settings").await?;
    /// assert!(settings.decode()?.data.is_none() && cache.factory().informers().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`GetAPIReader`).
    pub fn live(mut self) -> Self {
        self.reads = Reads::Live;
        self
    }

    /// Whether a read may have to wait for writes.
    fn may_wait(&self) -> bool {
        self.reads == Reads::OwnWrites && !self.shared.writes.is_empty()
    }

    /// The objects on the server, if reads are answered by it.
    fn as_live(&self) -> Option<Live<'_>> {
        (self.reads == Reads::Live).then_some(Live {
            client: &self.shared.client,
            mapper: &self.shared.mapper,
            resource: &self.resource,
            was_namespaced: self.is_namespaced,
            metadata_only: self.metadata_only,
        })
    }

    /// Returns the object with this key. Waits until the informer has synced and reflects the writes of the cache's
    /// [client](crate::Cache::client) to this key. O(1) then.
    ///
    /// The namespace of the key has no effect on kinds that are not in namespaces.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the informer continues.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such object, [`Error::UnknownNamespace`] if the cache does not have its namespace,
    /// [`Error::WriteNotSeen`] if a write was not seen within the timeout, and the errors of [`Self::synced_informer`].
    pub async fn get<'k>(
        &self,
        key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>,
    ) -> Result<Packed<K>, Error> {
        let key = key.try_into().map_err(|error| kinformer::Error::from(error.into()))?;
        if let Some(live) = self.as_live() {
            return Ok(live.get(key).await?.cast());
        }
        let informer = self.synced_informer().await?;
        if let Some(namespace) = key.namespace()
            && !informer.selection().has_namespace(namespace)
        {
            return Err(Error::UnknownNamespace { resource: self.name(), namespace: namespace.into() });
        }
        if !self.may_wait()
            && let Ok(found) = informer.lister().get(key)
        {
            return Ok(found);
        }
        match self.get_from(&informer, key).await {
            // Objects that are not in namespaces have no namespace in their keys.
            Err(Error::NotFound { .. })
                if key.namespace().is_some() && !informer.selection().is_namespaced() =>
            {
                self.get_from(&informer, KeyRef::named(key.name())).await
            }
            Err(Error::NotFound { .. }) if !self.is_listed(&informer, key.namespace()) => {
                self.listed(&informer, key.namespace()).await?;
                self.get_from(&informer, key).await
            }
            found => found,
        }
    }

    /// Whether the informer has listed a namespace, which may have come into its scope.
    fn is_listed(&self, informer: &Informer<K>, namespace: Option<&str>) -> bool {
        namespace.is_none_or(|namespace| informer.wait_for_namespace(namespace).at_deadline().is_ok())
    }

    /// Waits until the informer has listed a namespace.
    async fn listed(&self, informer: &Informer<K>, namespace: Option<&str>) -> Result<(), Error> {
        let Some(namespace) = namespace else { return Ok(()) };
        let timeout = self.shared.settings.sync_timeout;
        let listed = informer.wait_for_namespace(namespace).until(Instant::now() + timeout).await;
        listed.map_err(|source| Error::NotSynced { timeout, source })
    }

    /// As [`Self::get`], for an object that may not exist.
    ///
    /// # Cancel safety
    /// As [`Self::get`].
    ///
    /// # Errors
    /// Those of [`Self::get`] other than [`Error::NotFound`].
    #[doc(alias = "IgnoreNotFound")]
    pub async fn get_opt<'k>(
        &self,
        key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>,
    ) -> Result<Option<Packed<K>>, Error> {
        match self.get(key).await {
            Err(Error::NotFound { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn get_from(&self, informer: &Informer<K>, key: KeyRef<'_>) -> Result<Packed<K>, Error> {
        if self.may_wait() {
            let key = ObjectKey::try_from(key).map_err(kinformer::Error::from)?;
            let snapshot = caught_up(&self.shared, &self.resource, &informer.cast(), Read::Get(&key)).await?;
            let found = snapshot.get(&key).map(|object| Packed::new(object.object().clone()));
            return found.ok_or_else(|| Error::NotFound { resource: self.name(), key: key.to_string() });
        }
        informer.lister().get(key).map_err(|error| match error {
            kinformer::Error::NotFound { resource, key } => Error::NotFound { resource, key },
            error => error.into(),
        })
    }

    /// Returns the selected objects of one state of the cache, ordered by namespace and name. Waits until the informer has
    /// synced and reflects the writes of the cache's [client](crate::Cache::client) that the list can see. O(n log n) then,
    /// for n objects that match the most selective of the namespace and the fields, and O(1) for each write of the client that
    /// some informer may not have yet.
    ///
    /// # Cancel safety
    /// As [`Self::get`].
    ///
    /// # Errors
    /// [`Error::NoFieldIndex`] if a field has no index, [`Error::UnknownNamespace`] if the cache does not have the namespace,
    /// [`Error::WriteNotSeen`] if a write was not seen within the timeout, and the errors of [`Self::synced_informer`].
    pub async fn list(&self, query: &Query) -> Result<Vec<Packed<K>>, Error> {
        if let Some(live) = self.as_live() {
            return Ok(live.list(query).await?.into_iter().map(Packed::cast).collect());
        }
        let informer = self.synced_informer().await?;
        self.listed(&informer, query.selected_namespace()).await?;
        let informer = informer.cast();
        let snapshot = match self.may_wait() {
            true => caught_up(&self.shared, &self.resource, &informer, Read::List(query)).await?,
            false => informer.snapshot()?,
        };
        let objects = list::list(&informer, &snapshot, query)?;
        Ok(objects.into_iter().map(Packed::cast).collect())
    }

    /// Lists as [`Self::list`], in pages of this many objects. All pages are of one state of the cache, however long their
    /// reader takes, and take one pointer for each object.
    ///
    /// There is no token by which another list continues: controller-runtime 0.25 refuses `Continue` as well.
    ///
    /// ```
    /// # async fn example(cache: &kinformer_cache::Cache) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::num::NonZeroUsize;
    ///
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer_cache::Query;
    ///
    /// let size = NonZeroUsize::new(500).ok_or("zero")?;
    /// for page in cache.kind::<Pod>().pages(&Query::new().namespace("default"), size).await? {
    ///     println!("{} pods", page.len()); // a slow reader sees one state of the cache
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As [`Self::list`].
    ///
    /// # Errors
    /// As [`Self::list`].
    pub async fn pages(&self, query: &Query, size: NonZeroUsize) -> Result<Pages<K>, Error> {
        Ok(Pages { objects: self.list(query).await?.into_iter(), size })
    }

    /// Returns the informer without waiting for its sync. If the cache is started, the informer is started.
    ///
    /// # Errors
    /// [`kinformer::Error::NoRuntime`] outside a tokio runtime.
    #[doc(alias("BlockUntilSynced", "InformerGetOption", "InformerGetOptions"))]
    pub fn informer(&self) -> Result<Informer<K>, Error> {
        let known = self.informer.read().clone();
        let factory = &self.shared.factory;
        if let Some(known) = known
            && (!known.status().is_stopped() || factory.is_shut_down())
        {
            return Ok(known);
        }
        let mut informer = self.shared_informer().unwrap_or_else(|| (self.request)(factory));
        _ = informer.id(); // the first call binds it: the factory has the informer from now on
        if self.metadata_only {
            informer = self.shared.share_metadata(&self.resource, informer.cast()).cast();
        }
        *self.informer.write() = Some(informer.clone());
        self.shared.note_informers(&self.resource);
        if factory.is_started() {
            factory.start()?;
        }
        Ok(informer)
    }

    /// The informer that other reads of the metadata use. It stays the same when a second informer is made for the whole
    /// objects, so that no read returns an older state.
    fn shared_informer(&self) -> Option<Informer<K>> {
        let informer = self.metadata_only.then(|| self.shared.metadata_informer(&self.resource))?;
        informer.map(|informer| informer.cast())
    }

    /// Whether there is an informer from which this can be read.
    fn has_informer(&self) -> bool {
        let projection = if self.metadata_only { Projection::Metadata } else { Projection::Whole };
        self.shared.factory.has_informer(&self.resource, projection)
    }

    /// Returns the informer when it has synced.
    ///
    /// # Cancel safety
    /// As [`Self::get`].
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the cache was not started. [`Error::NotCached`] if reads do not start informers and none was
    /// requested. [`Error::NotSynced`] if the informer has not synced within the timeout of the cache, with its last error.
    #[doc(alias = "BlockUntilSynced")]
    pub async fn synced_informer(&self) -> Result<Informer<K>, Error> {
        if !self.shared.factory.is_started() {
            return Err(Error::NotStarted { resource: self.name() });
        }
        if !self.shared.settings.starts_on_read && !self.has_informer() {
            return Err(Error::NotCached { resource: self.name() });
        }
        let informer = self.informer()?;
        if !informer.has_synced() {
            let timeout = self.shared.settings.sync_timeout;
            let synced = informer.wait_for_sync().until(Instant::now() + timeout).await;
            synced.map_err(|source| Error::NotSynced { timeout, source })?;
        }
        Ok(informer)
    }

    /// Adds an index of a field, by which [`Query::field`] and [`Self::by_index`] select objects. Requests the informer;
    /// does not wait for it. The same as [`Informer::index_by_field`] with the field as the name of the index.
    ///
    /// ```
    /// # fn example(cache: &kinformer_cache::Cache) -> Result<(), kinformer_cache::Error> {
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// cache.kind::<Pod>().index_by_field("spec.nodeName", &["spec", "nodeName"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An error that names the index if the field has one already.
    #[doc(alias = "FieldIndexer")]
    pub fn index_by_field(&self, field: &str, path: &[&str]) -> Result<(), Error> {
        Ok(self.informer()?.index_by_field(field, path)?)
    }

    /// As [`Self::index_by_field`], by the values that a function returns for an object; see
    /// [`Informer::index`](kinformer::Informer::index). The field may have any name.
    ///
    /// ```
    /// # fn example(cache: &kinformer_cache::Cache) -> Result<(), kinformer_cache::Error> {
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// cache.kind::<Pod>().index("images", |pod, values| {
    ///     let pod = pod.decode()?;
    ///     for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
    ///         values.push(container.image.as_deref().unwrap_or_default());
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::index_by_field`].
    #[doc(alias = "FieldIndexer")]
    pub fn index(
        &self,
        field: &str,
        function: impl Fn(PackedRef<'_, K>, &mut IndexValues) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Result<(), Error>
    where
        K: 'static,
    {
        Ok(self.informer()?.index(field, function)?)
    }

    /// Returns the stored objects with this value of an indexed field, in no particular order. Waits for nothing, so that map
    /// functions of controllers and other handlers can call it: neither for the sync of the informer, before which objects
    /// are missing, nor for the writes of the cache's client.
    ///
    /// ```
    /// # use kinformer_cache::{Cache, Error};
    /// # fn example(cache: &Cache) -> Result<(), Error> {
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = cache.kind::<Pod>();
    /// pods.index_by_field("spec.nodeName", &["spec", "nodeName"])?;
    /// let keys = move |node: &str| -> Result<Vec<_>, Error> {
    ///     Ok(pods.by_index("spec.nodeName", node)?.iter().map(|pod| pod.key().to_string()).collect())
    /// };
    /// # _ = keys;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoFieldIndex`] if the field has no index; [`kinformer::Error::NotStarted`] if the cache was not started.
    ///
    /// Follows client-go 0.37 (`Indexer.ByIndex`).
    pub fn by_index(&self, field: &str, value: &str) -> Result<Vec<Packed<K>>, Error> {
        let snapshot = self.informer()?.snapshot()?;
        let found = snapshot.by_index(field, value).map_err(|error| match error {
            kinformer::Error::Index { .. } => {
                Error::NoFieldIndex { resource: self.name(), field: field.into() }
            }
            error => error.into(),
        })?;
        Ok(found.into_iter().map(PackedRef::into_owned).collect())
    }

    /// Stops the informer that this reads and removes it, for all its users. Waits for it end with an error. The next
    /// read requests a new one. Returns `false` if there was none.
    ///
    /// # Cancel safety
    /// As [`Informer::remove`].
    pub async fn remove_informer(&self) -> bool {
        let known = self.informer.write().take();
        let informer = match known {
            Some(informer) => informer,
            None if self.has_informer() => {
                self.shared_informer().unwrap_or_else(|| (self.request)(&self.shared.factory))
            }
            None => return false,
        };
        if self.metadata_only {
            self.shared.forget_metadata(&self.resource);
        }
        informer.remove().await
    }
}

impl<K> Clone for Kind<K> {
    fn clone(&self) -> Self {
        let informer = RwLock::new(self.informer.read().clone());
        Self {
            shared: self.shared.clone(),
            resource: self.resource.clone(),
            request: self.request.clone(),
            is_namespaced: self.is_namespaced,
            metadata_only: self.metadata_only,
            reads: self.reads,
            informer,
        }
    }
}

impl<K> fmt::Debug for Kind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name()).finish()
    }
}

/// The pages of a [list](Kind::pages).
#[must_use = "pages are read by their iterator"]
pub struct Pages<K> {
    objects: std::vec::IntoIter<Packed<K>>,
    size: NonZeroUsize,
}

impl<K> Pages<K> {
    /// The number of objects that are left.
    pub fn objects_left(&self) -> usize {
        self.objects.len()
    }
}

impl<K> Iterator for Pages<K> {
    type Item = Vec<Packed<K>>;

    fn next(&mut self) -> Option<Vec<Packed<K>>> {
        let page: Vec<_> = self.objects.by_ref().take(self.size.get()).collect();
        (!page.is_empty()).then_some(page)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let pages = self.objects.len().div_ceil(self.size.get());
        (pages, Some(pages))
    }
}

impl<K> ExactSizeIterator for Pages<K> {}

impl<K> fmt::Debug for Pages<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("objects_left", &self.objects.len()).field("size", &self.size).finish()
    }
}
