//! The builder of an informer.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kinformer_core::{KnownObjects, Object, Parts, Transform};
use kinformer_delta_fifo::{Bound, DeltaFifo, Queue, RealFifo};
use kinformer_processor::{InitialState, SharedProcessor};
use kinformer_reflector::{Exchange, Failure, ListerWatcher, ReflectorOptions};
use kinformer_store::{IndexFunction, Indexer, IndexerBuilder};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::apply::{Apply, Arrival};
use crate::informer::{Inner, SharedIndexInformer};
use crate::informer_loop::InformerLoop;
use crate::latency::Latency;
use crate::objects::Objects;
use crate::parts::Sources;
use crate::{resyncs, reuse};

/// The kind of queue between the reflector and the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueKind {
    /// A `RealFifo` in atomic mode: all events in the order of arrival, and a list as one delta. The default, as in
    /// client-go 0.37.
    #[default]
    RealFifo,
    /// A `RealFifo` that splits a list into its objects.
    RealFifoByObject,
    /// A `DeltaFifo`: accumulates the queued deltas of each object and pops them together.
    DeltaFifo,
}

/// The values that an informer passes to its queue.
#[non_exhaustive]
pub struct QueueParts<T> {
    /// The informer's store, in which a queue that splits lists looks up the objects missing in a list.
    pub known_objects: Arc<dyn KnownObjects<T>>,
    /// The transform, which the queue must apply exactly once to every object from the source: added, changed and
    /// listed objects, and the final states of deleted ones.
    pub transform: Option<Transform<T>>,
    /// The bound on queued deltas, above which the source is not read.
    pub bound: Bound,
    /// The division of the informer's objects into parts, each with its own source.
    pub parts: Parts<T>,
}

impl<T> fmt::Debug for QueueParts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueParts")
            .field("transform", &self.transform)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

type NewQueue<T> = Box<dyn FnOnce(QueueParts<T>) -> Arc<dyn Queue<T>> + Send>;

impl QueueKind {
    /// Builds a queue of this kind, for [`SharedIndexInformerBuilder::queue_with`].
    pub fn build<T: Object>(self, parts: QueueParts<T>) -> Arc<dyn Queue<T>> {
        let QueueParts { known_objects, transform, bound, parts } = parts;
        match self {
            Self::RealFifo | Self::RealFifoByObject => {
                let mut queue = RealFifo::builder().bound(bound).parts(parts);
                if self == Self::RealFifoByObject {
                    queue = queue.known_objects(known_objects);
                }
                if let Some(transform) = transform {
                    queue = queue.transform(transform);
                }
                Arc::new(queue.build())
            }
            Self::DeltaFifo => {
                let mut queue = DeltaFifo::builder().bound(bound).parts(parts).known_objects(known_objects);
                if let Some(transform) = transform {
                    queue = queue.transform(transform);
                }
                Arc::new(queue.build())
            }
        }
    }
}

/// Builds a [`SharedIndexInformer`]. These settings cannot be changed after the build.
///
/// ```
/// use kinformer_shared_informer::{IndexFunction, QueueKind, SharedIndexInformer};
/// use kinformer_testing::FakeSource;
///
/// # fn main() -> Result<(), kinformer_shared_informer::Error> {
/// let informer = SharedIndexInformer::builder(FakeSource::<kinformer_testing::Item>::new())
///     .name("items")
///     .index("namespace", IndexFunction::by_namespace())
///     .queue(QueueKind::DeltaFifo)
///     .on_error(|failure| eprintln!("{}: {}", failure.reflector, failure.error))
///     .build()?;
/// assert_eq!(informer.name(), "items");
/// # Ok(())
/// # }
/// ```
#[doc(alias = "SharedIndexInformerOptions")]
#[must_use = "nothing is built yet"]
pub struct SharedIndexInformerBuilder<T: Object> {
    sources: Sources<T>,
    name: Option<Arc<str>>,
    resource: Option<Arc<str>>,
    cluster: Arc<str>,
    scope: Arc<str>,
    indexer: IndexerBuilder<T>,
    transform: Option<Transform<T>>,
    resync: Duration,
    queue: NewQueue<T>,
    bound: Bound,
    grace: Duration,
    options: ReflectorOptions,
    arrival: Option<Arc<Arrival<T>>>,
}

impl<T: Object> SharedIndexInformer<T> {
    /// Creates an informer with the default settings.
    ///
    /// # Errors
    /// As [`SharedIndexInformerBuilder::build`]; no error occurs with the default settings.
    #[doc(alias("NewSharedIndexInformer", "NewSharedInformer", "NewTypedSharedIndexInformer"))]
    pub fn new(source: impl ListerWatcher<T> + 'static) -> Result<Self, Error> {
        Self::builder(source).build()
    }

    /// Returns a builder for an informer with a name, indexes, a transform, or resyncs.
    #[doc(alias("NewSharedIndexInformer", "NewSharedIndexInformerWithOptions"))]
    pub fn builder(source: impl ListerWatcher<T> + 'static) -> SharedIndexInformerBuilder<T> {
        Self::builder_of(Sources::one(source))
    }

    /// Returns a builder for an informer with several sources, each for a part of the objects.
    pub fn builder_of(sources: Sources<T>) -> SharedIndexInformerBuilder<T> {
        SharedIndexInformerBuilder::new(sources)
    }
}

impl<T: Object> SharedIndexInformerBuilder<T> {
    fn new(sources: Sources<T>) -> Self {
        Self {
            sources,
            name: None,
            resource: None,
            cluster: Arc::default(),
            scope: Arc::default(),
            indexer: Indexer::builder(),
            transform: None,
            resync: Duration::ZERO,
            queue: Box::new(|parts| QueueKind::default().build(parts)),
            bound: Bound::default(),
            grace: Duration::from_secs(10),
            options: ReflectorOptions::default(),
            arrival: None,
        }
    }

    /// Sets the name of the informer in logs, errors and metrics. By default it is the name of the object's type.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the resource name in metrics, such as `deployments.apps`. By default it is the informer's name.
    pub fn resource(mut self, resource: impl Into<Arc<str>>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Sets the cluster name in metrics. Empty by default.
    pub fn cluster(mut self, cluster: impl Into<Arc<str>>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Sets the scope in metrics: the subset of the resource's objects that the informer holds, such as a namespace or
    /// a selector. Empty, the default, means all objects. The scope distinguishes informers with the same name and
    /// resource.
    pub fn scope(mut self, scope: impl Into<Arc<str>>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Adds an index to the store.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1));
    /// use kinformer_shared_informer::IndexFunction;
    ///
    /// let informer = SharedIndexInformer::builder(source).index("room", IndexFunction::by_namespace()).build()?;
    /// # informer.spawn(Default::default());
    /// informer.wait_for_sync().await?;
    /// assert_eq!(informer.store().by_index("room", "kitchen")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn index(mut self, name: impl Into<Arc<str>>, function: IndexFunction<T>) -> Self {
        self.indexer = self.indexer.index(name, function);
        self
    }

    /// Adds several indexes to the store.
    pub fn indexers(
        mut self,
        indexers: impl IntoIterator<Item = (impl Into<Arc<str>>, IndexFunction<T>)>,
    ) -> Self {
        self.indexer = self.indexer.indexers(indexers);
        self
    }

    /// Sets the transform, which is applied once to every object before the store and the handlers receive it. An
    /// object for which it fails is left out and reported; its known state stays.
    ///
    /// With a transform, a relist temporarily holds all objects twice: those of the store and those of the list.
    /// Without one, it additionally holds only the changed objects.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::{SharedIndexInformer, Transform};
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1));
    /// let double = Transform::in_place(|item: &mut Item| {
    ///     item.value *= 2;
    ///     Ok(())
    /// });
    /// let informer = SharedIndexInformer::builder(source).transform(double).build()?;
    /// # informer.spawn(Default::default());
    /// informer.wait_for_sync().await?;
    /// assert_eq!(informer.get(("kitchen", "kettle")).map(|item| item.value), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("NewTransformingIndexerInformer", "NewTransformingInformer", "SetTransform"))]
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Sets a function that is called with each object before it is stored, as returned by the
    /// [transform](Self::transform), but not with the final states of deleted objects. It runs on the informer's own
    /// task and must not block. If it panics, the panic is logged and the object is stored.
    ///
    /// The function returns whether it is done with the object. If it returns `false` for an object, it is called again
    /// with the objects of the same batch after these were stored: a program that changes what the function does, and
    /// then visits the objects of a snapshot, misses no object.
    pub fn on_arrival(mut self, function: impl Fn(&Arc<T>) -> bool + Send + Sync + 'static) -> Self {
        self.arrival = Some(Arc::new(function));
        self
    }

    /// Sets the resync period of handlers that request none: after each period, a handler receives every object again.
    /// Zero, the default, and [`Duration::MAX`] mean never.
    #[doc(alias = "ResyncPeriod")]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// Sets a function that is called with every failure of lists and watches: see [`ReflectorOptions::error_hook`].
    #[doc(alias("SetWatchErrorHandler", "SetWatchErrorHandlerWithContext"))]
    pub fn on_error(mut self, hook: impl Fn(&Failure<'_>) + Send + Sync + 'static) -> Self {
        self.options = self.options.error_hook(hook);
        self
    }

    /// Sets the kind of queue between the reflector and the store.
    pub fn queue(self, queue: QueueKind) -> Self {
        self.queue_with(move |parts| queue.build(parts))
    }

    /// Sets a custom queue between the reflector and the store. It must use the [`QueueParts`] and keep the promises of
    /// [`Queue`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use kinformer_delta_fifo::{DeltaFifo, OnReplace};
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// let informer = SharedIndexInformer::builder(FakeSource::<Item>::new())
    ///     .queue_with(|parts| {
    ///         let mut queue = DeltaFifo::builder().known_objects(parts.known_objects);
    ///         queue = queue.bound(parts.bound).parts(parts.parts);
    ///         if let Some(transform) = parts.transform {
    ///             queue = queue.transform(transform);
    ///         }
    ///         Arc::new(queue.on_replace(OnReplace::Replaced).build())
    ///     })
    ///     .build()?;
    /// # drop(informer);
    /// # Ok::<(), kinformer_shared_informer::Error>(())
    /// ```
    pub fn queue_with(
        mut self,
        queue: impl FnOnce(QueueParts<T>) -> Arc<dyn Queue<T>> + Send + 'static,
    ) -> Self {
        self.queue = Box::new(queue);
        self
    }

    /// Sets the bound on queued deltas, above which the source is not read.
    pub fn queue_bound(mut self, bound: Bound) -> Self {
        self.bound = bound;
        self
    }

    /// Sets the grace period: the time that handlers may take to return from their last event when the informer stops.
    /// 10 seconds by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Changes the options of the reflector, including its error hook. Resync options set here have no effect, because
    /// the informer sets them.
    pub fn reflector(mut self, change: impl FnOnce(ReflectorOptions) -> ReflectorOptions) -> Self {
        self.options = change(self.options);
        self
    }

    /// Builds the informer.
    ///
    /// # Errors
    /// [`Error::Indexers`] if two indexes have the same name. [`Error::Sources`] if the number of sources is not the
    /// number of parts.
    #[expect(
        clippy::too_many_lines,
        reason = "it builds each part of an informer once, in the order in which they need each other"
    )]
    pub fn build(self) -> Result<SharedIndexInformer<T>, Error> {
        let Self {
            sources,
            name,
            resource,
            cluster,
            scope,
            indexer,
            transform,
            resync,
            queue,
            bound,
            grace,
            options,
            arrival,
        } = self;
        let name = name.unwrap_or_else(|| type_name::<T>().into());
        sources.check(&name)?;
        let parts = sources.parts.clone().changeable();
        let sources = Sources { parts: parts.clone(), ..sources };
        let indexer = indexer
            .parts(parts.clone())
            .build()
            .map_err(|source| Error::Indexers { informer: name.clone(), source: Arc::new(source) })?;
        let indexer = Arc::new(indexer);
        // Stored objects have passed the transform and must not pass it again, so its results are exchanged.
        let (exchange, transform) = match transform {
            None => (reuse::exchange(indexer.clone()), None),
            Some(transform) => (Exchange::none(), Some(reuse::exchange_results(transform, indexer.clone()))),
        };
        let queue = queue(QueueParts { known_objects: indexer.clone(), transform, bound, parts });
        let state = indexer.clone();
        let processor = SharedProcessor::builder(name.clone())
            .initial_state(move || {
                let snapshot = state.snapshot();
                InitialState::new(snapshot.revision(), Objects::new(snapshot))
            })
            .resync(resync)
            .grace(grace)
            .build();
        let resource = resource.unwrap_or_else(|| name.clone());
        let (latency, synced) = (Arc::<Latency>::default(), CancellationToken::new());
        let apply = Apply {
            name: name.clone(),
            indexer: indexer.clone(),
            parts: sources.parts.clone(),
            processor: processor.clone(),
            synced: synced.clone(),
            arrival,
            latency: latency.clone(),
        };
        let due = resyncs::mark_due(processor.clone(), indexer.clone(), queue.clone(), synced.clone());
        let options = options.mark_due_resyncs(due);
        let informer_loop = InformerLoop::of(name.clone(), sources, queue.clone(), apply, options)
            .exchange(exchange)
            .known_objects(indexer.clone());
        let inner = Inner {
            name,
            resource,
            cluster,
            scope,
            indexer,
            queue,
            processor,
            latency,
            list: informer_loop.list().clone(),
            startable: Mutex::new(Some(informer_loop)),
            was_run: AtomicBool::new(false),
            grace,
            synced,
            stopped: CancellationToken::new(),
        };
        Ok(SharedIndexInformer { inner: Arc::new(inner) })
    }
}

impl<T: Object> fmt::Debug for SharedIndexInformerBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedIndexInformerBuilder")
            .field("name", &self.name)
            .field("resource", &self.resource)
            .field("indexer", &self.indexer)
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}
