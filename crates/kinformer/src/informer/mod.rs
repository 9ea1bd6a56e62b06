//! The informer of one resource, with the type of its objects.

mod condition;
mod handlers;
mod lease;
mod reads;
mod scope;
mod selection;
mod status;
mod view;
mod waits;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;
use tokio_util::sync::CancellationToken;

pub use self::lease::InformerLease;
pub use self::selection::InformerSelection;
pub use self::status::InformerStatus;
use self::view::View;
use crate::Error;
use crate::entry::Entry;
use crate::factory::SharedInformerFactory;
use crate::kind::versioned_name;
use crate::kube_informer::KubeInformer;
use crate::target::Target;

/// An informer of one resource that decodes its objects as a `K`.
///
/// All informers of one resource that a factory returns are views of the same informer, whatever their types: a
/// built-in kind, [dynamic objects](Self::dynamic), or a custom type with some of the fields. They share one watch, one
/// store and its indexes. There are two informers of a resource only if whole objects are requested after an informer of
/// their metadata has started; see [`InformerSelection::projection`]. Cheap to clone.
///
/// An informer runs from the factory's next [start](SharedInformerFactory::start). The first call of any method but
/// [`lease`](Self::lease) and [`remove`](Self::remove) binds this view and its clones to the informer, and the factory
/// keeps the informer until its shutdown. A bound view never becomes a view of another informer, even if its informer
/// is removed.
///
/// ```
/// # use kinformer::SharedInformerFactory;
/// # async fn example(factory: &SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
/// let deployments = factory.apps().v1().deployments();
/// deployments.for_each(|event| println!("{}", event.key()))?; // at any time, any number of handlers
/// deployments.index("image", |deployment, values| {
///     let deployment = deployment.decode()?;
///     let containers = deployment.spec.template.spec.iter().flat_map(|pod| &pod.containers);
///     containers.filter_map(|container| container.image.as_ref()).for_each(|image| values.push(image));
///     Ok(())
/// })?;
///
/// factory.start()?;
/// deployments.wait_for_sync().await?;
/// println!("{} deployments of nginx", deployments.lister().by_index("image", "nginx:1")?.len());
/// # Ok(())
/// # }
/// ```
///
/// Follows client-go 0.37 (`SharedIndexInformer`, `GenericInformer`, and the typed informers such as `PodInformer`).
#[doc(alias("GenericInformer", "SharedIndexInformer", "SharedInformer"))]
pub struct Informer<K> {
    view: Arc<View>,
    kind: PhantomData<fn() -> K>,
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

    fn kube(&self) -> &KubeInformer {
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
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
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
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
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
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::kube_core::DynamicObject;
    /// use kinformer::kube_core::metadata::PartialObjectMeta;
    /// use kinformer::{BoxError, Informer};
    ///
    /// /// Works for any kind, as only the metadata is decoded.
    /// fn owners(of: &Informer<PartialObjectMeta<DynamicObject>>, key: &str) -> Result<Vec<String>, BoxError> {
    ///     let object = of.lister().get(key)?;
    ///     let owners = object.decode()?.metadata.owner_references.clone();
    ///     Ok(owners.into_iter().flatten().map(|owner| owner.name).collect())
    /// }
    ///
    /// # fn example(pods: &Informer<Pod>) -> Result<(), BoxError> {
    /// println!("{:?}", owners(&pods.metadata(), "default/web-0")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn metadata(&self) -> Informer<PartialObjectMeta<DynamicObject>> {
        self.cast()
    }

    /// The name of the informer in messages and metrics.
    pub fn name(&self) -> &str {
        self.kube().name()
    }

    /// Returns the factory; `None` if it was dropped, and the informer has stopped with it. An informer does not keep its factory
    /// alive.
    pub fn factory(&self) -> Option<SharedInformerFactory> {
        self.view.factory.upgrade()
    }

    /// Runs the informer until the token is cancelled or the informer is [removed](Self::remove) or
    /// [released](Self::lease), for callers that do not [start](SharedInformerFactory::start) it through the factory; see
    /// [`SharedIndexInformer::run`](crate::SharedIndexInformer::run). A shutdown of the factory does not stop it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// use kinformer::CancellationToken;
    ///
    /// let (pods, cancel) = (factory.core().v1().pods(), CancellationToken::new());
    /// let work = async {
    ///     pods.wait_for_sync().await?;
    ///     println!("{} pods", pods.snapshot()?.len());
    ///     cancel.cancel();
    ///     Ok::<_, kinformer::Error>(())
    /// };
    /// tokio::try_join!(pods.run(cancel.clone()), work)?; // no task of its own
    /// assert!(pods.status().is_stopped());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll has no effect. Later it stops the informer at once: its requests and the
    /// tasks of its handlers end, undelivered events are lost, and it cannot run again. The store keeps its state.
    ///
    /// # Errors
    /// [`InformerError::Running`](crate::InformerError::Running) or [`InformerError::Stopped`](crate::InformerError::Stopped) at once, since an informer runs only once. [`InformerError::ReflectorEnded`](crate::InformerError::ReflectorEnded) if
    /// its reflector ended by itself. [`InformerError::Stuck`](crate::InformerError::Stuck) at the end if handlers did not return within the grace period.
    #[doc(alias = "RunWithContext")]
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        Ok(self.view.bound().entry.run(cancel).await?)
    }

    /// A number that all views of this informer have, and no other informer of this process. An informer that is requested
    /// after a removal is another one.
    pub fn id(&self) -> u64 {
        self.view.bound().entry.id()
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
