//! What a manager runs.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "prometheus")]
use std::sync::Weak;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use kinformer::SharedInformerFactory;
use tokio::sync::oneshot;

use super::layers::{Begun, Ends, Run};
use super::stage::Stage;
use super::task::Task;
use crate::controller::{Controller, Warm, after};
use crate::error::Error;
use crate::health::Status;
#[cfg(feature = "serve")]
use crate::view::Shown;
use crate::worker::Key;
#[cfg(feature = "prometheus")]
use crate::worker::Observed;

/// Something that a [`Manager`](crate::Manager) runs: a [`Controller`] or a [`Task`].
pub struct Runnable {
    pub(crate) name: Arc<str>,
    /// Its parts, which run in different stages.
    pub(crate) parts: Vec<(Stage, Box<dyn Run>)>,
    pub(crate) controller: Option<OfController>,
}

/// What a manager keeps of a controller.
pub(crate) struct OfController {
    pub(crate) status: Arc<Status>,
    #[cfg(feature = "prometheus")]
    pub(crate) observed: Weak<dyn Observed>,
    #[cfg(feature = "serve")]
    pub(crate) shown: Weak<dyn Shown>,
}

impl Runnable {
    /// Something that is no controller.
    pub(crate) fn of(name: Arc<str>, parts: Vec<(Stage, Box<dyn Run>)>) -> Self {
        Self { name, parts, controller: None }
    }
}

impl<K: Key> From<Controller<K>> for Runnable {
    fn from(controller: Controller<K>) -> Self {
        let stage = if controller.needs_leader() { Stage::Leaders } else { Stage::Others };
        let (sender, receiver) = oneshot::channel();
        Self {
            name: controller.name().clone(),
            controller: Some(OfController {
                status: controller.status().clone(),
                #[cfg(feature = "prometheus")]
                observed: controller.observed(),
                #[cfg(feature = "serve")]
                shown: controller.shown(),
            }),
            parts: vec![
                (Stage::Caches, Box::new(Syncing(Some((controller, sender))))),
                (stage, Box::new(Working::Waits(receiver))),
            ],
        }
    }
}

impl From<Task> for Runnable {
    fn from(task: Task) -> Self {
        Self::of(task.name.clone(), vec![(task.stage, Box::new(task))])
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runnable").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The start of a controller, and the watch over its informers.
struct Syncing<K>(Option<(Controller<K>, oneshot::Sender<Warm<K>>)>);

impl<K: Key> Run for Syncing<K> {
    fn run(&mut self, begun: Begun, ends: Ends) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            let Some((controller, synced)) = self.0.take() else { return Ok(()) }; // it runs once
            let warm = tokio::select! {
                biased;
                () = ends.ending.cancelled() => return Ok(()),
                warm = controller.warm_up() => warm?,
            };
            let informer_stopped = warm.informer_stopped();
            drop((synced.send(warm), begun)); // the receiver lives as long as the run
            tokio::select! {
                biased;
                () = ends.ending.cancelled() => Ok(()),
                error = informer_stopped => Err(error),
            }
        }
        .boxed()
    }
}

/// The reconciliations of a controller.
enum Working<K> {
    Waits(oneshot::Receiver<Warm<K>>),
    Synced(Warm<K>),
}

impl<K: Key> Run for Working<K> {
    fn run(&mut self, begun: Begun, ends: Ends) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            if let Self::Waits(synced) = self {
                let warm = tokio::select! {
                    biased;
                    () = ends.stop.cancelled() => return Ok(()),
                    warm = synced => warm,
                };
                let Ok(warm) = warm else { return Ok(()) }; // it has failed
                *self = Self::Synced(warm);
            }
            let Self::Synced(warm) = self else { return Ok(()) };
            warm.work(ends.stop, || drop(begun)).await
        }
        .boxed()
    }
}

/// Starts a factory, waits for its informers, and shuts it down at the end. The number is for its name.
pub(crate) fn informers(factory: SharedInformerFactory, number: usize, sync_timeout: Duration) -> Runnable {
    let sync = Synced { factory: factory.clone(), sync_timeout };
    let parts: Vec<(_, Box<dyn Run>)> =
        vec![(Stage::Caches, Box::new(sync)), (Stage::Caches, Box::new(ShutDown(factory)))];
    Runnable::of(format!("informers {number}").into(), parts)
}

/// A factory that is started and synced.
struct Synced {
    factory: SharedInformerFactory,
    sync_timeout: Duration,
}

impl Synced {
    async fn sync(&self) -> Result<(), Error> {
        self.factory.start().map_err(Error::Factory)?;
        let synced = self.factory.wait_for_cache_sync().until(after(self.sync_timeout)).await;
        synced.into_result().map_err(Error::Factory)
    }
}

impl Run for Synced {
    fn run(&mut self, begun: Begun, ends: Ends) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            ends.ending.run_until_cancelled(self.sync()).await.transpose()?;
            drop(begun);
            ends.stop.cancelled().await;
            Ok(())
        }
        .boxed()
    }
}

/// A factory that is shut down at the end.
struct ShutDown(SharedInformerFactory);

impl Run for ShutDown {
    fn run(&mut self, begun: Begun, ends: Ends) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            drop(begun);
            ends.stop.cancelled().await;
            self.0.shutdown().await.map_err(Error::Factory)
        }
        .boxed()
    }
}
