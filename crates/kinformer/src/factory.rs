//! The factory of shared informers: one informer for each resource and projection.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Weak};

use dashmap::DashMap;
use futures::future::join_all;
use kinformer_core::{Object, Wait};
use kinformer_kube::{KubeListerWatcher, PackedObject};
use kinformer_reflector::ListerWatcher;
use kinformer_shared_informer::{SharedIndexInformer, SharedIndexInformerBuilder, Sources};
use kinformer_store::{IndexFunction, NAMESPACE_INDEX};
use kube_client::Client;
use kube_core::discovery::ApiResource;
use kube_core::gvk::GroupVersionResource;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::any_informer::AnyInformer;
use crate::arrival::Arrival;
use crate::entry::{Entry, Key, Registered, Start};
use crate::error::Error;
use crate::kind::{resource_name, versioned_name};
use crate::kube_informer::{Changes, KubeInformer};
use crate::options::{Options, SharedInformerFactoryBuilder};
use crate::own_informer::{NewInformer, NotBuilt};
use crate::projection::{Decision, ProjectedSource, Projection};
use crate::selection::{self, Selected};
use crate::sync::CacheSync;
use crate::target::{Bound, Target};

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
/// Follows client-go 0.37 (`SharedInformerFactory`, `DynamicSharedInformerFactory`, and
/// `metadatainformer.SharedInformerFactory`), which has three factories where this crate has one.
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

/// Returns the informer of a resource that has these objects now: for metadata, that of the whole objects if there is one.
fn having(entries: &[Arc<Entry>], projection: Projection) -> Option<&Arc<Entry>> {
    let whole = entries.iter().find(|entry| entry.projection() == Projection::Whole);
    whole.or_else(|| entries.first().filter(|_| projection == Projection::Metadata))
}

impl SharedInformerFactory {
    /// Creates a factory with the defaults: all namespaces, no resync.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// Returns a builder, which sets the options of a factory.
    pub fn builder(client: Client) -> SharedInformerFactoryBuilder {
        SharedInformerFactoryBuilder::new(client)
    }

    fn from_options(client: Client, options: Options) -> Self {
        let inner = Inner {
            client,
            options: Arc::new(options),
            informers: DashMap::new(),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            stuck: Arc::default(),
            down: Mutex::new(false),
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
    /// # Errors
    /// The error that `make` returned.
    ///
    /// Follows client-go 0.37 (`InformerFor`).
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

    /// Creates the informer without a holder if there is none.
    pub(crate) fn request(&self, target: &Target) {
        let make = || Ok::<_, Infallible>(self.make(target));
        let Ok(_) = self.entry((&target.key(), target.projection), make);
    }

    /// Returns the informer of a target, after `hold` has registered a holder.
    fn bind(&self, target: &Target, hold: fn(&Entry) -> bool) -> Bound {
        let make = || Ok::<_, Infallible>(self.make(target));
        let kube_informer = |entry: &Entry| entry.kube_informer().cloned();
        let Ok((entry, informer)) = self.hold((&target.key(), target.projection), hold, make, kube_informer);
        Bound { entry, informer }
    }

    fn make(&self, target: &Target) -> Registered {
        registered(target, make(&self.inner.client, &self.inner.options, target))
    }

    /// Whether the factory has an informer of this resource, whatever its type: one that was requested and has not been
    /// released or removed since. An informer of whole objects has their metadata as well. One of metadata that has not
    /// started yet does not have whole objects, although a request would make it fetch them.
    pub fn has_informer(&self, resource: &ApiResource, projection: Projection) -> bool {
        self.having(&Key::of_resource(resource), projection).is_some()
    }

    fn having(&self, key: &Key, projection: Projection) -> Option<Arc<Entry>> {
        having(&self.inner.informers.get(key)?, projection).cloned()
    }

    /// Returns the entries of all versions of a resource, ordered by version and projection.
    pub(crate) fn entries_of(&self, group: &str, plural: &str) -> Vec<Arc<Entry>> {
        self.inner.entries_with(|key| key.is_version_of(group, plural))
    }

    /// Makes the informers of these resources request them now, if the server did not serve them until now: for callers that
    /// have learnt that it does. See [`InformerStatus::retry_if_not_served`](crate::InformerStatus::retry_if_not_served).
    pub fn retry_not_served(&self, is_served: impl Fn(&GroupVersionResource) -> bool) {
        for entry in self.inner.entries() {
            let is_wanted = entry.key().to_resource().is_some_and(|resource| is_served(&resource));
            if let Some(informer) = entry.kube_informer().filter(|_| is_wanted) {
                informer.parts().iter().for_each(|part| part.reflector().retry_if_not_served());
            }
        }
    }

    /// Stops the informer of a target, regardless of its holders, and removes it. Returns `false` if there was none, or if
    /// it was removed or released before.
    pub(crate) async fn remove_target(&self, target: &Target) -> bool {
        match self.having(&target.key(), target.projection) {
            Some(entry) => self.remove_entry(&entry).await,
            None => false,
        }
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
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
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
    pub fn start(&self) -> Result<(), Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let starts: Vec<Start> = {
            let down = self.inner.down.lock();
            if *down {
                return Ok(());
            }
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
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
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
    pub fn wait_for_cache_sync(&self) -> Wait<impl Future<Output = CacheSync>, impl Fn() -> CacheSync> {
        let entries = self.inner.entries();
        let outcome = |entry: &Entry, synced| (Arc::<str>::from(entry.name()), synced);
        let at_deadline = {
            let entries = entries.clone();
            move || {
                let held = entries.iter().filter(|entry| !entry.is_released());
                CacheSync::new(held.map(|entry| outcome(entry, entry.synced_at_deadline())).collect())
            }
        };
        let wait = async move {
            let waits = entries.iter().map(async |entry| {
                let synced = entry.synced().await;
                (!entry.is_released()).then(|| outcome(entry, synced))
            });
            CacheSync::new(join_all(waits).await.into_iter().flatten().collect())
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
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
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

    /// Returns the entry for this request, and creates it if there is none. `make` may be user code and is called without a
    /// lock.
    fn entry<E>(
        &self,
        (key, projection): (&Key, Projection),
        make: impl FnOnce() -> Result<Registered, E>,
    ) -> Result<Arc<Entry>, E> {
        if let Some(entry) = self.having(key, projection) {
            return Ok(entry);
        }
        let new = Arc::new(Entry::new(key.clone(), make()?));
        let mut unused = Vec::new();
        let (entry, is_second) = {
            let mut entries = self.inner.informers.entry(key.clone()).or_default();
            if let Some(entry) = having(&entries, projection) {
                return Ok(entry.clone());
            }
            // Only of metadata, if any: one without a holder makes room for the new one, which has the right name.
            unused.extend(entries.extract_if(.., |entry| entry.release_unused()));
            match entries.iter().find(|entry| entry.request_whole()) {
                Some(entry) => (entry.clone(), false),
                None => {
                    entries.push(new.clone());
                    (new, entries.len() > 1)
                }
            }
        };
        unused.iter().for_each(|entry| _ = entry.stop());
        if is_second {
            tracing::info!(
                informer = entry.name(),
                "second informer of a resource: the first has only metadata; set whole_objects to have one"
            );
        }
        if self.is_shut_down() {
            entry.discard();
        }
        Ok(entry)
    }

    /// Returns the entry of this key and its informer, after `hold` has registered a holder.
    fn hold<I, E>(
        &self,
        key: (&Key, Projection),
        hold: impl Fn(&Entry) -> bool,
        make: impl Fn() -> Result<Registered, E>,
        informer: impl Fn(&Entry) -> Option<I>,
    ) -> Result<(Arc<Entry>, I), E> {
        loop {
            let entry = self.entry(key, &make)?;
            // The entry may have been released since it was found.
            if hold(&entry)
                && let Some(informer) = informer(&entry)
            {
                return Ok((entry, informer));
            }
        }
    }

    /// Returns a lease. The informer stops with its last lease, unless the factory keeps it.
    pub(crate) fn give_back(&self, entry: &Arc<Entry>) {
        if !entry.give_back() {
            self.forget(entry);
            entry.stop();
        }
    }

    /// Removes an entry from the registry.
    fn forget(&self, entry: &Arc<Entry>) {
        self.inner.informers.remove_if_mut(entry.key(), |_, entries| {
            entries.retain(|other| !Arc::ptr_eq(other, entry));
            entries.is_empty()
        });
    }

    /// Stops an informer, regardless of its holders, and removes it. Returns `false` if it was removed or released
    /// before.
    pub(crate) async fn remove_entry(&self, entry: &Arc<Entry>) -> bool {
        self.forget(entry);
        let first = entry.stop();
        entry.ended().await;
        first
    }
}

fn registered(target: &Target, informer: Arc<KubeInformer>) -> Registered {
    Registered::Kubernetes { informer, resource: target.resource.clone(), scope: target.scope.clone() }
}

/// Creates an informer of Kubernetes objects with the factory's options and the index by namespace.
fn make(client: &Client, options: &Options, target: &Target) -> Arc<KubeInformer> {
    let resource = &target.resource;
    let parts = options.parts(resource, &target.scope);
    let cache = options.decoded_cache(resource);
    let dropped_fields = options.dropped(resource).cloned().collect();
    let source = |projection, part: &Selected| {
        let (client, of) = (client.clone(), resource.clone());
        let source = match projection {
            Projection::Whole => KubeListerWatcher::packed_dynamic(client, of),
            Projection::Metadata => KubeListerWatcher::packed_metadata(client, of),
        };
        options.restrict(source, resource, part, &cache)
    };
    let whole = |part: &Selected| source(Projection::Whole, part);
    let projection = options.projection(resource, target.projection);
    let decision = Decision::default();
    let name = projection.named(versioned_name(resource));
    let display_name = projection.named(resource_name(resource));
    let builder = |sources| {
        let builder = options.kubernetes_builder(sources, resource, &display_name, &name, &cache);
        builder.scope(selection::names(&parts))
    };
    let arrival = Arrival::new(options.informer_name(&name), options.decode(resource), options.error_hook());
    let arrival = Arc::new(arrival);
    let decoding = |builder: SharedIndexInformerBuilder<PackedObject>| {
        let arrival = arrival.clone();
        builder.on_arrival(move |object| arrival.decode(object))
    };
    #[expect(
        clippy::expect_used,
        reason = "the only error is two indexes with one name, and there is one index"
    )]
    let built = |sources| {
        let builder = decoding(builder(sources)).index(NAMESPACE_INDEX, IndexFunction::by_namespace());
        builder.build().expect("one index")
    };
    let own = options.own_informer(resource).map(|own| {
        let new = NewInformer { resource, parts: &parts, source: &whole, builder: &builder };
        let informer = match decoding(own(new)).build() {
            Ok(informer) => informer,
            Err(error) => built(Sources::one(NotBuilt(error))),
        };
        // The only error: it has an index of this name.
        _ = informer.add_indexers([(NAMESPACE_INDEX, IndexFunction::by_namespace())]);
        informer
    });
    let has_transform = own.is_some() || options.has_transform(resource);
    let informer = own.unwrap_or_else(|| {
        built(match projection {
            Projection::Whole => selection::sources(&parts, whole),
            Projection::Metadata => selection::sources(&parts, |part| {
                ProjectedSource::new(|projection| source(projection, part), decision.clone())
            }),
        })
    });
    if projection == Projection::Whole {
        decision.request_whole();
    }
    let changes = Changes { parts, has_transform, dropped_fields };
    Arc::new(KubeInformer::new(informer, resource_name(resource).into(), arrival, changes, decision))
}

/// A weak handle to a factory.
#[derive(Clone)]
pub(crate) struct WeakFactory {
    inner: Weak<Inner>,
    client: Client,
    options: Arc<Options>,
}

impl SharedInformerFactory {
    pub(crate) fn downgrade(&self) -> WeakFactory {
        let (client, options) = (self.client().clone(), self.inner.options.clone());
        WeakFactory { inner: Arc::downgrade(&self.inner), client, options }
    }
}

impl WeakFactory {
    pub(crate) fn upgrade(&self) -> Option<SharedInformerFactory> {
        self.inner.upgrade().map(|inner| SharedInformerFactory { inner })
    }

    /// As [`SharedInformerFactory::bind`]. Returns a stopped informer if the factory was dropped.
    pub(crate) fn bind(&self, target: &Target, hold: fn(&Entry) -> bool) -> Bound {
        if let Some(factory) = self.upgrade() {
            return factory.bind(target, hold);
        }
        let informer = make(&self.client, &self.options, target);
        let entry = Arc::new(Entry::new(target.key(), registered(target, informer.clone())));
        entry.stop();
        Bound { entry, informer }
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
