//! The lister-watcher.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::StreamExt;
use http::{Request, header};
use kinformer_core::{Object, ResourceVersion};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, ProbeBudget, SourceError, WatchListSupport, WatchOptions, WatchStream,
};
use kinformer_wire::{
    DecodedCache, Encoding, FieldPath, FromWire, ListDecoder, ListEnvelope, ManagedFields, ObjectDecoder,
    PackedObject, WatchDecoder, is_built_in,
};
use kube_client::Client;
use kube_client::client::Body;
use kube_core::discovery::ApiResource;
use kube_core::{GroupVersionKind, Resource};
use serde::de::DeserializeOwned;

use crate::answer::{self, failure};
use crate::client::span;
use crate::decode::Named;
use crate::discovery::discovery_client;
use crate::filter::{Filter, NamespaceFilter};
use crate::selector::LabelSelector;
use crate::shard::Shard;
use crate::watch_events::WatchEvents;
use crate::{Error, KubeObject, Params, list_kind, path, scope};

/// The default idle timeout.
const IDLE: Duration = Duration::from_secs(30);

/// Lists and watches one kind of objects on a Kubernetes API server.
///
/// The objects of a `KubeListerWatcher<K>` are [`KubeObject<K>`], decoded when they arrive, for a
/// `SharedIndexInformer<KubeObject<K>>`. The objects of [`packed`](Self::packed) are [`PackedObject`].
///
/// Clones share the client. Follows client-go 0.37 (`ListWatch`), except that an object that cannot be decoded ends
/// neither the list nor the watch.
#[doc(alias = "ListWatch")]
pub struct KubeListerWatcher<K> {
    client: Client,
    resource: Target,
    namespace: Option<String>,
    /// Whether objects in namespaces are refused.
    cluster_scoped: bool,
    selectors: Params,
    filter: Filter,
    at_least: Option<ResourceVersion>,
    /// Whether objects arrive with their labels.
    has_labels: bool,
    tweak: Option<Arc<Tweak>>,
    managed_fields: ManagedFields,
    /// One decoder for each encoding of the kind.
    decoders: Vec<ObjectDecoder>,
    preferred: Encoding,
    /// One more than the index in [`Encoding::ALL`] of the encoding of the last response to any clone; 0 before the
    /// first.
    answered: Arc<AtomicUsize>,
    idle: Duration,
    support: WatchListSupport,
    probes: ProbeBudget,
    objects: PhantomData<fn() -> K>,
}

/// The media type parameters that request a list of metadata.
const METADATA_LIST: &str = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Asks the server to leave out the managed fields (KEP-5958, Kubernetes 1.38). Earlier servers ignore it.
const WITHOUT_MANAGED_FIELDS: &str = ";drop=metadata.managedFields";

type Tweak = dyn Fn(&mut Params) + Send + Sync;

/// The requested resource.
#[derive(Clone)]
struct Target {
    resource: ApiResource,
    metadata_only: bool,
    named: Named,
}

impl<K: Resource<DynamicType = ()>> KubeListerWatcher<K> {
    /// Creates a lister-watcher of all objects of a type with a static kind.
    #[doc(alias = "NewListWatchFromClient")]
    pub fn new(client: Client) -> Self {
        Self::of(client, ApiResource::erase::<K>(&()), K::metadata_api(), false)
    }
}

impl<K: Resource<DynamicType = ApiResource>> KubeListerWatcher<K> {
    /// Creates a lister-watcher of all objects of a resource that is described by the caller, as
    /// [`DynamicObject`](kube_core::DynamicObject) or, for metadata only, as `PartialObjectMeta<DynamicObject>`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kube_core::{ApiResource, DynamicObject, GroupVersionKind};
    /// # use kinformer_kube::{KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// let pod = GroupVersionKind::gvk("", "v1", "Pod");
    /// let pods = KubeListerWatcher::<DynamicObject>::dynamic(client, ApiResource::from_gvk(&pod));
    /// let list = pods.list(ListOptions::default()).await?;
    /// assert_eq!(list.objects.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn dynamic(client: Client, resource: ApiResource) -> Self {
        Self::of(client, resource, K::metadata_api(), true)
    }

    /// As [`Self::dynamic`], for a kind that is discovered on the server, by a [`discovery_client`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the discovery request; there is no other effect.
    ///
    /// # Errors
    /// [`Error::Discovery`] if the server does not serve the kind, or the request fails. [`Error::PathSegment`] if its
    /// group or version cannot be a segment of a path.
    pub async fn discover(client: Client, kind: &GroupVersionKind) -> Result<Self, Error> {
        path::check_group_version(&kind.group, &kind.version)?;
        match kube_client::discovery::pinned_kind(&discovery_client(&client), kind).await {
            Ok((resource, _)) => Ok(Self::dynamic(client, resource)),
            Err(source) => Err(Error::Discovery {
                api_version: kind.api_version(),
                kind: kind.kind.clone(),
                source: Box::new(source),
            }),
        }
    }
}

impl KubeListerWatcher<PackedObject> {
    /// Creates a lister-watcher of packed objects of a type with a static kind. Each object is decoded when it is read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer_kube::{KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// let pods = KubeListerWatcher::packed::<Pod>(client);
    /// let list = pods.list(ListOptions::default()).await?;
    /// assert_eq!(list.objects.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn packed<K: Resource<DynamicType = ()>>(client: Client) -> Self {
        Self::packed_dynamic(client, ApiResource::erase::<K>(&()))
    }

    /// As [`Self::packed`], for a resource that is described by the caller.
    pub fn packed_dynamic(client: Client, resource: ApiResource) -> Self {
        // Packed objects are not decoded on arrival, so the decoder has to check their kind.
        Self::of(client, resource, false, true)
    }

    /// As [`Self::packed_dynamic`], with only the metadata of the objects, as `PartialObjectMetadata`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kube_core::{ApiResource, GroupVersionKind};
    /// # use kinformer_kube::{KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// let pod = GroupVersionKind::gvk("", "v1", "Pod");
    /// let pods = KubeListerWatcher::packed_metadata(client, ApiResource::from_gvk(&pod));
    /// let list = pods.list(ListOptions::default()).await?;
    /// assert_eq!(list.objects[0].labels().collect::<Vec<_>>(), [("app", "web")]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn packed_metadata(client: Client, resource: ApiResource) -> Self {
        Self::of(client, resource, true, true)
    }
}

impl<K> KubeListerWatcher<K> {
    fn of(client: Client, resource: ApiResource, metadata_only: bool, any_kind: bool) -> Self {
        let (api_version, kind) = match metadata_only {
            true => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata".to_owned()),
            false => (resource.api_version.clone(), resource.kind.clone()),
        };
        let decoded = DecodedCache::default();
        let known =
            Encoding::ALL.iter().filter_map(|encoding| ObjectDecoder::new(*encoding, &api_version, &kind));
        let known = known.map(|decoder| decoder.decoded_cache(decoded.clone()));
        // Types of built-in kinds check the kind while they are decoded; types of custom resources ignore it.
        let is_built_in = is_built_in(&api_version, &kind);
        let decoders = match any_kind || metadata_only || !is_built_in {
            true => known.map(ObjectDecoder::check_kind).collect(),
            false => known.collect(),
        };
        let named = Named { api_version, kind, is_built_in };
        Self {
            client,
            resource: Target { resource, metadata_only, named },
            namespace: None,
            cluster_scoped: false,
            selectors: Params::default(),
            filter: Filter::default(),
            at_least: None,
            has_labels: true,
            tweak: None,
            managed_fields: ManagedFields::Drop,
            decoders,
            preferred: Encoding::Protobuf,
            answered: Arc::default(),
            idle: IDLE,
            support: WatchListSupport::default(),
            probes: ProbeBudget::default(),
            objects: PhantomData,
        }
    }

    /// Restricts the objects to one namespace. An empty name means all namespaces, as in client-go. With a name that
    /// cannot be a segment of a path, lists and watches fail with [`Error::PathSegment`] without a request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer_kube::{KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// let pods = KubeListerWatcher::packed::<Pod>(client).namespace("kube-system");
    /// assert!(pods.list(ListOptions::default()).await?.objects.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Refuses objects in namespaces: for a cluster-scoped resource whose definition may return with another scope, where
    /// the objects of all namespaces would be more than is wanted. Lists and watches with such an object then fail with
    /// [`SourceError::OtherScope`].
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.cluster_scoped = true;
        self
    }

    /// Restricts the objects to those that this label selector matches.
    ///
    /// The server applies the selector. An object of a watch that does not match it is delivered, and reported as an
    /// unexpected event.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer_kube::{KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// let listed = async |selector: &str| {
    ///     let pods = KubeListerWatcher::packed::<Pod>(client.clone()).labels(selector);
    ///     pods.list(ListOptions::default()).await.map(|list| list.objects.len())
    /// };
    /// assert_eq!((listed("app=web").await?, listed("app=api").await?), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selectors.set("labelSelector", selector.into());
        self
    }

    /// Restricts the objects to those that this field selector matches.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.selectors.set("fieldSelector", selector.into());
        self
    }

    /// Restricts the objects to those of a shard.
    ///
    /// A server with sharded lists and watches (KEP-5866, alpha since Kubernetes 1.36) sends no others. From any other server all
    /// objects arrive, and those of other shards are dropped before they are decoded; so this is the same for every server, and
    /// for several that differ.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer_kube::{KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default"},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// use kinformer_kube::{Shard, ShardField, ShardSelector};
    ///
    /// let half = |range| Shard::new(ShardSelector::one(ShardField::Uid, range));
    /// let listed = async |shard| {
    ///     let pods = KubeListerWatcher::packed::<Pod>(client.clone()).shard(shard);
    ///     pods.list(ListOptions::default()).await.map(|list| list.objects.len())
    /// };
    /// assert_eq!(listed(half(0..1 << 63)).await? + listed(half(1 << 63..1 << 64)).await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn shard(mut self, shard: Shard) -> Self {
        self.filter.shard = Some(shard);
        self
    }

    /// Restricts the objects to those of some namespaces, by one list and one watch of all: those of the others are dropped before
    /// they are decoded. It needs the right to read all namespaces.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer_kube::{KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # for namespace in ["default", "kube-system"] {
    /// #     server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #         "metadata": {"name": "web-0", "namespace": namespace},
    /// #         "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # }
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// use kinformer_kube::NamespaceFilter;
    ///
    /// let filter = NamespaceFilter::new(["default".into()]);
    /// let pods = KubeListerWatcher::packed::<Pod>(client).only_namespaces(filter);
    /// assert_eq!(pods.list(ListOptions::default()).await?.objects.len(), 1);
    /// assert_eq!(pods.count().await?, Some(2)); // on the server
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn only_namespaces(mut self, filter: NamespaceFilter) -> Self {
        self.filter.namespaces = Some(filter);
        self
    }

    /// Requests this version or a later one where an older one would do, as in the first list of a reflector; an unset version
    /// requests the most recent state. A server whose cache is older waits, or responds with 504, and the request is repeated. For
    /// objects that another process has just written.
    #[must_use]
    pub fn at_least(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.at_least = Some(version.into());
        self
    }

    /// Sets whether managed fields are kept. By default they are dropped: a server with Kubernetes 1.38 or later is asked
    /// not to send them (KEP-5958), and those that another server sends are dropped as they are read.
    #[must_use]
    pub fn managed_fields(mut self, managed_fields: ManagedFields) -> Self {
        self.managed_fields = managed_fields;
        self
    }

    /// Sets the preferred encoding. The default is protobuf for built-in kinds and for metadata. [`Encoding::Protobuf`]
    /// is a preference: kinds without protobuf are always requested as JSON, and the server may respond to any request
    /// in JSON. The decoded objects are the same.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer_kube::{Encoding, KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// let pods = KubeListerWatcher::packed::<Pod>(client).encoding(Encoding::Json);
    /// pods.list(ListOptions::default()).await?;
    /// assert_eq!(pods.response_encoding(), Some(Encoding::Json));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.preferred = encoding;
        self.answered = Arc::default();
        self
    }

    /// Drops these fields, such as `["metadata", "annotations"]` or `["status"]`, from every object as it arrives, in
    /// addition to the managed fields. Cheaper than a transform that clears them: dropped fields are neither decoded
    /// nor stored. See [`ObjectDecoder::drop_fields`].
    ///
    /// Fields that [identify](FieldPath::identifies) an object stay, and a warning is logged for each.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer_kube::{FieldPath, KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// let labels = FieldPath::new(&["metadata", "labels"]);
    /// let pods = KubeListerWatcher::packed::<Pod>(client).drop_fields([labels]);
    /// let list = pods.list(ListOptions::default()).await?;
    /// assert_eq!(list.objects[0].labels().count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn drop_fields(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        let fields: Vec<FieldPath> = fields.into_iter().collect();
        for field in fields.iter().filter(|field| field.identifies()) {
            let resource = &self.resource.resource.plural;
            tracing::warn!(%resource, %field, "field identifies objects and is not dropped");
        }
        self.has_labels &= !fields.iter().any(|field| field.names().take(2).eq(["metadata", "labels"]));
        self.each_decoder(|decoder| decoder.drop_fields(fields.iter().cloned()))
    }

    /// Sets how many packed objects stay decoded after they were read; 256 by default. See
    /// [`ObjectDecoder::decoded_cache_size`].
    #[must_use]
    pub fn decoded_cache_size(self, objects: usize) -> Self {
        self.decoded_cache(DecodedCache::new(objects))
    }

    /// Sets the cache of decoded values, which several lister-watchers can share: see [`ObjectDecoder::decoded_cache`].
    #[must_use]
    pub fn decoded_cache(self, cache: DecodedCache) -> Self {
        self.each_decoder(|decoder| decoder.decoded_cache(cache.clone()))
    }

    fn each_decoder(mut self, change: impl FnMut(ObjectDecoder) -> ObjectDecoder) -> Self {
        self.decoders = self.decoders.into_iter().map(change).collect();
        self
    }

    /// Returns the decoders of the requested encodings in order of preference. JSON, which every server has, is always
    /// included.
    fn requested(&self) -> impl Iterator<Item = &ObjectDecoder> {
        let json = Some(Encoding::default()).filter(|json| *json != self.preferred);
        let encodings = [Some(self.preferred), json].into_iter().flatten();
        encodings.filter_map(|encoding| self.decoders.iter().find(|decoder| decoder.encoding() == encoding))
    }

    /// The encoding of the server's last response to this lister-watcher or a clone; `None` before the first response.
    pub fn response_encoding(&self) -> Option<Encoding> {
        Encoding::ALL.get(self.answered.load(Ordering::Relaxed).checked_sub(1)?).copied()
    }

    /// The number of protobuf fields skipped so far because this version does not know them: the server is newer.
    pub fn unknown_fields(&self) -> u64 {
        self.decoders.iter().map(ObjectDecoder::unknown_fields).sum()
    }

    /// Sets a function that changes the parameters of each request before it is sent. The function must not block.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kinformer_kube::{KubeListerWatcher, ListOptions, ListerWatcher};
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"containers": [{"name": "web", "image": "web:1"}]}}))?;
    /// # let client = kinformer_kube::client(server.config()?)?;
    /// let pods = KubeListerWatcher::packed::<Pod>(client).tweak(|params| params.labels("app=api"));
    /// assert!(pods.list(ListOptions::default()).await?.objects.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "NewFilteredListWatchFromClient")]
    #[must_use]
    pub fn tweak(mut self, tweak: impl Fn(&mut Params) + Send + Sync + 'static) -> Self {
        self.tweak = Some(Arc::new(tweak));
        self
    }

    /// Sets how long a list, or a watch that is not open yet, may receive no bytes before it fails; 30 s by default.
    /// Once a watch is open, the reflector's stall timeout applies instead.
    #[must_use]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Shares the record of the server's support for watch-lists with other sources of the same server.
    #[doc(alias = "ToListWatcherWithWatchListSemantics")]
    #[must_use]
    pub fn watch_list_support(mut self, support: WatchListSupport) -> Self {
        self.support = support;
        self
    }

    /// Shares the limit on requests for the newest version with other sources of the same server. Clones share it, and
    /// so do the informers of a factory.
    #[must_use]
    pub fn probe_budget(mut self, budget: ProbeBudget) -> Self {
        self.probes = budget;
        self
    }

    /// The listed and watched resource.
    pub fn resource(&self) -> &ApiResource {
        &self.resource.resource
    }

    /// Adds the selectors, then applies the tweak.
    fn parameters(&self, mut params: Params) -> Params {
        for name in ["labelSelector", "fieldSelector"] {
            if let Some(selector) = self.selectors.get(name) {
                params.set(name, selector);
            }
        }
        if let Some(shard) = &self.filter.shard {
            params.set("shardSelector", shard.selector());
        }
        if let Some(version) = &self.at_least {
            params.at_least(version);
        }
        if let Some(tweak) = &self.tweak {
            tweak(&mut params);
        }
        params
    }

    /// Returns the label selector of a request; `None` if it cannot be checked.
    fn selector(&self, params: &Params) -> Option<LabelSelector> {
        let selector = params.get("labelSelector").filter(|_| self.has_labels)?;
        selector.parse().ok().filter(|selector: &LabelSelector| !selector.is_everything())
    }

    async fn request(&self, params: Params, watch: bool) -> Result<http::Response<Body>, SourceError> {
        self.send(&self.parameters(params), &self.accept(watch)).await
    }

    fn accept(&self, watch: bool) -> String {
        let as_type = match (self.resource.metadata_only, watch) {
            (false, _) => "",
            (true, false) => METADATA_LIST,
            (true, true) => ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        };
        let drop = if self.managed_fields == ManagedFields::Drop { WITHOUT_MANAGED_FIELDS } else { "" };
        let types =
            self.requested().map(|decoder| format!("{}{as_type}{drop}", decoder.encoding().media_type()));
        // A server other than kube-apiserver may refuse a parameter that it does not know.
        let last = (!drop.is_empty()).then(|| format!("{}{as_type}", Encoding::default().media_type()));
        types.chain(last).collect::<Vec<_>>().join(",")
    }

    async fn send(&self, params: &Params, accept: &str) -> Result<http::Response<Body>, SourceError> {
        let path =
            path::of(&self.resource.resource, self.namespace.as_deref()).map_err(SourceError::other)?;
        let mut request = Request::get(format!("{path}?{}", params.query())).header(header::ACCEPT, accept);
        if params.is_watch() {
            // A compressor delays events, and clients that decompress have failed on compressed watches.
            request = request.header(header::ACCEPT_ENCODING, "identity");
        }
        let mut request =
            request.body(Body::empty()).map_err(|error| SourceError::Other { source: Box::new(error) })?;
        let span = span::of(&mut request);
        let answer = async {
            match tokio::time::timeout(self.idle, self.client.send(request)).await {
                Ok(answer) => answer.map_err(failure),
                Err(_) => Err(SourceError::Timeout { after: self.idle }),
            }
        };
        span::within(span, answer, SourceError::error_type).await
    }

    /// Returns the decoder for the objects of a response.
    fn decoder(&self, encoding: Encoding) -> Result<ObjectDecoder, SourceError> {
        let index = Encoding::ALL.iter().position(|known| *known == encoding).map_or(0, |index| index + 1);
        if self.answered.swap(index, Ordering::Relaxed) != index {
            let resource = &self.resource.resource.plural;
            tracing::info!(%resource, encoding = encoding.media_type(), "server selected a response encoding");
        }
        let unexpected =
            || SourceError::Unexpected { what: format!("{}, which was not requested", encoding.name()) };
        // JSON is accepted even if it was not requested, because some servers have no other encoding.
        let decoder = match encoding == Encoding::default() {
            true => self.decoders.iter().find(|decoder| decoder.encoding() == encoding),
            false => self.requested().find(|decoder| decoder.encoding() == encoding),
        };
        decoder.cloned().ok_or_else(unexpected)
    }
}

/// The common part of the two lister-watchers below.
impl<K> KubeListerWatcher<K> {
    async fn list_as<T: Object + FromWire>(&self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        match self.read_list(options).await {
            Err(error) if error.status().is_some_and(|status| status.code == 404) => {
                Err(self.other_scope().await.unwrap_or(error))
            }
            list => list,
        }
    }

    /// Asks the server for the scope of a resource that it does not serve in the requested namespace. Returns the error of
    /// a cluster-scoped resource; `None` for any other one, and if the server does not say.
    async fn other_scope(&self) -> Option<SourceError> {
        let namespace = self.namespace.as_deref().filter(|namespace| !namespace.is_empty())?;
        let ApiResource { group, version, api_version, plural, .. } = &self.resource.resource;
        let served = async {
            match group.is_empty() {
                true => self.client.list_core_api_resources(version).await,
                false => self.client.list_api_group_resources(api_version).await,
            }
        };
        let served = tokio::time::timeout(self.idle, served).await.ok()?.ok()?;
        let is_cluster_scoped = served.resources.iter().any(|one| one.name == *plural && !one.namespaced);
        is_cluster_scoped.then(|| scope::other(&self.resource.resource, Some(namespace)))
    }

    async fn read_list<T: Object + FromWire>(&self, options: ListOptions<T>) -> Result<List<T>, SourceError> {
        let answer = self.request(Params::of_list(&options), false).await?;
        let Target { resource: ApiResource { plural, .. }, named, .. } = &self.resource;
        let (encoding, mut body) = answer::body(answer, plural, self.idle).await?;
        let objects_in = self.decoder(encoding)?;
        let mut decoder = ListDecoder::of(encoding, self.managed_fields);
        let (mut objects, mut undecodable) = (Vec::new(), Vec::new());
        let (mut index, mut other_kind, mut unidentified) = (0, None, 0);
        let mut in_namespace = false;
        loop {
            let chunk = tokio::time::timeout(self.idle, body.next()).await;
            let Some(chunk) = chunk.map_err(|_| SourceError::Timeout { after: self.idle })? else { break };
            let fed = decoder.feed(&chunk?, |item| {
                if !self.filter.is_empty() && !self.filter.admits(&objects_in, item) {
                    return;
                }
                match objects_in.decode_item(item, index) {
                    Ok(Ok(object)) => {
                        in_namespace |= self.cluster_scoped && scope::is_in_namespace(&*object);
                        objects.push(options.exchange(object));
                    }
                    Ok(Err(error)) => {
                        unidentified += usize::from(error.key.is_none());
                        undecodable.push(error);
                    }
                    Err(kind) => other_kind = Some(kind),
                }
                index += 1;
            });
            fed.map_err(malformed)?;
            SourceError::check_unidentified(unidentified)?;
            if let Some(kind) = other_kind {
                return Err(list_kind::wrong(plural, named, &format!("a list with a {kind} in it")));
            }
            if in_namespace {
                return Err(scope::other(&self.resource.resource, None));
            }
        }
        let envelope = decoder.finish().map_err(malformed)?;
        list_kind::check(&envelope, plural, named)?;
        let mut list = List::new(objects, envelope.resource_version).undecodable(undecodable);
        if !envelope.continue_token.is_empty() {
            list = list.continue_token(envelope.continue_token);
        }
        list.remaining = envelope.remaining_item_count.and_then(|count| u64::try_from(count).ok());
        Ok(list)
    }

    async fn watch_as<T: Object + FromWire>(
        &self,
        options: WatchOptions,
    ) -> Result<WatchStream<T>, SourceError> {
        let params = self.parameters(Params::of_watch(&options));
        let answer = self.send(&params, &self.accept(true)).await?;
        let (encoding, body) = answer::body(answer, &self.resource.resource.plural, self.idle).await?;
        let events = WatchEvents {
            body: body.boxed(),
            decoder: Some(WatchDecoder::of(encoding, self.managed_fields)),
            objects: self.decoder(encoding)?,
            ready: VecDeque::new(),
            start: (encoding == Encoding::Json).then(Vec::new),
            selector: self.selector(&params),
            filter: self.filter.clone(),
            cluster_scoped: self.cluster_scoped.then(|| self.resource.resource.clone()),
        };
        Ok(events.into_stream().boxed())
    }

    /// Requests the newest resource version by a list of the metadata of one object: `limit=1`, no resource version.
    ///
    /// A kube-apiserver serves this list by a consistent read. With its watch cache (the default since 1.31) it
    /// requests the current revision from etcd, waits until the cache has reached it, and reads one object from memory;
    /// without the cache it reads one object from etcd by quorum. The response has the metadata of one object, usually
    /// less than 2 KiB.
    ///
    /// Returns `None` without a request if a tweak sets a resource version, because the server's cache may then serve
    /// an older version.
    async fn newest(&self) -> Result<Option<ResourceVersion>, SourceError> {
        let params = self.parameters(Params::default());
        if params.get("resourceVersion").is_some() {
            return Ok(None);
        }
        let (envelope, _) = self.first(params).await?;
        let version = envelope.resource_version;
        Ok((!version.is_empty()).then(|| version.as_str().into()))
    }

    /// Returns how many objects the server has, by a list of the metadata of one: `limit=1`. `None` if it does not say, as
    /// kube-apiserver with selectors. A [filter](Self::only_namespaces) does not count.
    ///
    /// # Errors
    /// Those of a list: a [`SourceError`] with the status 403 without the right to list.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request; there is no other effect.
    pub async fn count(&self) -> Result<Option<u64>, SourceError> {
        let (envelope, items) = self.first(self.parameters(Params::default())).await?;
        let remaining = envelope.remaining_item_count.and_then(|count| u64::try_from(count).ok());
        let is_complete = envelope.continue_token.is_empty();
        Ok(remaining.or_else(|| is_complete.then_some(0)).map(|remaining| remaining.saturating_add(items)))
    }

    /// Lists the metadata of one object. Returns the number of objects beside the list, because a server may ignore the limit.
    async fn first(&self, mut params: Params) -> Result<(ListEnvelope, u64), SourceError> {
        params.set("limit", 1);
        let answer = self.send(&params, &accept_metadata(self.preferred)).await?;
        let (encoding, mut body) = answer::body(answer, &self.resource.resource.plural, self.idle).await?;
        let (mut decoder, mut items) = (ListDecoder::of(encoding, ManagedFields::Drop), 0_u64);
        loop {
            let chunk = tokio::time::timeout(self.idle, body.next()).await;
            let Some(chunk) = chunk.map_err(|_| SourceError::Timeout { after: self.idle })? else { break };
            decoder.feed(&chunk?, |_| items = items.saturating_add(1)).map_err(malformed)?;
        }
        Ok((decoder.finish().map_err(malformed)?, items))
    }
}

/// Objects decoded on arrival.
#[async_trait]
impl<K: Resource + DeserializeOwned + Send + Sync + 'static> ListerWatcher<KubeObject<K>>
    for KubeListerWatcher<K>
{
    async fn list(&self, options: ListOptions<KubeObject<K>>) -> Result<List<KubeObject<K>>, SourceError> {
        self.list_as(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<KubeObject<K>>, SourceError> {
        self.watch_as(options).await
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.newest().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        Some(&self.probes)
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        Some(&self.support)
    }
}

/// Objects decoded on read.
#[async_trait]
impl ListerWatcher<PackedObject> for KubeListerWatcher<PackedObject> {
    async fn list(&self, options: ListOptions<PackedObject>) -> Result<List<PackedObject>, SourceError> {
        self.list_as(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<PackedObject>, SourceError> {
        self.watch_as(options).await
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.newest().await
    }

    fn probe_budget(&self) -> Option<&ProbeBudget> {
        Some(&self.probes)
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        Some(&self.support)
    }
}

/// Returns the media types for a list of metadata in the preferred encoding, in JSON, or else a plain list in JSON, since a
/// server other than kube-apiserver may have nothing else.
fn accept_metadata(preferred: Encoding) -> String {
    let json = Encoding::default();
    let preferred = Some(preferred).filter(|preferred| *preferred != json);
    let lists = preferred
        .into_iter()
        .chain([json])
        .map(|encoding| format!("{}{METADATA_LIST}{WITHOUT_MANAGED_FIELDS},", encoding.media_type()));
    lists.chain([json.media_type().to_owned()]).collect()
}

/// Converts an error of a list. A truncated list is a transport error, any other problem a decoding error.
fn malformed(error: kinformer_wire::Error) -> SourceError {
    match error {
        kinformer_wire::Error::Truncated { .. } => SourceError::Transport { source: Box::new(error) },
        other => SourceError::Decode { source: Box::new(other) },
    }
}

impl<K> Clone for KubeListerWatcher<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            cluster_scoped: self.cluster_scoped,
            selectors: self.selectors.clone(),
            filter: self.filter.clone(),
            at_least: self.at_least.clone(),
            has_labels: self.has_labels,
            tweak: self.tweak.clone(),
            managed_fields: self.managed_fields,
            decoders: self.decoders.clone(),
            preferred: self.preferred,
            answered: self.answered.clone(),
            idle: self.idle,
            support: self.support.clone(),
            probes: self.probes.clone(),
            objects: PhantomData,
        }
    }
}

impl<K> fmt::Debug for KubeListerWatcher<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeListerWatcher")
            .field("resource", &self.resource.resource.plural)
            .field("namespace", &self.namespace)
            .field("selectors", &self.selectors)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Protobuf only if it is preferred. A list of whole objects in JSON is the last resort.
    // contract: L-11e
    #[test]
    fn metadata_is_requested_in_the_preferred_encoding() {
        assert_eq!(
            accept_metadata(Encoding::Protobuf),
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields,application/json"
        );
        assert_eq!(
            accept_metadata(Encoding::Json),
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields,application/json"
        );
    }
}
