//! The informer.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use kinformer_core::{KeyRef, Object, ResourceVersion};
use kinformer_delta_fifo::Queue;
use kinformer_processor::{EventHandler, EventStream, HandlerBuilder, Registration, SharedProcessor};
use kinformer_reflector::{Exchange, ListerWatcher, ReflectorHandle, ReflectorOptions, StopReason};
use kinformer_store::{IndexFunction, Indexer, Reader, Snapshot};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::apply::Apply;
use crate::builder::SharedIndexInformerBuilder;
use crate::controller::Controller;
use crate::error::{NotSynced, Reached, WaitEnd};
use crate::latency::Latency;
use crate::metrics::InformerMetrics;

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
    pub(crate) scope: Arc<str>,
    pub(crate) indexer: Arc<Indexer<T>>,
    pub(crate) queue: Arc<dyn Queue<T>>,
    pub(crate) processor: SharedProcessor<T>,
    pub(crate) latency: Arc<Latency>,
    pub(crate) reflector: OnceLock<ReflectorHandle>,
    /// What only a run needs, until there is one.
    startable: Mutex<Option<Startable<T>>>,
    grace: Duration,
    synced: CancellationToken,
    pub(crate) stopped: CancellationToken,
}

struct Startable<T> {
    source: Arc<dyn ListerWatcher<T>>,
    exchange: Exchange<T>,
    options: ReflectorOptions,
}

/// What a builder gives.
pub(crate) struct Parts<T: Object> {
    pub(crate) name: Arc<str>,
    pub(crate) resource: Arc<str>,
    pub(crate) scope: Arc<str>,
    pub(crate) source: Arc<dyn ListerWatcher<T>>,
    pub(crate) exchange: Exchange<T>,
    pub(crate) indexer: Arc<Indexer<T>>,
    pub(crate) queue: Arc<dyn Queue<T>>,
    pub(crate) processor: SharedProcessor<T>,
    pub(crate) options: ReflectorOptions,
    pub(crate) grace: Duration,
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
    /// An informer with the defaults.
    ///
    /// # Errors
    /// As [`SharedIndexInformerBuilder::build`].
    pub fn new(source: impl ListerWatcher<T> + 'static) -> Result<Self, Error> {
        Self::builder(source).build()
    }

    /// For an informer with a name, indexes, a transform, resyncs.
    pub fn builder(source: impl ListerWatcher<T> + 'static) -> SharedIndexInformerBuilder<T> {
        SharedIndexInformerBuilder::new(Arc::new(source))
    }

    pub(crate) fn from_parts(parts: Parts<T>) -> Self {
        let Parts { name, resource, scope, source, exchange, indexer, queue, processor, options, grace } =
            parts;
        let inner = Inner {
            name,
            resource,
            scope,
            indexer,
            queue,
            processor,
            latency: Arc::default(),
            reflector: OnceLock::new(),
            startable: Mutex::new(Some(Startable { source, exchange, options })),
            grace,
            synced: CancellationToken::new(),
            stopped: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

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

    /// Runs the informer until the token is cancelled, in this future and a few tasks that it owns: one for the
    /// reflector and, if it has handlers, one for each of them and one that wakes them.
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
        let Some(Startable { source, exchange, options }) = inner.startable.lock().take() else {
            return Err(match self.phase() {
                Phase::Stopped => self.stopped_error(),
                Phase::NotStarted | Phase::Running => Error::Running { informer: inner.name.clone() },
            });
        };
        let _stop = StopOnDrop(inner);

        // The handlers first: so that the shortest period among them is settled when the reflector starts.
        let stop_handlers = CancellationToken::new();
        // Fused: it ends early if the processor was run before.
        let mut handlers = pin!(inner.processor.run(stop_handlers.clone()).fuse());
        // Polled once, it has started; and since it has, its end ends the handlers, however soon that comes.
        let mut handlers_ended = handlers.as_mut().now_or_never();
        let check = inner.processor.resync_check_period().unwrap_or_default();
        let options = options.resync_period(check).take_due_resyncs(inner.clone().take_due_resyncs());
        let apply = Apply {
            name: inner.name.clone(),
            indexer: inner.indexer.clone(),
            processor: inner.processor.clone(),
            synced: inner.synced.clone(),
            latency: inner.latency.clone(),
        };
        let controller =
            Controller::with_options(inner.name.clone(), source, inner.queue.clone(), apply, options)
                .exchange(exchange);
        let _ = inner.reflector.set(controller.reflector());
        let mut controlling = pin!(controller.run(cancel));
        let reason = loop {
            tokio::select! {
                reason = &mut controlling => break reason,
                ended = &mut handlers, if handlers_ended.is_none() => handlers_ended = Some(ended),
            }
        };
        tracing::debug!(informer = %inner.name, ?reason, "informer stopping");
        let ended = match reason {
            StopReason::Dropped => Err(Error::ReflectorEnded {
                informer: inner.name.clone(),
                last_error: inner.reflector.get().and_then(ReflectorHandle::last_error),
            }),
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
        tokio::select! {
            biased;
            () = self.inner.synced.cancelled() => Ok(()),
            () = self.inner.stopped.cancelled() => Err(self.not_synced(WaitEnd::Stopped)),
        }
    }

    /// As [`Self::wait_for_sync`], until a deadline.
    ///
    /// # Errors
    /// [`Error::NotSynced`], with how far it has come and the last error it met.
    pub async fn wait_for_sync_until(&self, deadline: Instant) -> Result<(), Error> {
        tokio::time::timeout_at(deadline, self.wait_for_sync())
            .await
            .unwrap_or_else(|_| Err(self.not_synced(WaitEnd::DeadlineExceeded)))
    }

    /// Waits until the store reflects at least this version, for example that of one's own write. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::VersionNotReached`]: it stopped first, or the versions do not compare; see [`Reader::wait_for`].
    pub async fn wait_for(&self, version: &ResourceVersion) -> Result<(), Error> {
        self.inner.indexer.wait_for(version).await.map_err(|source| self.not_reached(source))
    }

    /// As [`Self::wait_for`], until a deadline.
    ///
    /// # Errors
    /// As [`Self::wait_for`], and at the deadline.
    pub async fn wait_for_until(&self, version: &ResourceVersion, deadline: Instant) -> Result<(), Error> {
        let waited = self.inner.indexer.wait_for_until(version, deadline).await;
        waited.map_err(|source| self.not_reached(source))
    }

    /// Its reflector as seen from outside, once it was started.
    pub fn reflector(&self) -> Option<&ReflectorHandle> {
        self.inner.reflector.get()
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

    fn not_synced(&self, end: WaitEnd) -> Error {
        let reflector = self.inner.reflector.get();
        let reached = match reflector {
            None => Reached::NotStarted,
            Some(reflector) if reflector.is_synced() => {
                Reached::Processing { queued: self.inner.queue.depth() }
            }
            Some(_) => Reached::NoList,
        };
        let last_error = reflector.and_then(ReflectorHandle::last_error);
        Error::NotSynced(Box::new(NotSynced { informer: self.inner.name.clone(), end, reached, last_error }))
    }
}

impl<T: Object> Inner<T> {
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.is_cancelled()
    }

    /// Notes which handlers have become due for a resync, and says whether the queue is to carry one for them.
    ///
    /// It has to only if there is nothing queued: the controller looks for due handlers after every batch, and what is
    /// queued now is popped later. So neither resyncs nor their single deltas pile up in front of a slow store.
    fn take_due_resyncs(self: Arc<Self>) -> impl Fn() -> bool + Send + Sync + 'static {
        move || {
            if !self.processor.mark_due_handlers() {
                return false;
            }
            if self.synced.is_cancelled() && !self.indexer.is_empty() {
                return self.queue.depth() == 0;
            }
            // There is nothing to resync, or not all of the first list: this time they receive none.
            let _ = self.processor.take_due_handlers();
            false
        }
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
            .field("resource_version", &self.inner.indexer.resource_version())
            .finish_non_exhaustive()
    }
}
