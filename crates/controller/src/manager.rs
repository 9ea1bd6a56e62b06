//! Several controllers with one shutdown.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
#[cfg(feature = "prometheus")]
use std::sync::Weak;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, join_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt as _};
use kinformer_leader_election::LeaderElector;
use parking_lot::Mutex;
use tokio::sync::{Barrier, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::controller::{Controller, Warm};
use crate::error::Error;
use crate::events::EventRecorder;
use crate::health::{Health, State, Status};
use crate::signal::Signals;
use crate::worker::Key;
#[cfg(feature = "prometheus")]
use crate::worker::Observed;

/// Runs controllers together: they start when the informers of all have synced, and end together.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kinformer::SharedInformerFactory;
/// use kinformer_controller::{Action, Controller, Manager};
///
/// # async fn example(factory: SharedInformerFactory) -> Result<(), kinformer_controller::Error> {
/// let config_maps = Controller::of(&factory).reconciles::<ConfigMap>().build(async |key| {
///     println!("reconcile {}", *key);
///     Ok(Action::none())
/// });
/// let secrets = Controller::of(&factory).reconciles::<Secret>().build(async |_| Ok(Action::none()));
/// Manager::new().add(config_maps)?.add(secrets)?.run_until_signal().await
/// # }
/// ```
///
/// Follows controller-runtime 0.25 (`manager`).
#[derive(Default)]
pub struct Manager {
    names: BTreeSet<Arc<str>>,
    controllers: Vec<Box<dyn Cold>>,
    /// The recorders of events, with the time limits of their end.
    recorders: Vec<(EventRecorder, Duration)>,
    state: Stopping,
    health: Arc<Mutex<Vec<Arc<Status>>>>,
    elector: Arc<OnceLock<LeaderElector>>,
}

/// A controller that was not started.
trait Cold: Send {
    #[cfg(feature = "prometheus")]
    fn observed(&self) -> (Arc<str>, Weak<dyn Observed>);

    fn warm_up(self: Box<Self>) -> BoxFuture<'static, Result<Box<dyn Ready>, Error>>;
}

/// A controller whose informers have synced.
trait Ready: Send {
    /// Waits until the informer of a trigger has stopped.
    fn informer_stopped(&self) -> BoxFuture<'static, Error>;

    fn work(self: Box<Self>, shutdown: CancellationToken) -> BoxFuture<'static, Result<(), Error>>;
}

impl<K: Key> Cold for Controller<K> {
    #[cfg(feature = "prometheus")]
    fn observed(&self) -> (Arc<str>, Weak<dyn Observed>) {
        (self.name().clone(), self.observed())
    }

    fn warm_up(self: Box<Self>) -> BoxFuture<'static, Result<Box<dyn Ready>, Error>> {
        async move { Ok(Box::new((*self).warm_up().await?) as Box<dyn Ready>) }.boxed()
    }
}

impl<K: Key> Ready for Warm<K> {
    fn informer_stopped(&self) -> BoxFuture<'static, Error> {
        self.informer_stopped()
    }

    fn work(self: Box<Self>, shutdown: CancellationToken) -> BoxFuture<'static, Result<(), Error>> {
        (*self).work(shutdown).boxed()
    }
}

impl Manager {
    /// Creates a manager without controllers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a controller.
    ///
    /// # Errors
    /// The manager has a controller with this name.
    pub fn add<K: Key>(mut self, controller: Controller<K>) -> Result<Self, Error> {
        let name = controller.name().clone();
        if !self.names.insert(name.clone()) {
            return Err(Error::DuplicateName { name });
        }
        self.health.lock().push(controller.status().clone());
        self.controllers.push(Box::new(controller));
        Ok(self)
    }

    /// Writes the last events of a recorder when the controllers have ended, within a limit: before a leadership is released, and
    /// after one that was lost. The recorder is [shut down](EventRecorder::shutdown) then.
    #[must_use]
    pub fn events(mut self, recorder: &EventRecorder, limit: Duration) -> Self {
        self.recorders.push((recorder.clone(), limit));
        self
    }

    /// Returns the health of the manager and of its controllers, which can be read while they run, and later.
    pub fn health(&self) -> Health {
        let (controllers, elector) = (self.health.clone(), self.elector.clone());
        Health { state: self.state.0.subscribe(), controllers, elector }
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn observed(&self) -> Vec<(Arc<str>, Weak<dyn Observed>)> {
        self.controllers.iter().map(|controller| controller.observed()).collect()
    }

    /// Runs the controllers until the token is cancelled, or until one of them ends. Without controllers, waits for the token,
    /// as controller-runtime does.
    ///
    /// # Cancel safety
    /// Dropping the future ends all controllers at once, as [`Controller::run`].
    ///
    /// # Errors
    /// The error of a controller, or [`Error::Several`].
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_when(shutdown, async {}).await
    }

    /// As [`Self::run`], but reconciles only after `start`, such as the wait for a leadership. The informers sync before. The
    /// triggers enqueue nothing before: then the objects that exist are enqueued with a low priority.
    ///
    /// # Cancel safety
    /// As [`Self::run`].
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn run_when(
        mut self,
        shutdown: CancellationToken,
        start: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let recorders = std::mem::take(&mut self.recorders);
        let result = self.run_controllers(shutdown, start).await;
        write_last_events(recorders).await;
        result
    }

    async fn run_controllers(
        self,
        shutdown: CancellationToken,
        start: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Self { controllers, state, .. } = self;
        // Ends the other controllers if one of them fails.
        let stop = shutdown.child_token();
        let warm_up = async {
            let all_synced = Barrier::new(controllers.len());
            let warm = try_join_all(controllers.into_iter().map(async |controller| {
                let warm = controller.warm_up().await?;
                tokio::select! {
                    biased;
                    error = warm.informer_stopped() => Err(error),
                    _ = all_synced.wait() => Ok(warm),
                }
            }));
            let warm = warm.await?;
            let stopped = warm.iter().map(|controller| controller.informer_stopped());
            let mut stopped: FuturesUnordered<_> = stopped.collect();
            tokio::select! {
                biased;
                Some(error) = stopped.next() => Err(error),
                () = start => Ok(warm),
            }
        };
        let warm = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            warm = warm_up => warm?,
        };
        state.0.send_replace(State::Running);
        if warm.is_empty() {
            shutdown.cancelled().await;
        }
        let work = warm.into_iter().map(async |controller| {
            let result = controller.work(stop.clone()).await;
            stop.cancel();
            result
        });
        let errors: Vec<_> = join_all(work).await.into_iter().filter_map(Result::err).collect();
        let mut errors = errors.into_iter();
        match (errors.next(), errors.len()) {
            (None, _) => Ok(()),
            (Some(error), 0) => Err(error),
            (Some(error), _) => Err(Error::Several([error].into_iter().chain(errors).collect())),
        }
    }

    /// As [`Self::run_when`], but reconciles only while this process is the leader. The informers sync before, so that a new
    /// leader begins at once. After the shutdown the leadership is released.
    ///
    /// Give the controllers the [client of the elector](LeaderElector::client): it refuses writes as soon as the leadership
    /// has ended, whatever still runs.
    ///
    /// ```no_run
    /// use kinformer::{SharedInformerFactory, kube_client::Client};
    /// use kinformer_controller::kinformer_leader_election::LeaderElector;
    /// use kinformer_controller::{CancellationToken, Controller, Manager};
    ///
    /// # fn controller(factory: &SharedInformerFactory, client: Client) -> Controller { unimplemented!() }
    /// # async fn example(client: Client, shutdown: CancellationToken) -> Result<(), Box<dyn std::error::Error>> {
    /// let factory = SharedInformerFactory::new(client.clone());
    /// let elector = LeaderElector::builder(client.clone(), "default", "my-controller").build()?;
    /// let controller = controller(&factory, elector.client(&client));
    /// Manager::new().add(controller)?.run_as_leader(&elector, shutdown).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As [`Self::run`]. The Lease stays held until it expires.
    ///
    /// # Errors
    /// As [`Self::run`], and [`Error::NotLeader`] if the leadership ended before. Then all reconciliations were dropped at
    /// once; a process usually exits, and its next start is a candidate again.
    pub async fn run_as_leader(
        self,
        elector: &LeaderElector,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        _ = self.elector.set(elector.clone()); // a manager runs once
        let (sender, mut elected) = oneshot::channel();
        let recorders = self.recorders.clone();
        let mut run = Box::pin(self.run_when(shutdown, async move {
            // The receiver lives as long as this future.
            _ = sender.send(elector.acquire().await);
        }));
        let (result, leadership) = tokio::select! {
            biased;
            // Possibly in the same poll in which the election has ended.
            result = &mut run => (result, elected.try_recv().ok()),
            Ok(leadership) = &mut elected => {
                match leadership.run(run).await {
                    Ok(result) => (result, Some(leadership)),
                    Err(reason) => {
                        write_last_events(recorders).await;
                        return Err(Error::NotLeader(reason));
                    }
                }
            }
        };
        if let Some(leadership) = leadership
            && let Err(error) = leadership.release().await
        {
            tracing::warn!(%error, "the leadership was not released");
        }
        result
    }

    /// Runs the controllers until the process receives SIGINT or SIGTERM (on Windows, Ctrl-C). A second signal ends them at
    /// once, without the grace period. From the call on, these signals no longer end the process by themselves.
    ///
    /// # Cancel safety
    /// As [`Self::run`].
    ///
    /// # Errors
    /// As [`Self::run`], [`Error::Signal`] if the handlers of the signals cannot be installed, and [`Error::Interrupted`]
    /// after a second signal.
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

async fn write_last_events(recorders: Vec<(EventRecorder, Duration)>) {
    let end = |(recorder, limit): (EventRecorder, Duration)| async move {
        if !recorder.shutdown(limit).await {
            tracing::warn!(?limit, "the last events were not written in time");
        }
    };
    join_all(recorders.into_iter().map(end)).await;
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
            .field("controllers", &self.names)
            .field("state", &*self.state.0.borrow())
            .finish()
    }
}
