//! The builder of a factory.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::BoxError;
use kinformer_kube::{Encoding, FieldPath, Packed, PackedObject, Params};
use kinformer_reflector::{Failure, ReflectorOptions};
use kinformer_shared_informer::{Queue, QueueKind, QueueParts};
use kube_client::Client;
use kube_core::Resource;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::gvk::{GroupVersion, GroupVersionResource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::entry::Key;
use crate::kind::scope_of;
use crate::options::Options;
use crate::resource_options::{Decode, ResourceOptions};
use crate::selection::NamespaceOptions;

/// Builds a [`SharedInformerFactory`](crate::SharedInformerFactory).
///
/// Follows client-go 0.37 (`SharedInformerOption`).
///
/// ```
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kinformer::{Decode, FieldPath, SharedInformerFactory};
///
/// # fn example(client: kube_client::Client) {
/// let factory = SharedInformerFactory::builder(client)
///     .namespaces(["team-a", "team-b"])
///     .tweak_list_options(|params| params.labels("app=web"))
///     .drop_fields::<Pod>([FieldPath::new(&["status"])])
///     .decode::<Node>(Decode::OnArrival)
///     .default_resync(Duration::from_secs(600))
///     .on_error(|failure| eprintln!("{}: {}", failure.reflector, failure.error))
///     .build();
/// # _ = factory;
/// # }
/// ```
#[doc(alias = "SharedInformerOption")]
#[must_use = "nothing is built yet"]
pub struct SharedInformerFactoryBuilder {
    pub(crate) client: Client,
    pub(crate) options: Options,
}

impl SharedInformerFactoryBuilder {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, options: Options::default() }
    }

    /// Sets the name of the factory, the prefix of its informers' names in messages and metrics. Factories whose
    /// informers are registered for metrics together need different names, unless their namespaces differ.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = kinformer::client(kube_client::Config::new("http://localhost".parse()?))?;
    /// use kinformer::SharedInformerFactory;
    ///
    /// let factory = SharedInformerFactory::builder(client).name("billing").build();
    /// assert_eq!(factory.core().v1().pods().name(), "billing/pods");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("InformerName", "NewInformerName", "WithInformerName"))]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// Restricts the informers to one namespace: see [`Self::namespaces`].
    #[doc(alias = "WithNamespace")]
    pub fn namespace(self, namespace: impl Into<NamespaceOptions>) -> Self {
        self.namespaces([namespace])
    }

    /// Restricts the informers to these namespaces. No names, or an empty name among them, means all namespaces. Has no
    /// effect on cluster-scoped kinds. [`ResourceOptions::namespaces`] sets them for one resource. If the definition of a
    /// kind returns with another scope, its informer delivers nothing until the scope is as before; see
    /// [`InformerStatus::not_served`](crate::InformerStatus::not_served).
    ///
    /// An informer of several namespaces is one informer with one store, revision and set of handlers. Each namespace
    /// is a [part](crate::InformerStatus::parts) of the informer with its own list, watch, resource version and errors. The
    /// informer has synced when all namespaces have been listed. If one cannot be listed, the others continue to work.
    ///
    /// Follows controller-runtime 0.25 (`cache.Options.DefaultNamespaces`), which has one informer and one store per
    /// namespace.
    #[doc(alias("DefaultNamespaces", "WithNamespace"))]
    pub fn namespaces<N: Into<NamespaceOptions>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.options.selections.set_namespaces(namespaces);
        self
    }

    /// Restricts the informers to objects that this label selector matches. A selector of a [namespace](Self::namespaces)
    /// or of a [resource](Self::resource) replaces it.
    ///
    /// ```
    /// # fn example(builder: kinformer::SharedInformerFactoryBuilder) {
    /// use k8s_openapi::api::core::v1::Node;
    ///
    /// // The objects of one application; nodes have other labels.
    /// let builder = builder.labels("app.kubernetes.io/part-of=shop");
    /// let builder = builder.of_kind::<Node>(|nodes| nodes.labels(""));
    /// # _ = builder;
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`cache.Options.DefaultLabelSelector`).
    #[doc(alias = "DefaultLabelSelector")]
    pub fn labels(mut self, selector: impl Into<Arc<str>>) -> Self {
        self.options.selections.selection.labels = Some(selector.into());
        self
    }

    /// Restricts the informers to objects that this field selector matches; see [`Self::labels`]. The API server refuses
    /// fields that a kind does not have.
    #[doc(alias = "DefaultFieldSelector")]
    pub fn fields(mut self, selector: impl Into<Arc<str>>) -> Self {
        self.options.selections.selection.fields = Some(selector.into());
        self
    }

    /// Sets how often handlers without a period of their own receive every object again. Zero, the default, means
    /// never.
    #[doc(alias = "SyncPeriod")]
    pub fn default_resync(mut self, period: Duration) -> Self {
        self.options.resync = period;
        self
    }

    /// Makes the resync period of each informer longer or shorter by a random share of at most this, between 0 and 1: 0.1
    /// means plus or minus 10 %. It is drawn once for each informer, so that many informers do not resync at the same
    /// moment. The default is 0. Periods that handlers request themselves are exact.
    pub fn resync_jitter(mut self, share: f64) -> Self {
        self.options.resync_jitter = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self
    }

    /// Drops these fields, in addition to the managed fields, from the objects of every resource for which
    /// [`ResourceOptions::drop_fields`] is not called: with no fields there, such a resource keeps them.
    ///
    /// ```
    /// # use kinformer::{FieldPath, SharedInformerFactoryBuilder};
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// let applied = "kubectl.kubernetes.io/last-applied-configuration";
    /// builder.default_drop_fields([FieldPath::new(&["metadata", "annotations", applied])]);
    /// # }
    /// ```
    #[doc(alias = "DefaultTransform")]
    pub fn default_drop_fields(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.options.defaults = self.options.defaults.drop_fields(fields);
        self
    }

    /// Adds a transform of the objects of every resource that has none of its own; see
    /// [`ResourceOptions::transform_packed`]. A transform needs whole objects: with a default, metadata-only informers fetch
    /// them as well. To drop fields, [`Self::default_drop_fields`] is cheaper.
    ///
    /// ```
    /// # fn example(builder: kinformer::SharedInformerFactoryBuilder) {
    /// use kinformer::FieldPath;
    ///
    /// // The releases of Helm are large config maps or secrets, and this program does not need their data.
    /// let data = FieldPath::new(&["data"]);
    /// let builder = builder.default_transform(move |object| match object.label("owner") {
    ///     Some("helm") => Ok(object.without_fields(&[&data])?),
    ///     _ => Ok(object),
    /// });
    /// # _ = builder;
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`cache.Options.DefaultTransform`).
    #[doc(alias = "WithTransform")]
    pub fn default_transform(
        mut self,
        change: impl Fn(Packed<()>) -> Result<Packed<()>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.options.defaults = self.options.defaults.transform_packed(change);
        self
    }

    /// Changes the options of one resource by its name, for custom resources without a Rust type. The methods below do
    /// the same for kinds with a type.
    ///
    /// ```
    /// # use kinformer::{FieldPath, SharedInformerFactoryBuilder};
    /// use kube_core::gvk::GroupVersionResource;
    ///
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// let widgets = GroupVersionResource::gvr("example.com", "v1", "widgets");
    /// builder.resource(&widgets, |widgets| widgets.drop_fields([FieldPath::new(&["status"])]));
    /// # }
    /// ```
    #[doc(alias = "ByObject")]
    pub fn resource(
        self,
        resource: &GroupVersionResource,
        change: impl FnOnce(ResourceOptions) -> ResourceOptions,
    ) -> Self {
        let group_version = GroupVersion { group: resource.group.clone(), version: resource.version.clone() };
        self.changed(Key::resource(&group_version.api_version(), &resource.resource), change)
    }

    /// Sets the resync period of one kind; see [`Self::default_resync`].
    #[doc(alias = "WithCustomResyncConfig")]
    pub fn resync_for<K: Resource<DynamicType = (), Scope: 'static>>(self, period: Duration) -> Self {
        self.of_kind::<K>(|options| options.resync(period))
    }

    /// Drops these fields, in addition to the managed fields, from every object of a kind as it arrives. See
    /// [`ResourceOptions::drop_fields`].
    ///
    /// ```
    /// # use kinformer::SharedInformerFactoryBuilder;
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::FieldPath;
    ///
    /// builder.drop_fields::<Pod>([FieldPath::new(&["metadata", "annotations"])]);
    /// # }
    /// ```
    pub fn drop_fields<K: Resource<DynamicType = (), Scope: 'static>>(
        self,
        fields: impl IntoIterator<Item = FieldPath>,
    ) -> Self {
        self.of_kind::<K>(|options| options.drop_fields(fields))
    }

    /// Sets when objects of a kind are decoded as the type `K`. See [`ResourceOptions::decode`].
    pub fn decode<K>(self, decode: Decode) -> Self
    where
        K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        self.of_kind::<K>(|options| options.decode::<K>(decode))
    }

    /// Adds a transform, which changes every object of a kind once before it is stored and delivered. The result is
    /// encoded as JSON and replaces the object in all views of the resource. See [`ResourceOptions::transform`].
    ///
    /// ```
    /// # use kinformer::SharedInformerFactoryBuilder;
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// builder.transform::<Pod>(|pod| {
    ///     pod.metadata.annotations = None;
    ///     Ok(())
    /// });
    /// # }
    /// ```
    #[doc(alias("SetTransform", "WithTransform"))]
    pub fn transform<K>(self, change: impl Fn(&mut K) -> Result<(), BoxError> + Send + Sync + 'static) -> Self
    where
        K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Serialize + 'static,
    {
        self.of_kind::<K>(|options| options.transform(change))
    }

    /// Adds a transform that does not decode the objects: for transforms that [drop fields](Packed::without_fields) of
    /// some objects, or reject some.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactoryBuilder;
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::FieldPath;
    ///
    /// let status = FieldPath::new(&["status"]);
    /// builder.transform_packed::<Pod>(move |pod| match pod.label("app") {
    ///     Some("web") => Ok(pod),
    ///     _ => Ok(pod.without_fields(&[&status])?),
    /// });
    /// # }
    /// ```
    pub fn transform_packed<K: Resource<DynamicType = (), Scope: 'static> + 'static>(
        self,
        change: impl Fn(Packed<K>) -> Result<Packed<K>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.of_kind::<K>(|options| options.transform_packed(change))
    }

    /// Changes the options of one kind; see [`Self::resource`] for kinds without a type.
    #[doc(alias = "ByObject")]
    pub fn of_kind<K: Resource<DynamicType = (), Scope: 'static>>(
        self,
        change: impl FnOnce(ResourceOptions) -> ResourceOptions,
    ) -> Self {
        self.changed(Key::of_resource(&ApiResource::erase::<K>(&())), |mut options| {
            options.scope = Some(scope_of::<K>());
            change(options)
        })
    }

    /// Returns the resources that were given namespaces of their own, ordered, each with its scope if it was set by its
    /// type: for a cache, which refuses namespaces of resources that are not in namespaces.
    #[doc(hidden)]
    pub fn resources_with_namespaces(&self) -> Vec<(GroupVersionResource, Option<Scope>)> {
        let mut resources: Vec<_> = self.options.resources.iter().collect();
        resources.sort_unstable_by_key(|(key, _)| *key);
        let with_namespaces =
            resources.into_iter().filter(|(_, options)| options.selections.has_namespaces());
        with_namespaces
            .filter_map(|(key, options)| Some((key.to_resource()?, options.scope.clone())))
            .collect()
    }

    fn changed(mut self, key: Key, change: impl FnOnce(ResourceOptions) -> ResourceOptions) -> Self {
        let options = self.options.resources.remove(&key).unwrap_or_default();
        self.options.resources.insert(key, change(options));
        self
    }

    /// Sets a function that changes the parameters of every list and watch before it is sent, such as its selectors.
    /// The function must not block. A second call replaces the function of the first.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactoryBuilder;
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// builder.tweak_list_options(|params| {
    ///     params.labels("app=web");
    ///     params.fields("spec.nodeName=node-1");
    /// });
    /// # }
    /// ```
    #[doc(alias("TweakListOptionsFunc", "WithTweakListOptions"))]
    pub fn tweak_list_options(mut self, tweak: impl Fn(&mut Params) + Send + Sync + 'static) -> Self {
        self.options.tweak = Some(Arc::new(tweak));
        self
    }

    /// Sets the encoding to request. The default is protobuf for kinds that have it, else JSON: see
    /// [`KubeListerWatcher::encoding`](kinformer_kube::KubeListerWatcher::encoding).
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.options.encoding = Some(encoding);
        self
    }

    /// Sets the error hook. It is called with every failure of a list or watch of any informer, which the failure
    /// names, and with every object that cannot be decoded [on arrival](crate::Decode::OnArrival).
    ///
    /// ```
    /// # use kinformer::SharedInformerFactoryBuilder;
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// builder.on_error(|failure| {
    ///     eprintln!("{}: {}, then {:?} in {:?}", failure.reflector, failure.error, failure.recovery, failure.delay);
    /// });
    /// # }
    /// ```
    #[doc(alias("DefaultWatchErrorHandler", "SetWatchErrorHandler", "SetWatchErrorHandlerWithContext"))]
    pub fn on_error(mut self, hook: impl Fn(&Failure<'_>) + Send + Sync + 'static) -> Self {
        self.options.error_hook = Some(Arc::new(hook));
        self
    }

    /// Sets a function that changes the options of every reflector: page size, watch-lists, backoff, deadlines.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactoryBuilder;
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// use kinformer::WatchListMode;
    ///
    /// builder.reflector(|options| options.watch_list(WatchListMode::Off));
    /// # }
    /// ```
    pub fn reflector(
        mut self,
        change: impl Fn(ReflectorOptions) -> ReflectorOptions + Send + Sync + 'static,
    ) -> Self {
        self.options.reflector = Some(Arc::new(change));
        self
    }

    /// Sets the kind of queue between the reflectors and the store of each informer of Kubernetes objects.
    pub fn queue(self, queue: QueueKind) -> Self {
        self.queue_with(move |parts| queue.build(parts))
    }

    /// Sets a custom queue between the reflectors and the store of each informer of Kubernetes objects: see
    /// [`SharedIndexInformerBuilder::queue_with`](kinformer_shared_informer::SharedIndexInformerBuilder::queue_with).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use kinformer::{QueueKind, SharedInformerFactoryBuilder};
    /// # fn example(builder: SharedInformerFactoryBuilder) {
    /// // A custom queue would be created here.
    /// builder.queue_with(|parts| QueueKind::DeltaFifo.build(parts));
    /// # }
    /// ```
    pub fn queue_with(
        mut self,
        queue: impl Fn(QueueParts<PackedObject>) -> Arc<dyn Queue<PackedObject>> + Send + Sync + 'static,
    ) -> Self {
        self.options.queue = Some(Arc::new(queue));
        self
    }

    /// Sets the cluster label in metrics, for programs that register factories of several clusters together.
    pub fn cluster(mut self, cluster: impl Into<Arc<str>>) -> Self {
        self.options.cluster = cluster.into();
        self
    }

    /// Sets how long handlers may take to return from their last event when an informer stops. The default is 10
    /// seconds.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = Some(grace);
        self
    }
}

impl fmt::Debug for SharedInformerFactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerFactoryBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
