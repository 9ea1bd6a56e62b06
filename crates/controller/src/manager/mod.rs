//! Runs controllers and tasks with one start and one end.

mod election;
mod layers;
mod plan;
mod runnable;
#[cfg(feature = "serve")]
mod serve;
mod stage;
mod task;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::future::join_all;
use kinformer::SharedInformerFactory;
use kinformer_leader_election::LeaderElector;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::election::Election;
use self::layers::Progress;
use self::plan::{Ending, Plan};
pub use self::runnable::Runnable;
pub use self::task::Task;
use crate::error::Error;
use crate::events::EventRecorder;
use crate::health::{Health, State};
#[cfg(feature = "prometheus")]
use crate::prometheus::ControllerCollector;
use crate::signal::Signals;

/// Runs the controllers of a program, and what else it runs, with one start, one end, and a leader election.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer::SharedInformerFactory;
/// use kinformer_controller::kinformer_leader_election::LeaderElector;
/// use kinformer_controller::{Action, Controller, Manager};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kinformer::client(kinformer::config()?)?;
/// let factory = SharedInformerFactory::new(client.clone());
/// let elector = LeaderElector::builder(client, "default", "my-controller").build()?;
/// let config_maps = Controller::of(&factory).reconciles::<ConfigMap>().build(async |key| {
///     println!("reconcile {}", *key);
///     Ok(Action::none())
/// });
/// Manager::new().factory(&factory).leader_election(&elector).add(config_maps)?.run_until_signal().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Order
///
/// 1. [Servers](Task::server) begin.
/// 2. The [factories](Self::factory) start, and the informers of all controllers sync.
/// 3. What [needs no leader](Task::need_leader_election) begins.
/// 4. The manager waits for the [leadership](Self::leader_election), if there is an election.
/// 5. Controllers and tasks begin, in the order of their [groups](Self::group).
///
/// The end has the opposite order: the controllers finish their reconciliations, then their [last events](Self::events) are
/// written, the Lease is released, what needs no leader ends, the factories shut down, the servers end, and the recorders of events
/// are shut down. An error, a panic or an early end of one ends all in this order, and is the error of the run.
///
/// Follows controller-runtime 0.25 (`manager`).
#[must_use = "it does nothing until it is run"]
pub struct Manager {
    plan: Arc<Plan>,
    /// Ends the plan with the manager.
    ending: Ending,
    groups: Vec<Vec<Arc<str>>>,
    factories: Vec<SharedInformerFactory>,
    sync_timeout: Duration,
    /// The recorders of events, with the time limits of their end.
    recorders: Vec<(EventRecorder, Duration)>,
    state: Stopping,
    elector: Arc<OnceLock<LeaderElector>>,
    rejoins: bool,
    #[cfg(feature = "ring")]
    pub(crate) ring: Option<kinformer_ring::Ring>,
}

impl Default for Manager {
    fn default() -> Self {
        let plan = Arc::<Plan>::default();
        Self {
            ending: Ending(plan.clone()),
            plan,
            groups: Vec::new(),
            factories: Vec::new(),
            sync_timeout: Duration::from_secs(120),
            recorders: Vec::new(),
            state: Stopping::default(),
            elector: Arc::default(),
            rejoins: false,
            #[cfg(feature = "ring")]
            ring: None,
        }
    }
}

impl Manager {
    /// Creates a manager that runs nothing.
    #[doc(alias = "NewManager")]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a controller or a task.
    ///
    /// # Errors
    /// [`Error::DuplicateName`].
    pub fn add(self, runnable: impl Into<Runnable>) -> Result<Self, Error> {
        self.plan.add(runnable.into())?;
        Ok(self)
    }

    /// Returns a handle that adds controllers and tasks while the manager runs.
    ///
    /// ```
    /// # use kinformer_controller::{Controller, Error};
    /// # fn controller_of(kind: &str) -> Controller { panic!("{kind}") }
    /// # async fn example(manager: kinformer_controller::Manager) -> Result<(), Error> {
    /// let handle = manager.handle();
    /// let running = tokio::spawn(manager.run_until_signal());
    /// handle.add(controller_of("widgets"))?; // when their definition was installed
    /// # _ = running.await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn handle(&self) -> ManagerHandle {
        ManagerHandle { plan: Arc::downgrade(&self.plan) }
    }

    /// Starts the informers of a factory, waits until they have synced, and shuts the factory down at the end. So a reconciliation
    /// can read each informer that was requested before the run, also one that triggers nothing. For a cache of kinformer-cache,
    /// give its factory.
    pub fn factory(mut self, factory: &SharedInformerFactory) -> Self {
        self.factories.push(factory.clone());
        self
    }

    /// Sets how long the start waits for the informers of the [factories](Self::factory). The default is 2 minutes. For the
    /// informers of a controller see [`sync_timeout`](crate::ControllerBuilder::sync_timeout).
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// Runs the controllers, and the tasks that [need it](Task::need_leader_election), only while this process is the leader. The
    /// informers sync before, so that a new leader begins at once. Until then, triggers enqueue nothing; then the objects that
    /// exist are enqueued with a low priority.
    ///
    /// Give the controllers the [client of the elector](LeaderElector::client): it refuses writes as soon as the leadership
    /// has ended, whatever still runs.
    ///
    /// When the leadership is lost, all reconciliations are dropped at once, and the run ends with [`Error::NotLeader`], unless
    /// the manager [is a candidate again](Self::rejoin_election). A process usually exits then, and its next start is a candidate.
    ///
    /// The first elector counts.
    ///
    /// ```
    /// # fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use kinformer::SharedInformerFactory;
    /// use kinformer_controller::Manager;
    /// use kinformer_controller::kinformer_leader_election::LeaderElector;
    ///
    /// let elector = LeaderElector::builder(client.clone(), "default", "my-controller").build()?;
    /// let writes = elector.client(&client); // for the controllers
    /// let factory = SharedInformerFactory::new(client); // for reads: each replica has them
    /// let manager = Manager::new().factory(&factory).leader_election(&elector).rejoin_election();
    /// # _ = (writes, manager);
    /// # Ok(())
    /// # }
    /// ```
    pub fn leader_election(self, elector: &LeaderElector) -> Self {
        _ = self.elector.set(elector.clone());
        self
    }

    /// Takes part in the ring of sharded controllers, in each replica. `/metrics` of [`serve`](Self::serve) has the slots, if
    /// it is called after this.
    ///
    /// # Errors
    /// [`Error::DuplicateName`] if there is a ring or something else with the name `ring`.
    #[cfg(feature = "ring")]
    pub fn sharding(mut self, sharding: &crate::Sharding) -> Result<Self, Error> {
        self.ring = Some(sharding.ring().clone());
        self.add(sharding.task())
    }

    /// Waits for the leadership again when it was lost, and begins again with the same controllers and the same informers.
    ///
    /// A reconciliation that blocks its thread cannot be dropped; its key is not reconciled by the next leadership of this process
    /// before it has ended.
    ///
    /// controller-runtime 0.25 always ends; KEP-5366 of Kubernetes is for this.
    pub fn rejoin_election(mut self) -> Self {
        self.rejoins = true;
        self
    }

    /// Runs the controllers and tasks with these names as a group: they begin when those of the groups before have begun, and
    /// have ended before the end of those begins. What is in no group begins last. A group does not change the
    /// [order](Self#order) of leaders and others.
    ///
    /// A controller has begun when the keys of the objects that exist are enqueued, and its workers have begun; a task when its
    /// future was polled; a [`Task::once`] when it has ended.
    ///
    /// ```
    /// # use kinformer_controller::{Controller, Error, Manager};
    /// # use kube_client::Client;
    /// use std::time::Duration;
    ///
    /// use kinformer_controller::Task;
    /// use kinformer_controller::crd::{self, CustomResourceDefinition};
    ///
    /// /// The controllers begin when the API server serves their kinds.
    /// fn manager(client: Client, kinds: Vec<CustomResourceDefinition>, web: Controller) -> Result<Manager, Error> {
    ///     let install = Task::once("install", move || {
    ///         let (client, kinds) = (client.clone(), kinds.clone());
    ///         async move { crd::install(&client, kinds, "my-controller", Duration::from_secs(30)).await }
    ///     });
    ///     Manager::new().group(["install"]).add(install)?.add(web)
    /// }
    /// ```
    pub fn group<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.groups.push(names.into_iter().map(Into::into).collect());
        self
    }

    /// Writes the last events of a recorder, each time within a limit: before a leadership is released, and when all has ended.
    /// Then the recorder is [shut down](EventRecorder::shutdown).
    #[doc(alias = "EventBroadcaster")]
    pub fn events(mut self, recorder: &EventRecorder, limit: Duration) -> Self {
        self.recorders.push((recorder.clone(), limit));
        self
    }

    /// Returns the health of the manager and of its controllers, which can be read while they run, and later.
    pub fn health(&self) -> Health {
        let (controllers, elector) = (self.plan.statuses.clone(), self.elector.clone());
        Health { state: self.state.0.subscribe(), controllers, elector }
    }

    /// Runs until the token is cancelled, or until something fails or ends. Without controllers, waits for the token, as
    /// controller-runtime does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = kinformer_apiserver::TestCluster::start().await?;
    /// # let factory = kinformer::SharedInformerFactory::new(cluster.client());
    /// # let controller = kinformer_controller::Controller::of(&factory);
    /// # let controller = controller.reconciles::<k8s_openapi::api::core::v1::Pod>();
    /// # let controller = controller.build(async |_| Ok(kinformer_controller::Action::none()));
    /// use kinformer_controller::{CancellationToken, Manager};
    ///
    /// // In a test, with a cluster of its own.
    /// let manager = Manager::new().factory(&factory).add(controller)?;
    /// let (health, shutdown) = (manager.health(), CancellationToken::new());
    /// let running = tokio::spawn(manager.run(shutdown.clone()));
    /// cluster.eventually(|| health.is_ready().then_some(()).ok_or("the manager is not ready")).await?;
    /// shutdown.cancel();
    /// running.await??;
    /// assert!(!health.is_alive() && factory.is_shut_down());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends all at once, as [`Controller::run`](crate::Controller::run). A Lease stays held until it expires.
    ///
    /// # Errors
    /// The error of a controller or a task, with its name; [`Error::Several`]. [`Error::NotLeader`] if the leadership was lost.
    /// [`Error::UnknownName`] and [`Error::InTwoGroups`] for a group, before anything begins. [`Error::Factory`].
    #[doc(alias = "graceful_shutdown_on")]
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let progress = Progress::until(&shutdown);
        for (number, factory) in self.factories.iter().enumerate() {
            self.plan.add(runnable::informers(factory.clone(), number, self.sync_timeout))?;
        }
        let layers = self.plan.begin(&self.groups, &progress.ending)?;
        let (each, leaders) = layers.split();
        let state = &self.state.0;
        let work = || {
            state.send_replace(State::Running);
            layers::run(leaders, &progress, progress.ending.cancelled())
        };
        let last = write_events(&self.recorders, EventRecorder::flush);
        let lead = async {
            let Some(elector) = self.elector.get() else { return work().await };
            let election = Election { elector, rejoins: self.rejoins };
            let paused = || _ = state.send_replace(State::Starting);
            election.lead(&progress, work, paused, last).await;
        };
        layers::run(each, &progress, lead).await;
        write_events(&self.recorders, EventRecorder::shutdown).await;
        drop(self.ending);
        progress.result()
    }

    /// As [`Self::run`], until the process receives SIGINT or SIGTERM (on Windows, Ctrl-C). A second signal ends all at once,
    /// without the grace period. From the call on, these signals no longer end the process by themselves.
    ///
    /// # Cancel safety
    /// As [`Self::run`].
    ///
    /// # Errors
    /// As [`Self::run`], [`Error::Signal`] if the handlers of the signals cannot be installed, and [`Error::Interrupted`]
    /// after a second signal.
    #[doc(alias("SetupSignalHandler", "shutdown_on_signal"))]
    pub async fn run_until_signal(self) -> Result<(), Error> {
        let shutdown = CancellationToken::new();
        let mut signals = Signals::new().map_err(Error::Signal)?;
        let mut run = pin!(self.run(shutdown.clone()));
        tokio::select! {
            biased;
            () = signals.next() => {
                tracing::info!("shutting down");
                shutdown.cancel();
            }
            result = &mut run => return result,
        }
        tokio::select! {
            biased;
            () = signals.next() => Err(Error::Interrupted),
            result = run => result,
        }
    }
}

#[cfg(feature = "prometheus")]
impl ControllerCollector {
    /// Adds the controllers of a manager, also those that are added to it later.
    ///
    /// # Errors
    /// As [`Self::add`]. Then no controller of the manager is added. A controller that is added later under a name that another
    /// one has gets no metrics, which is logged.
    pub fn add_manager(&self, manager: &Manager) -> Result<(), Error> {
        manager.plan.collect(self)
    }
}

/// Adds controllers and tasks to a [`Manager`], before and while it runs. Cheap to clone; it does not keep the manager alive.
#[derive(Clone)]
pub struct ManagerHandle {
    plan: Weak<Plan>,
}

impl ManagerHandle {
    /// Adds a controller or a task. If the manager runs, it begins as soon as its place in the [order](Manager#order) is reached,
    /// and does not wait for others of its group.
    ///
    /// # Errors
    /// [`Error::DuplicateName`]. [`Error::ManagerEnded`] if the end of the manager has begun.
    pub fn add(&self, runnable: impl Into<Runnable>) -> Result<(), Error> {
        let runnable = runnable.into();
        match self.plan.upgrade() {
            Some(plan) => plan.add(runnable),
            None => Err(Error::ManagerEnded { name: runnable.name }),
        }
    }
}

impl fmt::Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerHandle").finish_non_exhaustive()
    }
}

/// Writes the events of recorders by one of their functions.
async fn write_events(
    recorders: &[(EventRecorder, Duration)],
    write: impl AsyncFn(&EventRecorder, Duration) -> bool,
) {
    join_all(recorders.iter().map(async |(recorder, limit)| {
        if !write(recorder, *limit).await {
            tracing::warn!(?limit, "the last events were not written in time");
        }
    }))
    .await;
}

/// Publishes the end of the manager, also if it or its future is dropped.
#[derive(Default)]
struct Stopping(watch::Sender<State>);

impl Drop for Stopping {
    fn drop(&mut self) {
        self.0.send_replace(State::Stopped);
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("names", &self.plan.names())
            .field("state", &*self.state.0.borrow())
            .finish_non_exhaustive()
    }
}
