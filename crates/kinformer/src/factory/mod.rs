//! The factory of shared informers: one informer for each resource and projection.

mod new_informer;
mod registry;
mod scope;
mod weak;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use futures::future::join_all;
use kinformer_core::{Object, Wait};
use kinformer_reflector::ListerWatcher;
use kinformer_shared_informer::{SharedIndexInformer, SharedIndexInformerBuilder, Sources};
use kube_client::Client;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::weak::WeakFactory;
use crate::any_informer::AnyInformer;
use crate::entry::{Entry, Key, Registered, Start};
use crate::error::Error;
use crate::options::{Options, SharedInformerFactoryBuilder};
use crate::projection::Projection;
use crate::sync::CacheSync;

/// A factory of shared informers: one for each resource, however often it is requested and as whatever type.
///
/// Cheap to clone; all clones are handles to the same factory. Informers run from the next [`start`](Self::start) until
/// [`shutdown`](Self::shutdown), until they are [released](crate::InformerLease), or until the last clone of the
/// factory is dropped.
///
/// The methods for the built-in kinds are in [`accessors`](crate::accessors).
///
/// Objects are [packed](kinformer_kube::Packed): stored as received, and decoded when they are read or when they arrive
/// ([`Decode`](crate::Decode)).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = kinformer::client(kube_client::Config::new("http://localhost".parse()?))?;
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer::SharedInformerFactory;
///
/// let factory = SharedInformerFactory::new(client);
/// // Parts of a program that do not know each other share one watch and one store of pods.
/// let (one, other) = (factory.core().v1().pods(), factory.informer::<Pod>());
/// assert_eq!(one.id(), other.id());
/// assert_eq!(factory.informers().len(), 1);
/// # Ok(())
/// # }
/// ```
///
/// Follows client-go 0.37 (`SharedInformerFactory`, `DynamicSharedInformerFactory`, and
/// `metadatainformer.SharedInformerFactory`), which has three factories where this crate has one.
#[doc(alias = "DynamicSharedInformerFactory")]
#[derive(Clone)]
pub struct SharedInformerFactory {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    options: Arc<Options>,
    informers: DashMap<Key, Vec<Arc<Entry>>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
    /// The errors of informers whose handlers did not return within the grace period.
    stuck: Arc<Mutex<Vec<kinformer_shared_informer::Error>>>,
    /// Whether the factory is shut down. Locked while informers are started, so that none can start during a shutdown.
    down: Mutex<bool>,
    is_started: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.discard();
    }
}

impl SharedInformerFactoryBuilder {
    /// Builds the factory.
    pub fn build(self) -> SharedInformerFactory {
        SharedInformerFactory::from_options(self.client, self.options)
    }
}

impl Inner {
    /// Ends the informers that were never started, so that waits for them return.
    fn discard(&self) {
        self.entries().iter().for_each(|entry| entry.discard());
    }

    /// Returns all informers, ordered by key and projection.
    fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries_with(|_| true)
    }

    fn entries_with(&self, is_such: impl Fn(&Key) -> bool) -> Vec<Arc<Entry>> {
        let found = self.informers.iter().filter(|place| is_such(place.key()));
        let mut entries: Vec<_> = found.flat_map(|place| place.value().clone()).collect();
        entries.sort_by_key(|entry| (entry.key().clone(), entry.projection()));
        entries
    }
}

impl SharedInformerFactory {
    /// Creates a factory with the defaults: all namespaces, no resync.
    #[doc(alias = "NewSharedInformerFactory")]
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// Returns a builder, which sets the options of a factory.
    #[doc(alias(
        "NewFilteredDynamicSharedInformerFactory",
        "NewFilteredSharedInformerFactory",
        "NewSharedInformerFactoryWithOptions"
    ))]
    pub fn builder(client: Client) -> SharedInformerFactoryBuilder {
        SharedInformerFactoryBuilder::new(client)
    }

    fn from_options(client: Client, mut options: Options) -> Self {
        // A builder may build several factories.
        options.scope = Arc::default();
        let inner = Inner {
            client,
            options: Arc::new(options),
            informers: DashMap::new(),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            stuck: Arc::default(),
            down: Mutex::new(false),
            is_started: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The client that the informers use.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Returns the informer of a type, created by `make` if the factory has none: for types that are not Kubernetes'
    /// own, and for informers with indexes or other special settings. [`Self::builder_for`] returns a builder with the
    /// factory's options. If two callers create the informer at the same time, one of the two is used and the other is
    /// dropped.
    ///
    /// ```
    /// use kinformer::generic::ListerWatcher;
    /// use kinformer::{InformerError, Keyed, SharedIndexInformer, SharedInformerFactory};
    ///
    /// /// Ports of hosts, from a source that is not a Kubernetes API server.
    /// fn ports(
    ///     factory: &SharedInformerFactory,
    ///     source: impl ListerWatcher<Keyed<u16>> + Clone + 'static,
    /// ) -> Result<SharedIndexInformer<Keyed<u16>>, InformerError> {
    ///     factory.informer_with(|factory| factory.builder_for(source.clone(), "ports").build())
    /// }
    /// ```
    ///
    /// # Errors
    /// The error that `make` returned.
    ///
    /// Follows client-go 0.37 (`InformerFor`).
    #[doc(alias = "InformerFor")]
    pub fn informer_with<T: Object, E>(
        &self,
        make: impl Fn(&Self) -> Result<SharedIndexInformer<T>, E>,
    ) -> Result<SharedIndexInformer<T>, E> {
        let made = || make(self).map(|informer| Registered::Own(Arc::new(informer) as Arc<dyn AnyInformer>));
        let key = Key::of_type::<T>();
        let key = (&key, Projection::Whole);
        self.hold(key, Entry::keep, made, Entry::informer).map(|(_, informer)| informer)
    }

    /// Returns an informer builder with the options of the factory that apply to every informer, whatever its source:
    /// name, cluster, resync period, reflector, error hook and grace period. Options of single resources, such as
    /// transforms and dropped fields, and options of Kubernetes requests, such as namespaces and the encoding, belong
    /// to the source and are not applied, nor is the [queue](crate::SharedInformerFactoryBuilder::queue), which has the
    /// type of the objects.
    pub fn builder_for<T: Object>(
        &self,
        source: impl ListerWatcher<T> + 'static,
        resource: &str,
    ) -> SharedIndexInformerBuilder<T> {
        self.inner.options.builder_for(Sources::one(source), resource, resource)
    }

    /// Starts every informer that does not run yet, on the current runtime. May be called any number of times. Does
    /// nothing after [`Self::shutdown`].
    ///
    /// If the runtime ends before an informer has begun to run, the informer stays unstarted and the next `start` runs
    /// it. An informer that has begun to run stops with its runtime.
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
    /// assert!(!pods.has_synced());
    /// factory.start()?;
    /// factory.wait_for_cache_sync().await.into_result()?;
    /// assert!(pods.has_synced());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoRuntime`] outside a tokio runtime.
    #[doc(alias = "StartWithContext")]
    pub fn start(&self) -> Result<(), Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let starts: Vec<Start> = {
            let down = self.inner.down.lock();
            if *down {
                return Ok(());
            }
            self.inner.is_started.store(true, Ordering::Release);
            // From here on a shutdown waits for these informers.
            let begin = |entry: &Arc<Entry>| entry.begin(&self.inner.cancel, || self.inner.tasks.token());
            self.inner.entries().iter().filter_map(begin).collect()
        };
        // A runtime that has ended drops the task and its captures within `spawn`.
        for mut start in starts {
            let stuck = self.inner.stuck.clone();
            runtime.spawn(async move {
                let Some((informer, error)) = start.run().await else { return };
                tracing::error!(%informer, %error, "informer ended with an error");
                // Any other error means that another caller runs the informer and receives its result.
                if matches!(error, kinformer_shared_informer::Error::Stuck { .. }) {
                    stuck.lock().push(error);
                }
            });
        }
        Ok(())
    }

    /// Whether [`Self::start`] was called.
    pub fn is_started(&self) -> bool {
        self.inner.is_started.load(Ordering::Acquire)
    }

    /// Waits until every informer has synced, and returns the outcome for each.
    ///
    /// Informers that were not started, such as those requested after the last [`Self::start`], are not waited for;
    /// their outcome is [`InformerError::NotStarted`](crate::InformerError::NotStarted). Informers that are
    /// [released](crate::InformerLease) or [removed](crate::Informer::remove) during the wait are left out.
    ///
    /// client-go 0.37 (`WaitForCacheSync`) leaves out informers that were not started, so a program that forgets
    /// `Start` reads empty listers.
    ///
    /// The wait for an informer that cannot sync lasts until the informer stops, or until [a deadline](Wait::until): the
    /// outcome of an informer that has not synced by then is [`InformerError::NotSynced`](crate::InformerError::NotSynced).
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
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    ///
    /// factory.start()?;
    /// let synced = factory.wait_for_cache_sync().until(Instant::now() + Duration::from_secs(60)).await;
    /// synced.into_result()?; // an error names the informers that have not synced, with their last errors
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the informers continue to sync, and a later call returns their outcome.
    #[doc(alias("WaitFor", "WaitForCacheSyncWithContext"))]
    pub fn wait_for_cache_sync(&self) -> Wait<impl Future<Output = CacheSync>, impl Fn() -> CacheSync> {
        /// The informers when the wait begins, and the outcomes of those that are not waited for any longer.
        type Waits = OnceLock<Vec<(Arc<Entry>, OnceLock<Result<(), kinformer_shared_informer::Error>>)>>;
        let waits: Arc<Waits> = Arc::default();
        let outcomes = |waits: &Waits| {
            let held = waits.get().into_iter().flatten().filter(|(entry, _)| !entry.is_released());
            let outcome = |(entry, synced): &(Arc<Entry>, OnceLock<_>)| {
                let synced = synced.get().cloned().unwrap_or_else(|| entry.synced_at_deadline());
                (Arc::<str>::from(entry.name()), synced)
            };
            CacheSync::new(held.map(outcome).collect())
        };
        let at_deadline = {
            let waits = waits.clone();
            move || outcomes(&waits)
        };
        let wait = async move {
            let entries = || self.inner.entries().into_iter().map(|entry| (entry, OnceLock::new()));
            let waiting = waits.get_or_init(|| entries().collect());
            join_all(waiting.iter().map(async |(entry, synced)| synced.set(entry.synced().await))).await;
            outcomes(&waits)
        };
        Wait::new(wait, at_deadline)
    }

    /// Stops every informer that the factory has started, and waits for all their tasks. Informers that were not started
    /// end as well; those that a caller [runs](crate::Informer::run) continue. May be called any number of times; each
    /// call waits.
    ///
    /// Returns within the grace period of the informers, whatever their handlers do. A handler that awaits this is one that
    /// does not return.
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
    /// factory.shutdown().await?;
    /// assert!(factory.is_shut_down() && pods.status().is_stopped());
    /// assert_eq!(pods.snapshot()?.len(), 1, "the objects can still be read");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The informers are stopped by the first poll. Dropping the future then only ends the wait: the tasks still end,
    /// and another call waits for them and returns the same error.
    ///
    /// # Errors
    /// [`Error::Stuck`]: handlers did not return within the grace period.
    pub async fn shutdown(&self) -> Result<(), Error> {
        *self.inner.down.lock() = true;
        self.inner.cancel.cancel();
        self.inner.discard();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        let stuck = self.inner.stuck.lock().clone();
        if stuck.is_empty() { Ok(()) } else { Err(Error::Stuck { informers: stuck }) }
    }

    /// Whether [`Self::shutdown`] was called. Informers that are requested after that are stopped from the beginning.
    pub fn is_shut_down(&self) -> bool {
        *self.inner.down.lock()
    }
}

/// Shows the options and the names of the informers.
impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informers: Vec<_> = self.inner.entries().iter().map(|entry| entry.name().to_owned()).collect();
        f.debug_struct("SharedInformerFactory")
            .field("options", &self.inner.options)
            .field("informers", &informers)
            .finish_non_exhaustive()
    }
}
