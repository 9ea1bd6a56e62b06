//! The informer of one resource, with the type of its objects.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use kinformer_core::{BoxError, PartOrKey, ResourceVersion};
use kinformer_kube::{DecodeAs, FieldPath, Packed, PackedObject, PackedRef};
use kinformer_processor::{Event, Registration};
use kinformer_reflector::SourceError;
use kinformer_shared_informer::{Error as InformerError, InformerMetrics, Part, Phase};
use kinformer_store::IndexValues;
use kube_core::DynamicObject;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::metadata::PartialObjectMeta;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::entry::Entry;
use crate::factory::{SharedInformerFactory, WeakFactory};
use crate::handler::{EventStream, HandlerBuilder};
use crate::index_by_field::by_field;
use crate::kind::{resource_name, versioned_name};
use crate::kube_informer::KubeInformer;
use crate::lister::Lister;
use crate::projection::Projection;
use crate::selection;
use crate::snapshot::Snapshot;
use crate::target::{Bound, Target};

/// An informer of one resource that decodes its objects as a `K`.
///
/// All informers of one resource that a factory returns are views of the same informer, whatever their types: a
/// built-in kind, [dynamic objects](Self::dynamic), or a custom type with some of the fields. They share one watch, one
/// store and its indexes. There are two informers of a resource only if whole objects are requested after an informer of
/// their metadata has started; see [`Self::projection`]. Cheap to clone.
///
/// An informer runs from the factory's next [start](SharedInformerFactory::start). The first call of any method but
/// [`lease`](Self::lease) and [`remove`](Self::remove) binds this view and its clones to the informer, and the factory
/// keeps the informer until its shutdown. A bound view never becomes a view of another informer, even if its informer
/// is removed.
///
/// Follows client-go 0.37 (`SharedIndexInformer`, `GenericInformer`, and the typed informers such as `PodInformer`).
pub struct Informer<K> {
    view: Arc<View>,
    kind: PhantomData<fn() -> K>,
}

/// An [`Informer`] without the type of its objects.
pub(crate) struct View {
    /// Weak, so that informers do not keep the factory alive.
    factory: WeakFactory,
    target: Target,
    bound: OnceLock<Bound>,
}

impl View {
    fn new(factory: &SharedInformerFactory, target: Target) -> Arc<Self> {
        factory.request(&target);
        Arc::new(Self { factory: factory.downgrade(), target, bound: OnceLock::new() })
    }

    /// Returns the view of an entry without holding it; `None` for an informer of a custom type.
    fn of_entry(factory: &SharedInformerFactory, entry: Arc<Entry>) -> Option<Arc<Self>> {
        let (resource, scope) = entry.resource()?;
        let target =
            Target { resource: resource.clone(), scope: scope.clone(), projection: entry.projection() };
        let bound = Bound { informer: entry.kube_informer()?.clone(), entry };
        Some(Arc::new(Self { factory: factory.downgrade(), target, bound: OnceLock::from(bound) }))
    }

    /// Returns the informer. Binds this view: from now on the factory keeps the informer.
    fn informer(&self) -> &KubeInformer {
        &self.bound().informer
    }

    fn bound(&self) -> &Bound {
        self.bound.get_or_init(|| self.factory.bind(&self.target, Entry::keep))
    }

    /// The projection of the informer, also of an unbound view.
    fn projection(&self) -> Projection {
        if let Some(bound) = self.bound.get() {
            return bound.informer.projection();
        }
        let has_whole =
            |factory: SharedInformerFactory| factory.has_informer(&self.target.resource, Projection::Whole);
        if self.factory.upgrade().is_some_and(has_whole) { Projection::Whole } else { self.target.projection }
    }

    fn lease(&self) -> Lease {
        let bound = match self.bound.get() {
            Some(bound) => {
                // A removed informer stays stopped and ignores the lease.
                bound.entry.lease();
                bound.clone()
            }
            None => self.factory.bind(&self.target, Entry::lease),
        };
        let entry = bound.entry.clone();
        let view =
            Self { factory: self.factory.clone(), target: self.target.clone(), bound: OnceLock::from(bound) };
        Lease { view: Arc::new(view), entry }
    }

    async fn remove(&self) -> bool {
        let Some(factory) = self.factory.upgrade() else { return false };
        match self.bound.get() {
            Some(bound) => factory.remove_entry(&bound.entry).await,
            None => factory.remove_target(&self.target).await,
        }
    }
}

impl<K> Informer<K> {
    pub(crate) fn new(factory: &SharedInformerFactory, target: Target) -> Self {
        Self::of(View::new(factory, target))
    }

    pub(crate) fn of_entry(factory: &SharedInformerFactory, entry: Arc<Entry>) -> Option<Self> {
        View::of_entry(factory, entry).map(Self::of)
    }

    fn of(view: Arc<View>) -> Self {
        Self { view, kind: PhantomData }
    }

    fn shared(&self) -> &KubeInformer {
        self.view.informer()
    }

    /// Returns a view of the same informer that decodes objects as another type, for example a custom type with some of
    /// the fields.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// #[derive(serde::Deserialize)]
    /// struct Scheduled {
    ///     spec: Node,
    /// }
    /// #[derive(serde::Deserialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct Node {
    ///     node_name: Option<String>,
    /// }
    ///
    /// let pod = pods.cast::<Scheduled>().lister().get(("default", "web-0"))?;
    /// assert_eq!(pod.decode()?.spec.node_name.as_deref(), Some("node-1"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cast<M>(&self) -> Informer<M> {
        Informer::of(self.view.clone())
    }

    /// Returns a view of the same informer that decodes objects as dynamic objects.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// let pod = pods.dynamic().lister().get(("default", "web-0"))?;
    /// assert_eq!(pod.decode()?.data["spec"]["nodeName"], "node-1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn dynamic(&self) -> Informer<DynamicObject> {
        self.cast()
    }

    /// Returns a view of the same informer that decodes only the metadata. The informer still fetches whole objects; to
    /// fetch only metadata, see [`SharedInformerFactory::metadata`].
    pub fn metadata(&self) -> Informer<PartialObjectMeta<DynamicObject>> {
        self.cast()
    }

    /// The name of the informer in messages and metrics.
    pub fn name(&self) -> &str {
        self.shared().name()
    }

    /// The resource name as in kubectl, with the projection if it is not the whole object: `pods`, `deployments.apps`,
    /// `pods (metadata)`.
    pub fn resource(&self) -> String {
        self.projection().named(resource_name(&self.view.target.resource))
    }

    /// The part of each object that the informer fetches. It is decided when the informer starts: whole objects if any view
    /// of the resource requested them until then, else metadata.
    pub fn projection(&self) -> Projection {
        self.view.projection()
    }

    /// The group, version, kind and plural name of the resource.
    pub fn api_resource(&self) -> &ApiResource {
        &self.view.target.resource
    }

    /// Returns the factory; `None` if it was dropped, and the informer has stopped with it. An informer does not keep its factory
    /// alive.
    pub fn factory(&self) -> Option<SharedInformerFactory> {
        self.view.factory.upgrade()
    }

    /// Whether the objects of the resource are in namespaces: as one in the store is or, while there is none, as the informer
    /// was requested. The definition of a custom resource may return with another scope.
    pub fn is_namespaced(&self) -> bool {
        let snapshot = self.view.bound.get().map(|bound| bound.informer.snapshot());
        let stored = snapshot.as_ref().and_then(|snapshot| snapshot.iter().next());
        let requested = || self.view.target.scope == Scope::Namespaced;
        stored.map_or_else(requested, |object| object.key().namespace().is_some())
    }

    /// The namespaces that the informer is restricted to, separated by commas; empty for all objects.
    pub fn scope(&self) -> &str {
        self.shared().scope()
    }

    /// Whether the informer holds the objects of this namespace; `true` for each namespace if its objects are not in
    /// namespaces.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.shared().changes().parts.iter().any(|part| part.has_namespace(namespace))
    }

    /// Whether the informer holds an object in this state, by the namespaces and selectors of its options: for callers
    /// that have the object from elsewhere, such as the response of a write.
    ///
    /// A field selector is compared with the fields of the object. A selector that is invalid matches everything.
    pub fn selects(&self, object: &Packed<K>) -> bool {
        selection::selects(&self.shared().changes().parts, object.object())
    }

    /// Whether objects may have other labels and fields here than on the server: they are changed by a transform or by the
    /// user's [own informer](crate::ResourceOptions::informer), or their labels are dropped.
    pub fn has_transform(&self) -> bool {
        self.shared().changes().has_transform
    }

    /// The fields that are [dropped](crate::ResourceOptions::drop_fields) from each object.
    pub fn dropped_fields(&self) -> &[FieldPath] {
        &self.shared().changes().dropped_fields
    }

    /// The label selector of the informer's requests for the objects of a namespace (of any, if objects are not in
    /// namespaces); `None` if they are not restricted by labels.
    pub fn label_selector(&self, namespace: &str) -> Option<Arc<str>> {
        let [labels, _] = selection::selectors(&self.shared().changes().parts, namespace);
        labels
    }

    /// The field selector of the informer's requests for the objects of a namespace (of any, if objects are not in
    /// namespaces); `None` if they are not restricted by fields.
    pub fn field_selector(&self, namespace: &str) -> Option<Arc<str>> {
        let [_, fields] = selection::selectors(&self.shared().changes().parts, namespace);
        fields
    }

    /// Returns a builder for a handler with a name, resync period, buffer or filter of its own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// let (sender, mut names) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = pods.handler().name("names").for_each(move |event| {
    ///     _ = sender.send(event.key().name().to_owned());
    /// })?;
    /// handler.synced().await?; // all stored objects were delivered
    /// assert_eq!(names.try_recv()?, "web-0");
    /// # Ok(())
    /// # }
    /// ```
    pub fn handler(&self) -> HandlerBuilder<'_, K>
    where
        K: 'static,
    {
        HandlerBuilder::new(self.shared())
    }

    /// Adds a handler with default options: see [`HandlerBuilder::for_each`].
    ///
    /// # Errors
    /// [`InformerError::Stopped`] if the informer has stopped.
    pub fn for_each(
        &self,
        handler: impl FnMut(Event<PackedRef<'_, K>>) + Send + 'static,
    ) -> Result<Registration, Error>
    where
        K: 'static,
    {
        self.handler().for_each(handler)
    }

    /// Returns all events as a stream: see [`HandlerBuilder::stream`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// use futures::StreamExt;
    /// use kinformer::Event;
    ///
    /// let mut events = pods.stream()?;
    /// let Some(Event::Added(added)) = events.next().await else { panic!("no addition") };
    /// assert_eq!(added.object.name(), "web-0");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Stopped`] if the informer has stopped.
    #[track_caller]
    pub fn stream(&self) -> Result<EventStream<K>, Error>
    where
        K: 'static,
    {
        self.handler().stream()
    }

    /// Removes a handler of this informer and waits until its running callback has returned. Returns `false`, without
    /// any effect, if the handler belongs to another informer or was removed before.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// let handler = pods.handler().for_each(|event| println!("{}", event.key()))?;
    /// assert!(pods.remove_handler(&handler).await);
    /// assert!(!pods.remove_handler(&handler).await);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The first poll removes the handler. Dropping the future then only ends the wait for its running callback.
    pub async fn remove_handler(&self, registration: &Registration) -> bool {
        self.shared().remove_handler(registration).await
    }

    /// Returns a lister of the stored objects.
    ///
    /// ```
    /// # use kinformer::Informer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(pods: &Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
    /// let pod = pods.lister().get("default/web-0")?;
    /// println!("{:?}", pod.decode()?.spec);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lister(&self) -> Lister<K> {
        Lister::of(self.shared().objects())
    }

    /// Returns a snapshot of the stored objects. O(1).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// let before = pods.snapshot()?;
    /// let written = server.create(pod("web-1"))?;
    /// let version = written["metadata"]["resourceVersion"].as_str().ok_or("no version")?;
    /// pods.wait_for(("default", "web-1"), &version.into()).await?;
    /// assert_eq!((before.len(), pods.snapshot()?.len()), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the informer was never started.
    pub fn snapshot(&self) -> Result<Snapshot<K>, Error> {
        let informer = self.started()?;
        Ok(Snapshot::new(informer.snapshot(), informer.resource().clone()))
    }

    /// The informer, for a read of its store.
    fn started(&self) -> Result<&KubeInformer, Error> {
        let informer = self.shared();
        informer.started().check(informer.resource())?;
        Ok(informer)
    }

    /// Adds an index by the values that `function` returns for an object. May be called before and after the start.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// pods.index("app", |pod, values| {
    ///     if let Some(app) = pod.label("app") {
    ///         values.push(app);
    ///     }
    ///     Ok(())
    /// })?;
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// assert_eq!(pods.lister().by_index("app", "web")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Indexers`] if the informer has an index of this name, which is unchanged. [`InformerError::Stopped`] if the
    /// informer has stopped.
    ///
    /// Follows client-go 0.37 (`AddIndexers`).
    pub fn index(
        &self,
        name: impl Into<Arc<str>>,
        function: impl Fn(PackedRef<'_, K>, &mut IndexValues) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Result<(), Error>
    where
        K: 'static,
    {
        let index = Box::new(move |object: &Arc<PackedObject>, values: &mut IndexValues| {
            function(PackedRef::new(object), values)
        });
        Ok(self.shared().add_index(name.into(), index)?)
    }

    /// Adds an index by one field: `index_by_field("node", &["spec", "nodeName"])`. Only that field of an object is
    /// decoded.
    ///
    /// The path has the field names of the JSON form, in both encodings and also within JSON in protobuf. The value is
    /// a string, a number or a boolean, the same in both encodings and as in the decoded object. An object in which the
    /// field is missing or null has no value in the index. An object that is broken, or in which the field has another
    /// type, is reported and is not in the index.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// pods.index_by_field("node", &["spec", "nodeName"])?;
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// assert_eq!(pods.lister().by_index("node", "node-1")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::index`].
    ///
    /// Follows controller-runtime 0.25 (`FieldIndexer`).
    pub fn index_by_field(&self, name: impl Into<Arc<str>>, path: &[&str]) -> Result<(), Error> {
        let (name, path) = (name.into(), FieldPath::new(path));
        Ok(self.shared().add_field_index(name, path.clone(), by_field(path))?)
    }

    /// The path of an index that was added by [`Self::index_by_field`]; `None` for other indexes.
    pub fn field_path(&self, index: &str) -> Option<FieldPath> {
        self.shared().field_path(index)
    }

    /// Decodes every object as a `K` when it arrives, and keeps the value: for kinds whose objects are read all the
    /// time. Objects that are already stored are decoded by this call. By default objects are decoded when they are
    /// read.
    ///
    /// The setting applies to the informer and all its views, and cannot be undone. One value is kept for each object:
    /// it has the type for which this was called first, by any view or
    /// [option](crate::SharedInformerFactoryBuilder::decode). Other types are decoded when they are read.
    ///
    /// An object whose decoding fails or panics is logged, reported to the factory's [error
    /// hook](crate::SharedInformerFactoryBuilder::on_error), [counted](Self::undecoded), and stored and delivered
    /// anyway: other views can read it, and [`Packed::decode`](crate::Packed::decode) returns the error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// pods.decode_on_arrival();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// assert!(pods.lister().get(("default", "web-0"))?.is_decoded());
    /// # Ok(())
    /// # }
    /// ```
    pub fn decode_on_arrival(&self) -> &Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        self.shared().decode_on_arrival(DecodeAs::of::<K>());
        self
    }

    /// The number of objects that could not be decoded on arrival.
    pub fn undecoded(&self) -> u64 {
        self.shared().undecoded()
    }

    /// Runs the informer until the token is cancelled or the informer is [removed](Self::remove) or
    /// [released](Self::lease), for callers that do not [start](SharedInformerFactory::start) it through the factory; see
    /// [`SharedIndexInformer::run`](crate::SharedIndexInformer::run). A shutdown of the factory does not stop it.
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll has no effect. Later it stops the informer at once: its requests and the
    /// tasks of its handlers end, undelivered events are lost, and it cannot run again. The store keeps its state.
    ///
    /// # Errors
    /// [`InformerError::Running`] or [`InformerError::Stopped`] at once, since an informer runs only once. [`InformerError::ReflectorEnded`] if
    /// its reflector ended by itself. [`InformerError::Stuck`] at the end if handlers did not return within the grace period.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        Ok(self.view.bound().entry.run(cancel).await?)
    }

    /// Whether both are views of the same informer. An informer that is requested after a removal is another one.
    pub fn is_same_as<M>(&self, other: &Informer<M>) -> bool {
        self.id() == other.id()
    }

    /// A number that all views of this informer have, and no other informer of this process.
    pub fn id(&self) -> u64 {
        self.view.bound().entry.id()
    }

    /// Whether the informer has stopped.
    pub fn is_stopped(&self) -> bool {
        self.phase() == Phase::Stopped
    }

    /// The phase of the informer: not started, running or stopped.
    pub fn phase(&self) -> Phase {
        self.shared().phase()
    }

    /// Waits until the informer has stopped.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer, and a later call returns at once after its end.
    pub async fn stopped(&self) {
        self.shared().stopped().await;
    }

    /// Whether all objects of the first list have been stored.
    pub fn has_synced(&self) -> bool {
        self.shared().has_synced()
    }

    /// Waits, and logs a warning if the informer is still not started after 10 s.
    async fn wait(&self, wait: impl Future<Output = Result<(), InformerError>>) -> Result<(), Error> {
        let informer = self.shared();
        Ok(informer.started().check_wait(informer.name(), wait).await?)
    }

    /// Waits until all objects of the first list have been stored. Any number of callers may wait. If the informer is
    /// still not started after 10 s, a warning is logged, and the wait goes on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// factory.start()?;
    /// pods.wait_for_sync().await?;
    /// assert_eq!(pods.snapshot()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer, and a later call returns at once if it has synced.
    ///
    /// # Errors
    /// [`InformerError::NotSynced`] if the informer stopped before, with its last error.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        self.wait(self.shared().wait_for_sync(None)).await
    }

    /// As [`Self::wait_for_sync`], until a deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    ///
    /// factory.start()?;
    /// pods.wait_for_sync_until(Instant::now() + Duration::from_secs(60)).await?;
    /// assert!(pods.has_synced());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As [`Self::wait_for_sync`].
    ///
    /// # Errors
    /// [`InformerError::NotSynced`] if the informer stopped or the deadline passed before, with its progress and its last
    /// error.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a timer.
    pub async fn wait_for_sync_until(&self, deadline: Instant) -> Result<(), Error> {
        self.wait(self.shared().wait_for_sync(Some(deadline))).await
    }

    /// Waits until the store reflects at least this version, for example the version that a write returned.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// let written = server.create(pod("web-1"))?;
    /// let version = written["metadata"]["resourceVersion"].as_str().ok_or("no version")?;
    /// pods.wait_for(("default", "web-1"), &version.into()).await?;
    /// assert!(pods.lister().get(("default", "web-1")).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future removes its wait. A later call returns at once if the store still has the version: a list may
    /// have set it back since.
    ///
    /// # Errors
    /// [`InformerError::VersionNotReached`] if the informer stopped before, or if the versions cannot be compared; at once if
    /// the part does not exist or the informer does not have the namespace of the key.
    pub async fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Result<(), Error> {
        self.wait(self.shared().wait_for(place.into(), version, None)).await
    }

    /// As [`Self::wait_for`], until a deadline.
    ///
    /// # Cancel safety
    /// As [`Self::wait_for`].
    ///
    /// # Errors
    /// As [`Self::wait_for`], and [`InformerError::VersionNotReached`] at the deadline.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a timer.
    pub async fn wait_for_until<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
        deadline: Instant,
    ) -> Result<(), Error> {
        self.wait(self.shared().wait_for(place.into(), version, Some(deadline))).await
    }

    /// Waits until the store has a state after this [revision](Snapshot::revision). Returns `false` if the informer stops
    /// first. States in between may be missed: [`Self::wait_for_condition`] is called for each.
    ///
    /// ```
    /// # use kinformer::Informer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(pods: Informer<Pod>) -> Result<(), kinformer::Error> {
    /// let pods_before = pods.snapshot()?;
    /// if pods.changed(pods_before.revision()).await {
    ///     let pods_now = pods.snapshot()?;
    ///     println!("{} pods differ", pods_now.changes_since(&pods_before).count());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future removes its wait. A later call returns at once if there is a later state.
    pub async fn changed(&self, revision: u64) -> bool {
        self.shared().changed(revision).await
    }

    /// The parts of the informer, by number: one for each namespace that it is restricted to, else a single part. Each
    /// part has its own reflector.
    pub fn parts(&self) -> &[Part] {
        self.shared().parts()
    }

    /// Returns the error of the server while it does not serve the resource (404): its CustomResourceDefinition was deleted
    /// or is not installed, or the version is not served. Returns [`SourceError::OtherScope`] while the definition has another
    /// scope that the namespaces of the informer do not fit. Returns `None` otherwise.
    ///
    /// The informer continues: it requests the resource at most once a minute, and when [`Self::retry_if_not_served`] is
    /// called. It lists the resource when it is served again, with any schema. The store keeps its objects
    /// for 10 minutes; [`ReflectorHandle::not_served`](kinformer_reflector::ReflectorHandle::not_served) has the details.
    pub fn not_served(&self) -> Option<Arc<SourceError>> {
        self.parts().iter().find_map(|part| part.reflector().not_served())
    }

    /// Returns the error with which the server refuses to watch the resource, while it does: the store is then only as fresh
    /// as the last list. Returns `None` otherwise. See
    /// [`ReflectorHandle::not_watchable`](kinformer_reflector::ReflectorHandle::not_watchable).
    pub fn not_watchable(&self) -> Option<Arc<SourceError>> {
        self.parts().iter().find_map(|part| part.reflector().not_watchable())
    }

    /// Makes an informer whose resource is [not served](Self::not_served) request it now, at most once a second. Has no effect
    /// on other informers. See
    /// [`ReflectorHandle::retry_if_not_served`](kinformer_reflector::ReflectorHandle::retry_if_not_served).
    pub fn retry_if_not_served(&self) {
        self.parts().iter().for_each(|part| part.reflector().retry_if_not_served());
    }

    /// The current metrics of the informer.
    pub fn metrics(&self) -> InformerMetrics {
        self.shared().metrics()
    }

    /// Adds the informer to a collector of metrics.
    ///
    /// # Errors
    /// [`InformerError::DuplicateMetrics`] if an informer with the same name, resource, cluster and scope is registered.
    #[cfg(feature = "prometheus")]
    pub fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), Error> {
        Ok(self.shared().add_to(collector)?)
    }

    /// Returns a lease, which keeps the informer running. When the last lease is released or dropped, the informer
    /// stops, and its watch and its objects are dropped. An informer that the factory keeps, because a view was used,
    /// continues to run.
    ///
    /// The lease belongs to the informer to which this view is bound, even if that has stopped; for an unbound view, to
    /// the factory's current informer.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// # async fn example(factory: &SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
    /// let secrets = factory.informer::<Secret>().lease();
    /// factory.start()?;
    /// secrets.wait_for_sync().await?;
    /// secrets.release().await; // ends its watch, and drops its objects
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(&self) -> InformerLease<K> {
        let lease = self.view.lease();
        InformerLease { informer: Self::of(lease.view.clone()), lease }
    }

    /// Stops the informer, regardless of its holders, and waits until it has stopped. Returns `false` if it was removed
    /// or released before, or if the factory has no such informer.
    ///
    /// Bound views and their leases stay with the stopped informer. A later request to the factory creates a new
    /// informer. If the caller [runs](Self::run) the informer, it stops when that future is polled. A handler of the
    /// informer must not await this: the informer would wait for the handler until the end of its
    /// [grace](crate::SharedInformerFactoryBuilder::grace) period.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// assert!(pods.remove().await);
    /// assert!(pods.is_stopped());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The first poll stops the informer and removes it from the factory. Dropping the future then only ends the wait.
    pub async fn remove(&self) -> bool {
        self.view.remove().await
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self::of(self.view.clone())
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view.bound.get() {
            Some(bound) => bound.informer.fmt(f),
            None => f
                .debug_struct("Informer")
                .field("resource", &versioned_name(&self.view.target.resource))
                .finish_non_exhaustive(),
        }
    }
}

/// A lease of an informer, which stops when its last lease is released or dropped, unless the factory keeps it.
pub struct InformerLease<K> {
    informer: Informer<K>,
    lease: Lease,
}

/// An [`InformerLease`] without the type of its objects.
struct Lease {
    view: Arc<View>,
    entry: Arc<Entry>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(factory) = self.view.factory.upgrade() {
            factory.give_back(&self.entry);
        }
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        // This lease holds the informer, so it has not been released, unless it was removed, and then it has stopped.
        self.entry.lease();
        Self { view: self.view.clone(), entry: self.entry.clone() }
    }
}

impl<K> InformerLease<K> {
    /// Releases the lease and, if it was the last one, waits until the informer has stopped.
    ///
    /// A handler of the informer must not await this; see [`Informer::remove`].
    ///
    /// # Cancel safety
    /// The lease is released by the first poll, or when the future is dropped. Dropping the future then only ends the
    /// wait: the informer still stops.
    pub async fn release(self) {
        let entry = self.lease.entry.clone();
        drop(self);
        if entry.is_released() {
            entry.ended().await;
        }
    }
}

impl<K> Deref for InformerLease<K> {
    type Target = Informer<K>;

    fn deref(&self) -> &Informer<K> {
        &self.informer
    }
}

impl<K> Clone for InformerLease<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), lease: self.lease.clone() }
    }
}

impl<K> fmt::Debug for InformerLease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerLease").field(&self.informer).finish()
    }
}
