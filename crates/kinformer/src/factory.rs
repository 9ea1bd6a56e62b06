//! One informer for each resource, shared by all who ask for it.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Weak};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry as Place;
use futures::future::join_all;
use kinformer_core::Object;
use kinformer_kube::KubeListerWatcher;
use kinformer_reflector::ListerWatcher;
use kinformer_shared_informer::{SharedIndexInformer, SharedIndexInformerBuilder, Sources};
use kinformer_store::{IndexFunction, NAMESPACE_INDEX};
use kube_client::Client;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::arrival::Arrival;
use crate::engine::kube_engine::KubeEngine;
use crate::engine::projection::{Projection, Switch, SwitchedSource};
use crate::engine::{Engine, Managed};
use crate::entry::{Entry, Held, Key, Registered, Start};
use crate::error::Error;
use crate::kind::{resource_name, versioned_name};
use crate::options::{Options, SharedInformerFactoryBuilder};
use crate::sync::CacheSync;
use crate::target::{Bound, Target};

/// Gives out shared informers: one for each resource, however often and as whatever type it is asked for.
///
/// Cheap to clone; all clones are the same factory. Informers run from the next [`start`](Self::start) on until
/// [`shutdown`](Self::shutdown), until they are [released](crate::InformerLease), or until the last clone is dropped.
///
/// The methods for the built-in kinds are in [`accessors`](crate::accessors).
///
/// Objects are [packed](kinformer_kube::Packed): kept as they come, and decoded when they are read or when they arrive
/// ([`Decode`](crate::Decode)).
///
/// Follows client-go 1.37 (`SharedInformerFactory`, `DynamicSharedInformerFactory`, and the metadata one: here they
/// are one).
#[derive(Clone)]
pub struct SharedInformerFactory {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    options: Arc<Options>,
    informers: DashMap<Key, Arc<Entry>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
    /// The informers whose handlers did not return in time.
    stuck: Arc<Mutex<Vec<kinformer_shared_informer::Error>>>,
    /// Shut down. Held while informers are started: so that none is started behind a shutdown's back.
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
    /// Ends what was never started and never will be, so that nobody waits for it.
    fn discard(&self) {
        let informers: Vec<_> = self.informers.iter().map(|entry| entry.managed()).collect();
        informers.iter().for_each(|informer| informer.discard());
    }
}

impl SharedInformerFactory {
    /// A factory with the defaults: all namespaces, no resync.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// For a factory with options.
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

    /// The client that its informers use.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The informer of a type, made by the given function if there is none: for types that are not Kubernetes' own,
    /// and for informers with indexes or other particular settings. [`Self::builder_for`] begins one with the
    /// factory's options. If two make one at the same time, one of the two is used and the other dropped.
    ///
    /// # Errors
    /// Those of the function.
    ///
    /// Follows client-go 1.37 (`InformerFor`).
    pub fn informer_with<T: Object, E>(
        &self,
        make: impl Fn(&Self) -> Result<SharedIndexInformer<T>, E>,
    ) -> Result<SharedIndexInformer<T>, E> {
        let made = || make(self).map(|informer| Registered::Own(Arc::new(informer) as Arc<dyn Managed>));
        let key = Key::of_type::<T>();
        self.held(&key, Entry::keep, made, Entry::informer).map(|(_, informer)| informer)
    }

    /// An informer builder with what the factory's options say about every informer, whatever its source: name, cluster,
    /// resync period, reflector, error hook and grace period. Options of single resources, such as transforms and dropped
    /// fields, and those about Kubernetes, such as namespaces and the encoding, are the source's and are not applied.
    pub fn builder_for<T: Object>(
        &self,
        source: impl ListerWatcher<T> + 'static,
        resource: &str,
    ) -> SharedIndexInformerBuilder<T> {
        self.inner.options.builder_for(Sources::one(source), resource, resource)
    }

    /// Makes the informer if there is none, which nobody holds yet, and has it fetch whole objects if that is requested.
    pub(crate) fn request(&self, target: &Target) {
        let Ok(entry) = self.entry(&target.key(), || Ok::<_, Infallible>(self.make(target)));
        if let Some(engine) = entry.engine() {
            target.view_of(engine);
        }
    }

    /// The informer that serves a request, held in the way that `hold` says.
    fn bound(&self, target: &Target, hold: fn(&Entry) -> Held) -> Bound {
        let make = || Ok::<_, Infallible>(self.make(target));
        let Ok((entry, engine)) = self.held(&target.key(), hold, make, Entry::engine);
        Bound { entry, engine: target.view_of(engine) }
    }

    fn make(&self, target: &Target) -> Registered {
        Registered::Kubernetes(make(&self.inner.client, &self.inner.options, target))
    }

    /// Stops the informer that serves a request, whoever holds it, and forgets it. Says whether there was one.
    pub(crate) async fn remove_target(&self, target: &Target) -> bool {
        let entry = self.inner.informers.get(&target.key()).map(|entry| entry.clone());
        match entry {
            Some(entry) => self.remove_entry(&entry).await,
            None => false,
        }
    }

    pub(crate) fn give_back_entry(&self, entry: &Arc<Entry>) {
        self.give_back(entry.key(), entry);
    }

    /// Starts every informer that does not run yet, on the current runtime. May be called as often as one likes.
    /// Nothing is started after [`Self::shutdown`].
    ///
    /// If the runtime ends before an informer has begun to run, the informer is left as it was, and runs from the next
    /// start on. One that has run stops with its runtime.
    ///
    /// # Errors
    /// [`Error::NoRuntime`]: this is not within a tokio runtime.
    pub fn start(&self) -> Result<(), Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let starts: Vec<Start> = {
            let down = self.inner.down.lock();
            if *down {
                return Ok(());
            }
            // From here on a shutdown waits for them.
            let begin = |entry: &Arc<Entry>| entry.begin(&self.inner.cancel, || self.inner.tasks.token());
            self.inner.informers.iter().filter_map(|entry| begin(&entry)).collect()
        };
        // A runtime that has ended drops the task here and now, and with it what it has captured.
        for mut start in starts {
            let stuck = self.inner.stuck.clone();
            runtime.spawn(async move {
                let Some((informer, error)) = start.run().await else { return };
                tracing::error!(%informer, %error, "an informer did not end well");
                // Anything else means that somebody else runs it, and answers for it.
                if matches!(error, kinformer_shared_informer::Error::Stuck { .. }) {
                    stuck.lock().push(error);
                }
            });
        }
        Ok(())
    }

    /// Waits until every informer has synced, and says of each how it went. Cancel-safe.
    ///
    /// It does not wait for informers that nobody has started, as those that were asked for after the last
    /// [`Self::start`]: they have not synced, by [`InformerError::NotStarted`](crate::InformerError::NotStarted). Informers that are
    /// [released](crate::InformerLease) or [removed](crate::Informer::remove) meanwhile are left out.
    ///
    /// client-go 1.37 (`WaitForCacheSync`) leaves out what was not started, so that a program without a start reads
    /// empty listers.
    ///
    /// An informer that cannot sync is waited for until it stops: see [`Self::wait_for_cache_sync_until`].
    pub async fn wait_for_cache_sync(&self) -> CacheSync {
        self.synced(None).await
    }

    /// As [`Self::wait_for_cache_sync`], until a deadline.
    pub async fn wait_for_cache_sync_until(&self, deadline: Instant) -> CacheSync {
        self.synced(Some(deadline)).await
    }

    async fn synced(&self, deadline: Option<Instant>) -> CacheSync {
        let entries: Vec<Arc<Entry>> = self.inner.informers.iter().map(|entry| entry.clone()).collect();
        let waits = entries.into_iter().map(|entry| async move {
            let synced = entry.synced(deadline).await;
            (!entry.is_released()).then(|| (Arc::<str>::from(entry.managed().name()), synced))
        });
        CacheSync::new(join_all(waits).await.into_iter().flatten().collect())
    }

    /// Stops every informer and waits for all their tasks. May be called as often as one likes; each call waits.
    ///
    /// It ends within the grace period of the informers, whatever their handlers do.
    ///
    /// # Errors
    /// [`Error::Stuck`]: handlers did not return in time.
    pub async fn shutdown(&self) -> Result<(), Error> {
        *self.inner.down.lock() = true;
        self.inner.cancel.cancel();
        self.inner.discard();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        let stuck = self.inner.stuck.lock().clone();
        if stuck.is_empty() { Ok(()) } else { Err(Error::Stuck { informers: stuck }) }
    }

    /// Whether [`Self::shutdown`] was called. Informers that are asked for from then on have stopped.
    pub fn is_shut_down(&self) -> bool {
        *self.inner.down.lock()
    }

    /// The entry under this key; made if there is none. User code, which `make` may be, runs without a lock.
    fn entry<E>(&self, key: &Key, make: impl FnOnce() -> Result<Registered, E>) -> Result<Arc<Entry>, E> {
        if let Some(entry) = self.inner.informers.get(key) {
            return Ok(entry.clone());
        }
        let made = make()?;
        let entry = match self.inner.informers.entry(key.clone()) {
            Place::Occupied(place) => place.get().clone(),
            Place::Vacant(place) => place.insert(Arc::new(Entry::new(key.clone(), made))).clone(),
        };
        if self.is_shut_down() {
            entry.managed().discard();
        }
        Ok(entry)
    }

    /// As [`Self::entry`], held in the way that `hold` says, with its informer.
    fn held<I, E>(
        &self,
        key: &Key,
        hold: impl Fn(&Entry) -> Held,
        make: impl Fn() -> Result<Registered, E>,
        informer: impl Fn(&Entry) -> Option<I>,
    ) -> Result<(Arc<Entry>, I), E> {
        loop {
            let entry = self.entry(key, &make)?;
            // It may have been released since it was found.
            if hold(&entry) == Held::Yes
                && let Some(informer) = informer(&entry)
            {
                return Ok((entry, informer));
            }
        }
    }

    /// Gives a lease back; the informer stops with the last one, unless it is kept.
    fn give_back(&self, key: &Key, entry: &Arc<Entry>) {
        if entry.give_back() == Held::No {
            self.inner.informers.remove_if(key, |_, there| Arc::ptr_eq(there, entry));
            entry.stop();
        }
    }

    /// Stops an informer, whoever holds it, and forgets it. Returns whether it had not been stopped by this before.
    pub(crate) async fn remove_entry(&self, entry: &Arc<Entry>) -> bool {
        self.inner.informers.remove_if(entry.key(), |_, there| Arc::ptr_eq(there, entry));
        let first = entry.stop();
        entry.ended().await;
        first
    }
}

/// An informer of Kubernetes objects with the factory's options and the index by namespace.
fn make(client: &Client, options: &Options, target: &Target) -> Arc<dyn Engine> {
    let resource = &target.resource;
    let source = |projection, namespace: Option<&Arc<str>>| {
        let (client, of) = (client.clone(), resource.clone());
        let source = match projection {
            Projection::Whole => KubeListerWatcher::packed_dynamic(client, of),
            Projection::Metadata => KubeListerWatcher::packed_metadata(client, of),
        };
        options.restrict(source, resource, namespace)
    };
    let whole = |namespace: Option<&Arc<str>>| source(Projection::Whole, namespace);
    let name = versioned_name(resource);
    let human = resource_name(resource);
    let (sources, switch) = match options.projection(resource, target.projection) {
        Projection::Whole => (options.sources(&target.scope, whole), None),
        Projection::Metadata => {
            let switch = Switch::default();
            let sources = options.sources(&target.scope, |namespace| {
                SwitchedSource::new(source(Projection::Metadata, namespace), whole(namespace), switch.clone())
            });
            (sources, Some(switch))
        }
    };
    let builder = options.kubernetes_builder(sources, resource, &human, &name);
    let arrival = Arrival::new(options.named(&name), options.decode(resource), options.error_hook());
    let arrival = Arc::new(arrival);
    let arrives = arrival.clone();
    let builder = builder.on_arrival(move |object| arrives.arrived(object));
    let builder = builder.scope(options.namespaces_in(&target.scope).join(","));
    #[expect(clippy::expect_used, reason = "what fails is two indexes of one name, and there is one")]
    let informer = builder.index(NAMESPACE_INDEX, IndexFunction::by_namespace()).build().expect("one index");
    let namespace = match options.namespaces_in(&target.scope) {
        [only] => Some(only.clone()),
        _ => None,
    };
    KubeEngine::shared(informer, arrival, namespace, switch)
}

/// A factory that is not kept alive.
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

    /// As [`SharedInformerFactory::bound`]; to one that has stopped if the factory is gone.
    pub(crate) fn bound(&self, target: &Target, hold: fn(&Entry) -> Held) -> Bound {
        if let Some(factory) = self.upgrade() {
            return factory.bound(target, hold);
        }
        let engine = make(&self.client, &self.options, target);
        let entry = Arc::new(Entry::new(target.key(), Registered::Kubernetes(engine.clone())));
        entry.stop();
        Bound { entry, engine }
    }
}

/// The names of the informers that a factory has.
impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informers: Vec<_> =
            self.inner.informers.iter().map(|entry| entry.managed().name().to_owned()).collect();
        f.debug_struct("SharedInformerFactory")
            .field("options", &self.inner.options)
            .field("informers", &informers)
            .finish_non_exhaustive()
    }
}
