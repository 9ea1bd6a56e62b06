//! A controller: its options, and its run.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, try_join_all};
use futures::stream::{BoxStream, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _};
use kinformer::{
    BoxError, Informer, InformerLease, ObjectKey, PackedRef, Registration, SharedInformerFactory,
};
use kinformer_core::internal::panic_message;
use kinformer_workqueue::{Add, ItemExponential, RateLimiter, WorkQueue};
use kube_core::Resource;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::action::{Action, ReconcileError};
use crate::error::Error;
use crate::failures::Failures;
use crate::health::{ControllerState, Status};
use crate::history::History;
use crate::metrics::Counters;
use crate::monitor::Monitor;
use crate::reason::Reason;
use crate::request::Request;
use crate::trigger::{InformerTrigger, Queue, Source, Trigger};
use crate::worker::{Ending, Key, Reconcile, Workers};

/// Reconciles keys: calls a function for each key that its triggers enqueue, with retries.
///
/// A key is reconciled by one worker at a time. A key that is enqueued meanwhile is reconciled again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = kinformer_apiserver::TestCluster::start().await?;
/// # let factory = kinformer::SharedInformerFactory::new(cluster.client());
/// use k8s_openapi::api::core::v1::Namespace;
/// use kinformer_controller::{Action, CancellationToken, Controller};
///
/// let shutdown = CancellationToken::new();
/// # let stop = shutdown.clone();
/// let controller = Controller::of(&factory).reconciles::<Namespace>().build(move |request| {
///     println!("{}: {}", request.key, request.reasons); // default: listed
///     # stop.cancel();
///     async { Ok(Action::none()) }
/// });
/// assert_eq!(&**controller.name(), "namespace");
/// controller.run(shutdown).await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "TypedController")]
pub struct Controller<K = ObjectKey> {
    factory: SharedInformerFactory,
    workers: Arc<Workers<K>>,
    ending: Ending<K>,
    triggers: Vec<Trigger<K>>,
    invalid: Option<Invalid>,
    settings: Settings,
}

#[derive(Clone, Copy)]
struct Settings {
    workers: usize,
    sync_timeout: Duration,
    grace: Duration,
    timeout: Option<Duration>,
    needs_leader: bool,
}

/// The first step to a [`Controller`]: what it reconciles.
#[doc(alias = "TypedBuilder")]
#[must_use = "it does nothing until it is built and run"]
#[derive(Debug)]
pub struct NewController {
    factory: SharedInformerFactory,
}

/// Why a controller cannot run, for its name.
pub(crate) type Invalid = Box<dyn FnOnce(Arc<str>) -> Error + Send + Sync>;

/// Gives a controller to a [`Sharding`](crate::Sharding), which checks each key before the function is called.
#[cfg(feature = "ring")]
pub(crate) type Sharded<K> =
    Box<dyn FnOnce(&Queue<K>, &[Trigger<K>], Box<Reconcile<K>>) -> Box<Reconcile<K>> + Send + Sync>;

/// Options of a [`Controller`].
///
/// ```
/// # fn example(factory: &kinformer::SharedInformerFactory) {
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::Service;
/// use kinformer_controller::kinformer_workqueue::ItemExponential;
/// use kinformer_controller::{Action, Controller};
///
/// let controller = Controller::of(factory)
///     .reconciles::<Service>()
///     .name("load-balancers")
///     .workers(4) // four calls of the cloud's API at a time
///     .timeout(Duration::from_secs(60))
///     .rate_limiter(ItemExponential::new(Duration::from_secs(1), Duration::from_secs(300)))
///     .build(async |_| Ok(Action::none()));
/// assert_eq!(&**controller.name(), "load-balancers");
/// # }
/// ```
#[doc(alias("TypedBuilder", "TypedOptions", "with_config", "WithOptions"))]
#[must_use = "it does nothing until it is built and run"]
pub struct ControllerBuilder<K> {
    pub(crate) factory: SharedInformerFactory,
    name: Arc<str>,
    /// The informer of the reconciled kind.
    pub(crate) reconciled: Option<Informer<()>>,
    pub(crate) invalid: Option<Invalid>,
    pub(crate) triggers: Vec<Trigger<K>>,
    /// Changes the function of the reconciliations, for their queue.
    #[cfg(feature = "ring")]
    pub(crate) sharded: Option<Sharded<K>>,
    /// Makes the queue.
    queue: Box<dyn FnOnce() -> Queue<K> + Send + Sync>,
    settings: Settings,
}

impl Controller {
    /// Begins a controller over the informers of a factory. They are shared with all other users of the factory.
    #[doc(alias("ControllerManagedBy", "NewControllerManagedBy"))]
    pub fn of(factory: &SharedInformerFactory) -> NewController {
        NewController { factory: factory.clone() }
    }
}

impl NewController {
    /// Reconciles objects of a kind: each event of an object enqueues its key. The default name is the kind in lower case.
    #[doc(alias = "for_shared_stream")]
    pub fn reconciles<R>(self) -> ControllerBuilder<ObjectKey>
    where
        R: Resource<DynamicType = (), Scope: 'static> + 'static,
    {
        let informer = self.factory.informer::<R>();
        self.reconciles_informer(&informer)
    }

    /// As [`Self::reconciles`], for the objects of an informer.
    #[doc(alias("for_shared_stream_with", "new_with"))]
    pub fn reconciles_informer<R: 'static>(self, informer: &Informer<R>) -> ControllerBuilder<ObjectKey> {
        self.reconciles_on(Trigger::on(informer))
    }

    /// As [`Self::reconciles_informer`], with predicates and other options of the trigger.
    #[doc(alias("for_stream", "for_stream_with", "ForInput"))]
    pub fn reconciles_on<R: 'static>(self, objects: InformerTrigger<R>) -> ControllerBuilder<ObjectKey> {
        let informer = objects.informer().cast();
        let name = informer.selection().api_resource().kind.to_lowercase();
        let builder = self.keyed(name).trigger(objects.object());
        ControllerBuilder { reconciled: Some(informer), ..builder }
    }

    /// Reconciles keys of any type, which [triggers](ControllerBuilder::trigger) enqueue.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(factory: &kinformer::SharedInformerFactory) {
    /// use kinformer::FieldPath;
    /// use kinformer_controller::{Action, Controller, Trigger};
    ///
    /// // The key is the name of a node: one reconciliation, however many of its pods have changed.
    /// let node = FieldPath::new(&["spec", "nodeName"]);
    /// let pods = Trigger::on(&factory.informer::<Pod>()).map(move |pod, nodes: &mut Vec<String>| {
    ///     nodes.extend(pod.field::<String>(&node)?);
    ///     Ok(())
    /// });
    /// let controller = Controller::of(factory).keyed("node-usage").trigger(pods).build(async |node| {
    ///     println!("the pods of {} have changed", *node);
    ///     Ok(Action::none())
    /// });
    /// # _ = controller;
    /// # }
    /// ```
    #[doc(alias("NewTyped", "TypedControllerManagedBy"))]
    pub fn keyed<K: Key>(self, name: impl Into<Arc<str>>) -> ControllerBuilder<K> {
        ControllerBuilder {
            factory: self.factory,
            name: name.into(),
            reconciled: None,
            invalid: None,
            triggers: Vec::new(),
            #[cfg(feature = "ring")]
            sharded: None,
            queue: Box::new(|| {
                WorkQueue::builder().rate_limiter(ItemExponential::default()).build_with_causes()
            }),
            settings: Settings {
                workers: 1,
                sync_timeout: Duration::from_secs(120),
                grace: Duration::from_secs(30),
                timeout: None,
                needs_leader: true,
            },
        }
    }
}

impl<K: Key> ControllerBuilder<K> {
    /// Also enqueues the keys that the function appends for each state in the events of a kind; see [`InformerTrigger::map`].
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    /// # fn example(factory: &kinformer::SharedInformerFactory) {
    /// use kinformer::{LabelSelector, ObjectKey};
    /// use kinformer_controller::{Action, Controller};
    ///
    /// // The labels of a namespace are a part of the result for each of its config maps.
    /// let maps = factory.informer::<ConfigMap>().lister();
    /// let controller = Controller::of(factory)
    ///     .reconciles::<ConfigMap>()
    ///     .watches::<Namespace>(move |namespace, keys| {
    ///         let maps = maps.namespace(namespace.name());
    ///         maps.for_each(&LabelSelector::default(), |map| keys.extend(ObjectKey::try_from(map.key())))?;
    ///         Ok(())
    ///     })
    ///     .build(async |_| Ok(Action::none()));
    /// # _ = controller;
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`Watches`, `EnqueueRequestsFromMapFunc`).
    #[doc(alias("EnqueueRequestsFromMapFunc", "watches_shared_stream"))]
    pub fn watches<D: Resource<DynamicType = (), Scope: 'static> + 'static>(
        self,
        map: impl Fn(PackedRef<'_, D>, &mut Vec<K>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        let informer = self.factory.informer::<D>();
        self.trigger(Trigger::on(&informer).map(map))
    }

    /// Adds a trigger.
    #[doc(alias(
        "watches_shared_stream_with",
        "watches_stream",
        "watches_stream_with",
        "watches_with",
        "WatchesInput",
        "WatchesMetadata",
        "WatchesRawSource"
    ))]
    pub fn trigger(mut self, trigger: Trigger<K>) -> Self {
        self.triggers.push(trigger);
        self
    }

    /// Sets the name in messages and metrics. It must be unique in a [`Manager`](crate::Manager).
    #[doc(alias = "SkipNameValidation")]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how many keys are reconciled at the same time. The default is 1, as in controller-runtime; 0 counts as 1.
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers.max(1);
        self
    }

    /// Sets the delays of retries. The default is [`ItemExponential`]: 5 ms to 1,000 s for each key, as in controller-runtime.
    /// [client-go's](kinformer_workqueue::default_rate_limiter) also limits the retries of all keys together, so that many keys
    /// that fail delay those of all others.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.queue = Box::new(move || WorkQueue::builder().rate_limiter(limiter).build_with_causes());
        self
    }

    /// Sets how long a reconciliation may take. Then its future is dropped, and the key is retried. There is no limit by
    /// default.
    #[doc(alias = "ReconciliationTimeout")]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Sets how long the controller waits at its start for the first lists of its informers. The default is 2 minutes, as in
    /// controller-runtime.
    #[doc(alias = "CacheSyncTimeout")]
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.settings.sync_timeout = timeout;
        self
    }

    /// Sets whether the controller of a [`Manager`](crate::Manager) reconciles only while the process is the leader. The default is
    /// true. Without a leader election it has no effect.
    ///
    /// Follows controller-runtime 0.25 (`NeedLeaderElection`).
    #[doc(alias = "EnableWarmup")]
    pub fn need_leader_election(mut self, need: bool) -> Self {
        self.settings.needs_leader = need;
        self
    }

    /// Sets how long a shutdown waits for running reconciliations. Then their futures are dropped. The default is 30 s, as in
    /// controller-runtime. A future that blocks its thread cannot be dropped: a second later, the run ends without it.
    #[doc(alias = "GracefulShutdownTimeout")]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Builds the controller.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// use std::sync::Arc;
    ///
    /// use kinformer::{Lister, ObjectKey, SharedInformerFactory};
    /// use kinformer_controller::{Action, Controller, ReconcileError, Request};
    ///
    /// /// What each reconciliation needs.
    /// struct Context {
    ///     maps: Lister<ConfigMap>,
    /// }
    ///
    /// async fn reconcile(request: Request<ObjectKey>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    ///     let Some(map) = context.maps.get_opt(&request.key)? else { return Ok(Action::none()) };
    ///     println!("{}: {:?}", request.key, map.decode()?.data);
    ///     Ok(Action::none())
    /// }
    ///
    /// fn controller(factory: &SharedInformerFactory) -> Controller {
    ///     let context = Arc::new(Context { maps: factory.informer::<ConfigMap>().lister() });
    ///     let reconcile = move |request| reconcile(request, context.clone());
    ///     Controller::of(factory).reconciles::<ConfigMap>().build(reconcile)
    /// }
    /// ```
    #[doc(alias("TypedFunc", "TypedReconciler"))]
    pub fn build<F, R>(self, reconcile: R) -> Controller<K>
    where
        R: Fn(Request<K>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    {
        let queue = (self.queue)();
        let reconcile: Box<Reconcile<K>> = Box::new(move |request| Box::pin(reconcile(request)));
        #[cfg(feature = "ring")]
        let reconcile = match self.sharded {
            Some(sharded) => sharded(&queue, &self.triggers, reconcile),
            None => reconcile,
        };
        let workers = Workers {
            status: Status::new(self.name.clone()),
            name: self.name.clone(),
            resource: self.reconciled.map(|informer| informer.selection().resource().into()),
            queue,
            reconcile,
            timeout: self.settings.timeout,
            counters: Counters::new(self.settings.workers),
            failures: Failures::default(),
            history: History::default(),
        };
        let Self { factory, triggers, invalid, settings, .. } = self;
        let workers = Arc::new(workers);
        let ending = Ending(workers.clone());
        Controller { factory, workers, ending, triggers, invalid, settings }
    }
}

impl<K: Key> Controller<K> {
    /// The name of the controller.
    pub fn name(&self) -> &Arc<str> {
        &self.workers.name
    }

    pub(crate) fn status(&self) -> &Arc<Status> {
        &self.workers.status
    }

    pub(crate) fn needs_leader(&self) -> bool {
        self.settings.needs_leader
    }

    /// The queue of the controller, to add keys by other means than triggers. If it is shut down, the run ends without an
    /// error after the queued keys, as if it was cancelled.
    ///
    /// ```
    /// # fn example(controller: kinformer_controller::Controller) -> Result<(), kinformer::KeyError> {
    /// use kinformer::ObjectKey;
    /// use kinformer_controller::kinformer_workqueue::Add;
    ///
    /// // A request over HTTP asks for a reconciliation now, before all others.
    /// let queue = controller.queue().clone();
    /// let now = move |key: ObjectKey| queue.add_with(key, Add::new().priority(100));
    /// now("default/settings".parse()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn queue(&self) -> &Queue<K> {
        &self.workers.queue
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn observed(&self) -> std::sync::Weak<dyn crate::worker::Observed> {
        let observed: Arc<dyn crate::worker::Observed> = self.workers.clone();
        Arc::downgrade(&observed)
    }

    #[cfg(feature = "serve")]
    pub(crate) fn shown(&self) -> std::sync::Weak<dyn crate::view::Shown> {
        let shown: Arc<dyn crate::view::Shown> = self.workers.clone();
        Arc::downgrade(&shown)
    }

    /// Returns a handle that reads the metrics, the state and the last errors while the controller runs, and after it.
    pub fn monitor(&self) -> Monitor<K> {
        Monitor::of(self.workers.clone())
    }

    /// Starts the informers of the factory, waits until the objects of their first lists are enqueued, and reconciles until
    /// the token is cancelled. Then waits for the running reconciliations. Queued keys are dropped.
    ///
    /// Meanwhile the controller keeps its factory, the informers of its triggers and their factories alive, whatever else is
    /// dropped or released.
    ///
    /// # Cancel safety
    /// Dropping the future ends the controller at once: running reconciliations are dropped at their await points.
    ///
    /// # Errors
    /// [`Error::NotSynced`] after the sync timeout. [`Error::InformerStopped`] if the informer of a trigger has stopped, before
    /// or during the run, because it was removed or its factory was shut down: a controller that receives no events does not
    /// go on. [`Error::Stuck`] if reconciliations had not ended after the grace period.
    #[doc(alias("graceful_shutdown_on", "NewTypedUnmanaged", "NewUnmanaged"))]
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(()),
            warm = self.warm_up() => warm?.work(shutdown.clone(), || {}).await,
        }
    }

    /// Starts the informers and waits until they have synced.
    pub(crate) async fn warm_up(self) -> Result<Warm<K>, Error> {
        let status = self.status().clone();
        self.sync().await.inspect_err(|error| status.failed(error))
    }

    async fn sync(self) -> Result<Warm<K>, Error> {
        let Self { factory, workers, ending, triggers, invalid, settings } = self;
        if let Some(invalid) = invalid {
            return Err(invalid(workers.name.clone()));
        }
        tracing::info!(controller = %workers.name, "starting controller");
        let mut informers = Vec::new();
        for trigger in &triggers {
            if let Source::Informer { informer, .. } = &trigger.source {
                // The first call binds it, so that the factory starts this informer.
                if informer.status().is_stopped() {
                    return Err(Error::informer_stopped(&workers.name, informer));
                }
                informers.push(Held { lease: informer.lease(), _factory: informer.factory() });
            }
        }
        factory.start().map_err(|source| Error::Informer { controller: workers.name.clone(), source })?;
        // After the start, which decides whether an informer has whole objects.
        let missing = informers.iter().map(|informer| informer.lease.selection().resource().into()).collect();
        workers.status.set(ControllerState::Waiting { missing });
        let limit = (settings.sync_timeout, after(settings.sync_timeout));
        let synced = informers.iter().map(async |informer| {
            let synced = informer.lease.wait_for_sync().until(limit.1).await;
            synced.map_err(|error| Error::not_synced(&workers.name, &informer.lease, limit, &error))?;
            workers.status.synced(&informer.lease.selection().resource());
            Ok::<_, Error>(())
        });
        let mut stopped = informer_stopped(&workers, &informers);
        tokio::select! {
            biased;
            synced = try_join_all(synced) => drop(synced?),
            // Possibly of one that has synced, while the others have not.
            error = &mut stopped => return Err(error),
        }
        workers.status.set(ControllerState::Synced);
        Ok(Warm { workers, triggers, informers, settings, _factory: factory, _ending: ending })
    }
}

/// A controller whose informers have synced. Its triggers enqueue nothing until it [works](Self::work), so that the queue of one
/// that waits for a leadership does not collect the keys of objects that are deleted meanwhile.
pub(crate) struct Warm<K> {
    workers: Arc<Workers<K>>,
    triggers: Vec<Trigger<K>>,
    informers: Vec<Held>,
    settings: Settings,
    /// For the listers of the reconciliations.
    _factory: SharedInformerFactory,
    _ending: Ending<K>,
}

/// An informer that is kept alive.
struct Held {
    lease: InformerLease<()>,
    /// Dropped after the lease.
    _factory: Option<SharedInformerFactory>,
}

fn informer_stopped<K: Key>(workers: &Arc<Workers<K>>, informers: &[Held]) -> BoxFuture<'static, Error> {
    let stopped = |informer: &Held| {
        let informer = (*informer.lease).clone();
        Box::pin(async move {
            informer.stopped().await;
            informer
        })
    };
    let mut stopped: FuturesUnordered<_> = informers.iter().map(stopped).collect();
    let workers = workers.clone();
    Box::pin(async move {
        let Some(informer) = stopped.next().await else { return std::future::pending().await };
        let error = Error::informer_stopped(&workers.name, &informer);
        workers.status.failed(&error);
        error
    })
}

/// How long the end of a run waits until the reconciliations are dropped that are left after the grace period.
const ABORT: Duration = Duration::from_secs(1);

/// The end of a timeout. One that is too long for the clock is as good as never.
pub(crate) fn after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(60 * 60 * 24 * 365 * 30))
}

impl<K: Key> Warm<K> {
    /// Enqueues the stored objects, and reconciles until the token is cancelled, then waits for the running reconciliations.
    /// Calls `begun` when the workers have begun.
    ///
    /// If the future is dropped, reconciliations are dropped, and so are queued keys. Then it can be called again.
    pub(crate) async fn work(&self, shutdown: CancellationToken, begun: impl FnOnce()) -> Result<(), Error> {
        let workers = &self.workers;
        let mut informer_stopped = pin!(self.informer_stopped());
        let mut attached = Attached { workers, handlers: Vec::new(), streams: JoinSet::new() };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            error = &mut informer_stopped => return Err(error),
            result = attached.attach(self) => result.inspect_err(|error| workers.status.failed(error))?,
        }
        workers.status.set(ControllerState::Running);
        tracing::info!(controller = %workers.name, workers = self.settings.workers, "reconciling");
        let mut tasks = JoinSet::new();
        for _ in 0..self.settings.workers {
            tasks.spawn(workers.clone().work(shutdown.clone()));
        }
        begun();
        let stopped = tokio::select! {
            biased;
            () = shutdown.cancelled() => None,
            error = &mut informer_stopped => Some(error),
            // They end by themselves if the queue is shut down.
            () = async { while tasks.join_next().await.is_some() {} } => None,
        };
        workers.end();
        let stuck = self.ended(tasks, &mut attached).await;
        tracing::info!(controller = %workers.name, "controller ended");
        let error = match (stopped, stuck) {
            (None, None) => {
                workers.status.ended();
                return Ok(());
            }
            (Some(error), None) | (None, Some(error)) => error,
            (Some(stopped), Some(stuck)) => Error::Several(vec![stopped, stuck]),
        };
        workers.status.failed(&error);
        Err(error)
    }

    /// Waits for the running reconciliations. After the grace period they are dropped, and the error names their keys.
    async fn ended(&self, mut tasks: JoinSet<()>, attached: &mut Attached<'_, K>) -> Option<Error> {
        attached.detach();
        let grace = self.settings.grace;
        let deadline = after(grace);
        while let Ok(Some(_)) = timeout_at(deadline, tasks.join_next()).await {}
        let keys = self.workers.keys_in_flight().await;
        // Does not return while a reconciliation blocks its thread.
        _ = timeout(ABORT, tasks.shutdown()).await;
        _ = timeout(ABORT, attached.streams.shutdown()).await;
        // With a short grace period, idle workers may not have ended yet.
        (!keys.is_empty()).then(|| Error::Stuck { controller: self.workers.name.clone(), grace, keys })
    }

    /// Waits until the informer of a trigger has stopped. Then the controller receives no events any more.
    pub(crate) fn informer_stopped(&self) -> BoxFuture<'static, Error> {
        informer_stopped(&self.workers, &self.informers)
    }
}

/// The triggers of a controller that works. When it is dropped, they enqueue nothing any more, and the queue is empty.
struct Attached<'a, K> {
    workers: &'a Arc<Workers<K>>,
    handlers: Vec<Registration>,
    streams: JoinSet<()>,
}

impl<K: Key> Attached<'_, K> {
    /// Starts the triggers, and waits until the keys of all stored objects are enqueued.
    async fn attach(&mut self, controller: &Warm<K>) -> Result<(), Error> {
        let (name, queue) = (self.workers.name.clone(), &self.workers.queue);
        let handler_name: Arc<str> = format!("controller {name}").into();
        let mut waits = Vec::new();
        for trigger in &controller.triggers {
            match &trigger.source {
                Source::Stream(keys) => {
                    _ = self.streams.spawn(enqueue(keys.clone(), queue.clone(), name.clone()));
                }
                Source::Informer { informer, attach } => {
                    let handler = attach(handler_name.clone(), queue.clone());
                    let handler =
                        handler.map_err(|source| Error::Informer { controller: name.clone(), source })?;
                    self.handlers.push(handler.clone());
                    waits.push((informer, handler));
                }
            }
        }
        let limit = (controller.settings.sync_timeout, after(controller.settings.sync_timeout));
        let synced = waits.into_iter().map(async |(informer, handler)| {
            let synced = handler.synced().until(limit.1).await;
            synced.map_err(|error| Error::not_synced(&name, informer, limit, &error))
        });
        try_join_all(synced).await.map(drop)
    }
}

impl<K> Attached<'_, K> {
    /// Ends the triggers and drops the queued keys.
    fn detach(&mut self) {
        self.streams.abort_all();
        for handler in self.handlers.drain(..) {
            drop(handler.remove());
        }
        self.workers.queue.retain(|_| false);
    }
}

impl<K> Drop for Attached<'_, K> {
    fn drop(&mut self) {
        self.detach();
        self.workers.status.paused();
    }
}

/// Adds the keys of a stream to a queue.
async fn enqueue<K: Key>(
    keys: Arc<tokio::sync::Mutex<BoxStream<'static, K>>>,
    queue: Queue<K>,
    controller: Arc<str>,
) {
    let add = Add::new().marks(Reason::Stream.mark());
    let adding = async {
        let mut keys = keys.lock().await;
        while let Some(key) = keys.next().await {
            queue.add_with(key, add);
            // So that a stream that is always ready does not keep its thread, and can be ended.
            tokio::task::consume_budget().await;
        }
    };
    if let Err(panic) = AssertUnwindSafe(adding).catch_unwind().await {
        let error = panic_message(panic);
        tracing::error!(%controller, %error, "the stream of a trigger panicked; it ends");
    }
}

impl<K: Key> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", self.name())
            .field("triggers", &self.triggers)
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for ControllerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .field("triggers", &self.triggers)
            .finish_non_exhaustive()
    }
}
