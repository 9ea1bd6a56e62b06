//! Tasks of a program.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::poll;
use kinformer::BoxError;
use kinformer_core::internal::panic_message;
use tokio::task::JoinError;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::layers::{Begun, Ends, Run};
use super::stage::Stage;
use crate::error::Error;

/// A task of a program that a [`Manager`](crate::Manager) runs beside its controllers.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_controller::{Manager, Task};
///
/// # async fn install() -> Result<(), std::io::Error> { Ok(()) }
/// # async fn report() {}
/// # fn example() -> Result<Manager, kinformer_controller::Error> {
/// let install = Task::once("install", install); // the controllers begin when it has ended
/// let report = Task::new("report", async |shutdown| {
///     while shutdown.run_until_cancelled(tokio::time::sleep(Duration::from_secs(60))).await.is_some() {
///         report().await;
///     }
///     Ok::<_, std::io::Error>(())
/// });
/// let manager = Manager::new().add(install.need_leader_election(false))?.add(report)?;
/// # Ok(manager)
/// # }
/// ```
///
/// It runs on the runtime as a task of its own. An error, a panic, and an end before the shutdown end the manager with an error
/// that names the task.
#[must_use = "it does nothing until a manager runs it"]
pub struct Task {
    pub(crate) name: Arc<str>,
    pub(crate) stage: Stage,
    is_once: bool,
    grace: Duration,
    start: Box<dyn FnMut(CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> + Send>,
}

impl Task {
    /// Creates a task that runs until the token is cancelled. As controllers, it begins when the informers of the manager have
    /// synced. With a leader election it runs while the process is the leader: the function is called for each leadership, and the
    /// future is dropped when the leadership is lost.
    #[doc(alias = "RunnableFunc")]
    pub fn new<F, E>(
        name: impl Into<Arc<str>>,
        mut start: impl FnMut(CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self {
            name: name.into(),
            stage: Stage::Leaders,
            is_once: false,
            grace: Duration::from_secs(30),
            start: Box::new(move |shutdown| {
                let run = start(shutdown);
                async { run.await.map_err(Into::into) }.boxed()
            }),
        }
    }

    /// As [`Self::new`], for a task that ends by itself: what is in a later [group](crate::Manager::group), or waits for a
    /// leadership if this task [does not](Self::need_leader_election), begins when it has succeeded. A shutdown does not wait for
    /// it: then its future is dropped.
    #[doc(alias = "RunnableFunc")]
    pub fn once<F, E>(name: impl Into<Arc<str>>, mut start: impl FnMut() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self { is_once: true, ..Self::new(name, move |_| start()) }
    }

    /// As [`Self::new`], for a server, such as one for probes: it begins before the informers sync, in each replica, and ends
    /// when all else has ended.
    pub fn server<F, E>(
        name: impl Into<Arc<str>>,
        start: impl FnMut(CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self { stage: Stage::Servers, ..Self::new(name, start) }
    }

    /// Sets whether the task runs only while the process is the leader. The default is true, but for [servers](Self::server),
    /// which this does not change. A task that does not begins before those that do, also without a leader election.
    #[doc(alias("LeaderElectionRunnable", "OnlyServeWhenLeader"))]
    pub fn need_leader_election(mut self, need: bool) -> Self {
        if self.stage != Stage::Servers {
            self.stage = if need { Stage::Leaders } else { Stage::Others };
        }
        self
    }

    /// Sets how long a shutdown waits for the task. Then its future is dropped, which is an error. The default is 30 s.
    #[doc(alias("GracefulShutdownTimeout", "ShutdownTimeout"))]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

impl Run for Task {
    fn run(&mut self, begun: Begun, Ends { stop, .. }: Ends) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            // One that ends by itself has begun with its end.
            let (begun, _ended) = if self.is_once { (None, Some(begun)) } else { (Some(begun), None) };
            let mut task = (self.start)(stop.clone());
            let mut running = AbortOnDropHandle::new(tokio::spawn(async move {
                let first = poll!(&mut task);
                drop(begun);
                if let Poll::Ready(result) = first { result } else { task.await }
            }));
            let ended = tokio::select! {
                biased;
                ended = &mut running => ended,
                () = stop.cancelled(), if self.is_once => return Ok(()),
                () = stop.cancelled() => match timeout(self.grace, running).await {
                    Ok(ended) => ended,
                    Err(_) => return Err(Error::NotEnded { name: self.name.clone(), grace: self.grace }),
                },
            };
            let name = self.name.clone();
            match ended.map_err(JoinError::try_into_panic) {
                Ok(Ok(())) if self.is_once || stop.is_cancelled() => Ok(()),
                Ok(Ok(())) => Err(Error::EndedEarly { name }),
                Ok(Err(source)) => Err(Error::Task { name, source }),
                Err(Ok(panic)) => Err(Error::Panicked { name, message: panic_message(panic) }),
                Err(Err(error)) => Err(Error::Task { name, source: error.into() }), // the runtime ends
            }
        }
        .boxed()
    }

    fn may_end(&self) -> bool {
        self.is_once
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).field("stage", &self.stage).finish_non_exhaustive()
    }
}
