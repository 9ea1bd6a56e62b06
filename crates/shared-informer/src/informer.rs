//! The informer.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use kinformer_core::{KeyRef, Object, PartId, PartOrKey, ResourceVersion};
use kinformer_delta_fifo::Queue;
use kinformer_processor::{EventHandler, EventStream, HandlerBuilder, Registration, SharedProcessor};
use kinformer_reflector::{SourceError, StopReason};
use kinformer_store::{IndexFunction, Indexer, Reader, Snapshot};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::apply::Apply;
use crate::awaited::{Awaited, AwaitedList};
use crate::controller::Controller;
use crate::error::{NotSynced, SyncProgress, WaitOutcome};
use crate::latency::Latency;
use crate::metrics::InformerMetrics;
use crate::parts::Part;

/// Keeps a store equal to a source, and tells any number of handlers of every change, after the store has it.
///
/// Cheap to clone; all clones are the same informer. It does nothing until somebody [runs](Self::run) it, which
/// is possible once. Handlers may come and go at any time until it stops.
///
/// For one object, handlers and store see a subsequence of the states that the source had, in order; if the
/// source stays still they end up with its last state, whatever went wrong in between.
///
/// Follows client-go 1.37 (`SharedIndexInformer`).
pub struct SharedIndexInformer<T: Object> {
    pub(crate) inner: Arc<Inner<T>>,
}

pub(crate) struct Inner<T: Object> {
    pub(crate) name: Arc<str>,
    pub(crate) resource: Arc<str>,
    pub(crate) cluster: Arc<str>,
    pub(crate) scope: Arc<str>,
    pub(crate) indexer: Arc<Indexer<T>>,
    pub(crate) queue: Arc<dyn Queue<T>>,
    pub(crate) processor: SharedProcessor<T>,
    pub(crate) latency: Arc<Latency>,
    pub(crate) parts: Vec<Part>,
    /// What only a run needs, until there is one.
    pub(crate) startable: Mutex<Option<Controller<T, Apply<T>>>>,
    pub(crate) was_run: AtomicBool,
    pub(crate) grace: Duration,
    pub(crate) synced: CancellationToken,
    pub(crate) awaited: Arc<Awaited>,
    pub(crate) stopped: CancellationToken,
}

/// Where an informer is in its life. It goes through these once, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Nobody has run it.
    NotStarted,
    /// It runs.
    Running,
    /// It has stopped, for good. Its store can still be read.
    Stopped,
}

impl<T: Object> SharedIndexInformer<T> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What it is about.
    pub fn resource(&self) -> &str {
        &self.inner.resource
    }

    /// Which of the resource's objects it holds; empty for all.
    pub fn scope(&self) -> &str {
        &self.inner.scope
    }

    /// A handler to be added, with what is particular about it: its name, resync period, buffer, filter. Adding it
    /// fails with the processor's error, which `?` converts into [`Error`].
    pub fn handler(&self) -> HandlerBuilder<'_, T> {
        self.inner.processor.handler()
    }

    /// Adds a handler as it is: see [`HandlerBuilder::add`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn add_handler(&self, handler: impl EventHandler<Arc<T>>) -> Result<Registration, Error> {
        Ok(self.handler().add(handler)?)
    }

    /// All events as a stream: see [`HandlerBuilder::stream`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn stream(&self) -> Result<EventStream<T>, Error> {
        Ok(self.handler().stream()?)
    }

    /// Removes a handler of this informer, and waits for the callback that is running. Says whether it was one of
    /// its own and not removed before; of any other nothing happens.
    pub async fn remove_handler(&self, registration: &Registration) -> bool {
        self.inner.processor.remove_handler(registration).await
    }

    /// The store, to be read.
    pub fn store(&self) -> Reader<T> {
        self.inner.indexer.reader()
    }

    /// The whole state of the store as it is now. O(1).
    pub fn snapshot(&self) -> Snapshot<T> {
        self.inner.indexer.snapshot()
    }

    /// The object with this key. O(1).
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.inner.indexer.get(key)
    }

    /// Adds indexes to the store, whatever it holds; before the start and after it.
    ///
    /// # Errors
    /// [`Error::Indexers`]: a name is taken, and nothing has changed. [`Error::Stopped`].
    ///
    /// Follows client-go 1.37 (`AddIndexers`).
    pub fn add_indexers(
        &self,
        indexers: impl IntoIterator<Item = (impl Into<Arc<str>>, IndexFunction<T>)>,
    ) -> Result<(), Error> {
        if self.is_stopped() {
            return Err(self.stopped_error());
        }
        let added = self.inner.indexer.add_indexers(indexers);
        let report = added.map_err(|source| Error::Indexers {
            informer: self.inner.name.clone(),
            source: Arc::new(source),
        })?;
        for problem in report.problems() {
            tracing::error!(informer = %self.inner.name, error = %problem.error, "an object is not in an index");
        }
        Ok(())
    }

    /// Runs the informer until the token is cancelled, in this future and, if it has handlers, a task for each of them and
    /// one that wakes them, which this future owns. Without handlers everything happens in this future, which may be
    /// polled together with those of other informers.
    ///
    /// When the token is cancelled lists and watches end at once, handlers return from the event they are in, and
    /// none of the tasks is left when this returns, within the grace period and without regard to who does not
    /// return. Dropping the future ends the tasks as well. What was not told is dropped.
    ///
    /// # Errors
    /// [`Error::Running`] or [`Error::Stopped`] at once: an informer runs once. [`Error::ReflectorEnded`] at any time.
    /// [`Error::Stuck`] at the end: these handlers did not return in time.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        let inner = &self.inner;
        let controller = inner.startable.lock().take();
        let Some(controller) = controller else {
            return Err(match self.phase() {
                Phase::Stopped => self.stopped_error(),
                Phase::NotStarted | Phase::Running => Error::Running { informer: inner.name.clone() },
            });
        };
        inner.was_run.store(true, Ordering::Relaxed);
        let _stop = StopOnDrop(inner);

        // The handlers first: so that the shortest period among them is settled when the reflector starts.
        let stop_handlers = CancellationToken::new();
        // Fused: it ends early if the processor was run before.
        let mut handlers = pin!(inner.processor.run(stop_handlers.clone()).fuse());
        // Polled once, it has started; and since it has, its end ends the handlers, however soon that comes.
        let mut handlers_ended = handlers.as_mut().now_or_never();
        let check = inner.processor.resync_check_period().unwrap_or_default();
        let mut controlling = pin!(controller.resync_period(check).run(cancel));
        let reason = loop {
            tokio::select! {
                reason = &mut controlling => break reason,
                ended = &mut handlers, if handlers_ended.is_none() => handlers_ended = Some(ended),
            }
        };
        tracing::debug!(informer = %inner.name, ?reason, "informer stopping");
        let ended = match reason {
            StopReason::Dropped => {
                Err(Error::ReflectorEnded { informer: inner.name.clone(), last_error: inner.last_error() })
            }
            _ => Ok(()),
        };

        stop_handlers.cancel();
        let handlers_ended = match handlers_ended {
            Some(ended) => ended,
            None => handlers.await,
        };
        match handlers_ended {
            Err(kinformer_processor::Error::Stuck { handlers }) => {
                Err(Error::Stuck { informer: inner.name.clone(), handlers, grace: inner.grace })
            }
            Ok(()) | Err(_) => ended,
        }
    }

    /// [Runs](Self::run) the informer as a task, which goes on if the handle is dropped: cancel the token to end it.
    pub fn spawn(&self, cancel: CancellationToken) -> JoinHandle<Result<(), Error>> {
        let informer = self.clone();
        tokio::spawn(async move { informer.run(cancel).await })
    }

    /// Ends an informer that nobody will run, so that whoever waits for it is told that it has stopped. Says whether
    /// it was so; one that runs is left alone, and so is one that has stopped.
    pub fn discard(&self) -> bool {
        // Dropped last: it is the user's.
        let startable = self.inner.startable.lock().take();
        if startable.is_none() {
            return false;
        }
        let _stop = StopOnDrop(&self.inner);
        self.inner.processor.discard()
    }

    /// Where it is in its life.
    pub fn phase(&self) -> Phase {
        if self.is_stopped() {
            Phase::Stopped
        } else if self.inner.startable.lock().is_some() {
            Phase::NotStarted
        } else {
            Phase::Running
        }
    }

    /// Whether it has stopped.
    pub fn is_stopped(&self) -> bool {
        self.inner.has_stopped()
    }

    /// Waits until it has stopped. Cancel-safe.
    pub async fn stopped(&self) {
        self.inner.stopped.cancelled().await;
    }

    /// Whether the store has had everything of the first list.
    pub fn has_synced(&self) -> bool {
        self.inner.synced.is_cancelled()
    }

    /// Waits until the store has had everything of the first list. It may be waited for before the informer is
    /// started. Cancel-safe; any number may wait.
    ///
    /// # Errors
    /// [`Error::NotSynced`]: it stopped first; with the last error it met.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        self.reaches(self.inner.synced.cancelled()).await
    }

    async fn reaches(&self, reached: impl Future<Output = ()>) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = reached => Ok(()),
            () = self.inner.stopped.cancelled() => Err(self.not_synced(WaitOutcome::Stopped)),
        }
    }

    /// As [`Self::wait_for_sync`], until a deadline.
    ///
    /// # Errors
    /// [`Error::NotSynced`], with how far it has come and the last error it met.
    pub async fn wait_for_sync_until(&self, deadline: Instant) -> Result<(), Error> {
        self.reaches_until(self.inner.synced.cancelled(), Some(deadline)).await
    }

    /// Awaits a list of this [epoch](kinformer_core::Replacement::epoch) or a later one, from a source that is about to list
    /// other objects under the same keys. Handlers that are added from now on have synced after that list. Several lists
    /// may be awaited at once: handlers have synced after the last of them.
    ///
    /// A list that the store has already is stored at once, and changes nothing for handlers.
    pub fn await_list(&self, epoch: u32) -> AwaitedList {
        self.inner.awaited.expect(epoch, &self.inner.processor)
    }

    /// Waits until the store has this list of every part, or until the deadline. Cancel-safe.
    ///
    /// # Errors
    /// As [`Self::wait_for_sync_until`].
    pub async fn wait_for_list(&self, list: &AwaitedList, deadline: Option<Instant>) -> Result<(), Error> {
        self.reaches_until(list.stored(None), deadline).await
    }

    /// As [`Self::wait_for_list`], for one part, or for the part of a key.
    ///
    /// # Errors
    /// As [`Self::wait_for_list`]; and [`Error::VersionNotReached`] at once if there is no such part.
    pub async fn wait_for_list_of<'k>(
        &self,
        list: &AwaitedList,
        place: impl Into<PartOrKey<'k>>,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let part = self.inner.indexer.part_of(place).map_err(|source| self.not_reached(source))?;
        self.reaches_until(list.stored(Some(part)), deadline).await
    }

    async fn reaches_until(
        &self,
        reached: impl Future<Output = ()>,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let reached = self.reaches(reached);
        let Some(deadline) = deadline else { return reached.await };
        let reached = tokio::time::timeout_at(deadline, reached).await;
        reached.unwrap_or_else(|_| Err(self.not_synced(WaitOutcome::DeadlineExceeded)))
    }

    /// Waits until the store reflects at least this version, for example that of one's own write to the object with this
    /// key, or to an object of this part. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::VersionNotReached`]: it stopped first, there is no such part, or the versions do not compare; see [`Reader::wait_for`].
    pub async fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Result<(), Error> {
        self.inner.indexer.wait_for(place, version).await.map_err(|source| self.not_reached(source))
    }

    /// As [`Self::wait_for`], until a deadline.
    ///
    /// # Errors
    /// As [`Self::wait_for`], and at the deadline.
    pub async fn wait_for_until<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
        deadline: Instant,
    ) -> Result<(), Error> {
        let waited = self.inner.indexer.wait_for_until(place, version, deadline).await;
        waited.map_err(|source| self.not_reached(source))
    }

    /// Its parts, by number: one for each source. Each has its own reflector.
    pub fn parts(&self) -> &[Part] {
        &self.inner.parts
    }

    /// The part with this number; [`PartId::ONLY`] of an informer with one source.
    pub fn part(&self, part: PartId) -> Option<&Part> {
        self.inner.parts.get(part.number() as usize)
    }

    /// Its figures.
    pub fn metrics(&self) -> InformerMetrics {
        self.inner.metrics()
    }

    fn stopped_error(&self) -> Error {
        Error::Stopped { informer: self.inner.name.clone() }
    }

    fn not_reached(&self, source: kinformer_store::Error) -> Error {
        Error::VersionNotReached { informer: self.inner.name.clone(), source: Arc::new(source) }
    }

    fn not_synced(&self, outcome: WaitOutcome) -> Error {
        let unlisted = self.inner.parts.iter().filter(|part| !part.reflector().is_synced());
        let unlisted: Vec<Arc<str>> = unlisted.map(|part| part.name().into()).collect();
        let progress = match self.inner.was_run.load(Ordering::Relaxed) {
            false => SyncProgress::NotStarted,
            true if unlisted.is_empty() => SyncProgress::Processing { queued: self.inner.queue.depth() },
            true => SyncProgress::NoList { parts: unlisted },
        };
        let last_error = self.inner.last_error();
        Error::NotSynced(Box::new(NotSynced {
            informer: self.inner.name.clone(),
            outcome,
            progress,
            last_error,
        }))
    }
}

impl<T: Object> Inner<T> {
    pub(crate) fn metrics(&self) -> InformerMetrics {
        let snapshot = self.indexer.snapshot();
        InformerMetrics {
            name: self.name.clone(),
            resource: self.resource.clone(),
            cluster: self.cluster.clone(),
            scope: self.scope.clone(),
            objects: snapshot.len(),
            resource_versions: snapshot.resource_versions().clone(),
            queue: self.queue.metrics(),
            processing: self.latency.summary(),
            reflector: self.parts.iter().map(|part| part.reflector().metrics()).sum(),
            handlers: self.processor.handler_metrics(),
        }
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.is_cancelled()
    }

    /// The last error of a list or a watch: of a part that has not listed, if there is any such error.
    fn last_error(&self) -> Option<Arc<SourceError>> {
        let errors = |listed: bool| {
            let parts = self.parts.iter().filter(move |part| part.reflector().is_synced() == listed);
            parts.filter_map(|part| part.reflector().last_error())
        };
        errors(false).next().or_else(|| errors(true).next())
    }
}

/// Whichever way a run ends: nobody waits for it any more.
struct StopOnDrop<'a, T: Object>(&'a Inner<T>);

impl<T: Object> Drop for StopOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.queue.close();
        self.0.indexer.stop();
        self.0.stopped.cancel();
    }
}

impl<T: Object> Clone for SharedIndexInformer<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T: Object> fmt::Debug for SharedIndexInformer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedIndexInformer")
            .field("name", &self.inner.name)
            .field("phase", &self.phase())
            .field("objects", &self.inner.indexer.len())
            .field("resource_versions", &self.inner.indexer.resource_versions())
            .finish_non_exhaustive()
    }
}
