//! The informer.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use kinformer_core::{KeyRef, Object, PartOrKey, ResourceVersion, Wait};
use kinformer_delta_fifo::Queue;
use kinformer_processor::{EventHandler, ListenerBuilder, ListenerStream, Registration, SharedProcessor};
use kinformer_reflector::{ReflectorState, SourceError, StopReason};
use kinformer_store::{IndexFunction, Indexer, Reader, Snapshot};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::Error;
use crate::apply::Apply;
use crate::error::{NotSynced, SyncProgress, WaitOutcome};
use crate::informer_loop::InformerLoop;
use crate::latency::Latency;
use crate::metrics::InformerMetrics;
use crate::part_list::PartList;

/// Keeps a store equal to a source, and delivers every change to any number of handlers after the store includes it.
///
/// * For one object, the store and the handlers see a subsequence of the states in the source, in order. If the source
///   stops changing, they end up with its last state, whatever failed in between. Intermediate states may be skipped:
///   after an interruption, and by [`Buffer::Coalesced`](kinformer_processor::Buffer::Coalesced).
/// * A handler receives an event after the store and its indexes include the change. The store may already be further
///   ahead.
/// * Handlers receive events one at a time, in order, and independently of each other. A handler that is added late
///   first receives every object of the store, as additions of the initial list.
/// * A deletion and a re-creation under the same name may be delivered as one update; the two states then have
///   different UIDs. A missed deletion is delivered with an unknown final state
///   ([`Tombstone::FinalStateUnknown`](kinformer_core::Tombstone::FinalStateUnknown)).
/// * Objects are shared as `Arc<T>` and must be treated as immutable.
/// * Reads ([`Self::store`], [`Self::snapshot`], [`Self::get`]) never wait and return a consistent state, which may lag
///   behind the source. [`Self::wait_for`] waits for a version. Before [`Self::has_synced`], the store may lack
///   objects.
/// * The informer does nothing until [`Self::run`] is polled. It runs once. After its end, the store remains readable
///   and is no longer updated, and no handler can be added.
///
/// Cheap to clone; all clones are the same informer. Handlers may be added and removed at any time until it stops.
///
/// Follows client-go 0.37 (`SharedIndexInformer`).
#[doc(alias("SharedInformer", "TypedSharedIndexInformer"))]
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
    /// The parts, which the loop changes.
    pub(crate) list: Arc<PartList<T>>,
    /// The loop, until a run takes it.
    pub(crate) startable: Mutex<Option<InformerLoop<T, Apply<T>>>>,
    pub(crate) was_run: AtomicBool,
    pub(crate) grace: Duration,
    pub(crate) synced: CancellationToken,
    pub(crate) stopped: CancellationToken,
}

/// The phase of an informer. An informer passes through the phases once, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The informer was not run yet.
    NotStarted,
    /// The informer runs.
    Running,
    /// The informer has stopped and cannot run again. Its store remains readable.
    Stopped,
}

impl<T: Object> SharedIndexInformer<T> {
    /// Returns the name of the informer.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the resource name used in metrics, such as `deployments.apps`.
    pub fn resource(&self) -> &str {
        &self.inner.resource
    }

    /// Returns the scope: the subset of the resource's objects that the informer holds; empty for all.
    pub fn scope(&self) -> &str {
        &self.inner.scope
    }

    /// Returns a builder for a handler with its own name, resync period, buffer, or filter. The builder's methods
    /// return the error of the processor, which `?` converts into [`Error`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// # informer.spawn(Default::default());
    /// # informer.wait_for_sync().await?;
    /// let (sender, mut keys) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = informer.handler().name("keys").for_each(move |event| {
    ///     _ = sender.send(event.key().to_string());
    /// })?;
    /// handler.synced().await?; // all stored objects were delivered
    /// assert_eq!(keys.try_recv()?, "kitchen/kettle");
    /// # Ok(())
    /// # }
    /// ```
    pub fn handler(&self) -> ListenerBuilder<'_, T> {
        self.inner.processor.handler()
    }

    /// Adds a handler with the default settings: see [`ListenerBuilder::add`].
    ///
    /// # Errors
    /// [`Error::Stopped`] if the informer has stopped.
    #[doc(alias("AddEventHandler", "AddTypedEventHandler"))]
    pub fn add_handler(&self, handler: impl EventHandler<Arc<T>>) -> Result<Registration, Error> {
        Ok(self.handler().add(handler)?)
    }

    /// Returns all events as a stream: see [`ListenerBuilder::stream`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// # informer.spawn(Default::default());
    /// # informer.wait_for_sync().await?;
    /// use futures::StreamExt;
    ///
    /// let mut events = informer.stream()?;
    /// let event = events.next().await.ok_or("no event")?;
    /// assert_eq!(event.key().to_string(), "kitchen/kettle");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Stopped`] if the informer has stopped.
    pub fn stream(&self) -> Result<ListenerStream<T>, Error> {
        Ok(self.handler().stream()?)
    }

    /// Removes a handler of this informer and waits until its callback has returned. Returns whether this call removed
    /// it. Returns `false` for a handler that was removed before, and, without any effect, for a handler of another
    /// informer.
    ///
    /// # Cancel safety
    /// The first poll removes the handler. Dropping the future later only ends the wait for its callback.
    pub async fn remove_handler(&self, registration: &Registration) -> bool {
        self.inner.processor.remove_handler(registration).await
    }

    /// Returns a reader of the store.
    #[doc(alias("GetIndexer", "GetStore", "GetTypedIndexer"))]
    pub fn store(&self) -> Reader<T> {
        self.inner.indexer.reader()
    }

    /// Returns the current state of the store. O(1).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// # informer.spawn(Default::default());
    /// # informer.wait_for_sync().await?;
    /// let before = informer.snapshot();
    /// let version = source.apply(Item::of("kitchen/pan", 0, 1));
    /// informer.wait_for(("kitchen", "pan"), &version.into()).await?;
    /// assert_eq!((before.len(), informer.snapshot().len()), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Snapshot<T> {
        self.inner.indexer.snapshot()
    }

    /// Returns the object with this key. O(1).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// # informer.spawn(Default::default());
    /// # informer.wait_for_sync().await?;
    /// assert_eq!(informer.get(("kitchen", "kettle")).map(|item| item.value), Some(1));
    /// assert!(informer.get(("kitchen", "pan")).is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.inner.indexer.get(key)
    }

    /// Adds indexes to the store, before or after the start. Objects that are already stored are indexed as well.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// # informer.spawn(Default::default());
    /// # informer.wait_for_sync().await?;
    /// use kinformer_shared_informer::IndexFunction;
    ///
    /// informer.add_indexers([("room", IndexFunction::by_namespace())])?;
    /// assert_eq!(informer.store().by_index("room", "kitchen")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Indexers`], without any effect, if a name is taken. [`Error::Stopped`] if the informer has stopped.
    ///
    /// Follows client-go 0.37 (`AddIndexers`).
    #[doc(alias = "AddTypedIndexers")]
    pub fn add_indexers(
        &self,
        indexers: impl IntoIterator<Item = (impl Into<Arc<str>>, IndexFunction<T>)>,
    ) -> Result<(), Error> {
        if self.is_stopped() {
            return Err(self.stopped_error());
        }
        let added = self.inner.indexer.add_indexers(indexers);
        let errors = added.map_err(|source| Error::Indexers {
            informer: self.inner.name.clone(),
            source: Arc::new(source),
        })?;
        for problem in errors.errors() {
            tracing::error!(informer = %self.inner.name, error = %problem.error, "object missing in an index");
        }
        Ok(())
    }

    /// Runs the informer until the token is cancelled.
    ///
    /// Lists, watches and the store are handled in this future. Each handler runs as a task of its own, and one more
    /// task wakes the handlers; this future owns these tasks. Without handlers there is no task, and the future may be
    /// polled together with those of other informers.
    ///
    /// When the token is cancelled, lists and watches end at once, each handler finishes its current event, and
    /// undelivered events are discarded. No task is left when this returns, at the latest after the grace period:
    /// callback futures that take longer are dropped at their await points.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let cancel = CancellationToken::new();
    /// let (ended, synced) = tokio::join!(informer.run(cancel.clone()), async {
    ///     let synced = informer.wait_for_sync().await;
    ///     cancel.cancel();
    ///     synced
    /// });
    /// ended?;
    /// synced?;
    /// assert_eq!(informer.snapshot().len(), 1); // the store keeps its state
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll has no effect. Later it stops the informer and its tasks at once, without
    /// a grace period: the request in progress is dropped, callback futures are dropped at their await points, and queued
    /// deltas and undelivered events are lost. The store keeps its state. The informer cannot run again.
    ///
    /// # Errors
    /// [`Error::Running`] or [`Error::Stopped`] at once, because an informer runs once. [`Error::ReflectorEnded`] if a
    /// reflector ends unexpectedly. [`Error::Stuck`] at the end if handlers did not return within the grace period.
    #[doc(alias = "RunWithContext")]
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        let inner = &self.inner;
        let informer_loop = inner.startable.lock().take();
        let Some(informer_loop) = informer_loop else {
            return Err(match self.phase() {
                Phase::Stopped => self.stopped_error(),
                Phase::NotStarted | Phase::Running => Error::Running { informer: inner.name.clone() },
            });
        };
        inner.was_run.store(true, Ordering::Relaxed);
        let _stop = StopOnDrop(inner);
        self.run_loop(informer_loop, cancel).instrument(inner.span()).await
    }

    async fn run_loop(
        &self,
        informer_loop: InformerLoop<T, Apply<T>>,
        cancel: CancellationToken,
    ) -> Result<(), Error> {
        let inner = &self.inner;
        // The processor starts before the reflector, so that the shortest resync period is known by then.
        let stop_handlers = CancellationToken::new();
        // Fused, because it ends early if the processor was run before.
        let mut handlers = pin!(inner.processor.run(stop_handlers.clone()).fuse());
        // The first poll starts the processor, so that its drop ends the handlers, however early it happens.
        let mut handlers_ended = handlers.as_mut().now_or_never();
        let check = inner.processor.resync_check_period().unwrap_or_default();
        let mut looping = pin!(informer_loop.resync_period(check).run(cancel));
        let reason = loop {
            // The processor first: it is rarely ready and ends once, while the loop may use up the budget of this
            // task.
            tokio::select! {
                biased;
                ended = &mut handlers, if handlers_ended.is_none() => handlers_ended = Some(ended),
                reason = &mut looping => break reason,
            }
        };
        tracing::debug!(?reason, "informer stopping");
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

    /// [Runs](Self::run) the informer as a task on the current runtime. The task continues if the handle is dropped;
    /// cancel the token to end it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let cancel = CancellationToken::new();
    /// let running = informer.spawn(cancel.clone());
    /// informer.wait_for_sync().await?;
    /// cancel.cancel();
    /// running.await??;
    /// assert!(informer.is_stopped());
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn(&self, cancel: CancellationToken) -> JoinHandle<Result<(), Error>> {
        let informer = self.clone();
        tokio::spawn(async move { informer.run(cancel).await })
    }

    /// Ends an informer that was not run: its waits end with an error, and its handlers are dropped. Returns `false`,
    /// without any effect, if it runs or has stopped.
    pub fn discard(&self) -> bool {
        // Dropped last, because it holds user code.
        let startable = self.inner.startable.lock().take();
        if startable.is_none() {
            return false;
        }
        let _stop = StopOnDrop(&self.inner);
        self.inner.processor.discard()
    }

    /// Returns the phase of the informer.
    pub fn phase(&self) -> Phase {
        if self.is_stopped() {
            Phase::Stopped
        } else if self.inner.startable.lock().is_some() {
            Phase::NotStarted
        } else {
            Phase::Running
        }
    }

    /// Returns whether the informer has stopped.
    pub fn is_stopped(&self) -> bool {
        self.inner.has_stopped()
    }

    /// Waits until the informer has stopped. Any number of tasks may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer, and a later call returns at once after its end.
    pub async fn stopped(&self) {
        self.inner.stopped.cancelled().await;
    }

    /// Returns whether the store has included everything of the first list.
    pub fn has_synced(&self) -> bool {
        self.inner.synced.is_cancelled()
    }

    /// Waits until the store has included everything of the first list. The wait may start before the informer does.
    /// Any number of tasks may wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    ///
    /// informer.spawn(Default::default());
    /// informer.wait_for_sync().until(Instant::now() + Duration::from_secs(60)).await?;
    /// assert!(informer.has_synced());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotSynced`], with the progress and the last error, if the informer stops or [the deadline](Wait::until) passes
    /// first.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer, and a later call returns at once if it has synced.
    pub fn wait_for_sync(
        &self,
    ) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let wait = async {
            tokio::select! {
                biased;
                () = self.inner.synced.cancelled() => Ok(()),
                () = self.inner.stopped.cancelled() => Err(self.not_synced(WaitOutcome::Stopped)),
            }
        };
        let at_deadline = || match self.is_stopped() {
            _ if self.has_synced() => Ok(()),
            true => Err(self.not_synced(WaitOutcome::Stopped)),
            false => Err(self.not_synced(WaitOutcome::DeadlineExceeded)),
        };
        Wait::new(wait, at_deadline)
    }

    /// Waits until the store reflects at least this version for a part or for the part of a key: for example, the
    /// version of the caller's own write.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_shared_informer::SharedIndexInformer;
    /// # use kinformer_testing::{FakeSource, Item};
    /// # let source = FakeSource::new();
    /// # source.apply(Item::of("kitchen/kettle", 0, 1)); // a value of 1
    /// # let informer = SharedIndexInformer::new(source.clone())?;
    /// # informer.spawn(Default::default());
    /// # informer.wait_for_sync().await?;
    /// let version = source.apply(Item::of("kitchen/kettle", 0, 2));
    /// informer.wait_for(("kitchen", "kettle"), &version.into()).await?;
    /// assert_eq!(informer.get(("kitchen", "kettle")).map(|item| item.value), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// After an incomplete list ([`incomplete_list`](kinformer_reflector::ReflectorHandle::incomplete_list)), this waits
    /// until a list is complete, since any object may be missing.
    ///
    /// # Errors
    /// [`Error::VersionNotReached`] if the informer stops or [the deadline](Wait::until) passes first, if there is no such
    /// part, or if the versions do not compare: see [`Reader::wait_for`].
    ///
    /// # Cancel safety
    /// Dropping the future removes its wait. A later call returns at once if the store still has the version: a list may
    /// have set it back since.
    pub fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let (place, reader) = (place.into(), &**self.inner.indexer);
        let wait =
            async move { reader.wait_for(place, version).await.map_err(|source| self.not_reached(source)) };
        let at_deadline = move || {
            let outcome = reader.wait_for(place, version).at_deadline();
            outcome.map_err(|source| self.not_reached(source))
        };
        Wait::new(wait, at_deadline)
    }

    /// Waits until the store has a state after this [revision](Snapshot::revision). Returns `false` if the informer stops
    /// first.
    ///
    /// # Cancel safety
    /// As [`Reader::changed`].
    pub async fn changed(&self, revision: u64) -> bool {
        self.inner.indexer.changed(revision).await
    }

    /// Returns the metrics of the informer.
    pub fn metrics(&self) -> InformerMetrics {
        self.inner.metrics()
    }

    /// Returns how many bytes of memory the objects in the store take: the sum of their [`Object::memory_size`]. `None` if that
    /// of an object is unknown. Store, indexes and queued changes are not counted.
    ///
    /// O(objects): the objects of a snapshot are added up, without a lock. Writes cost nothing more.
    pub fn bytes(&self) -> Option<u64> {
        self.inner.bytes()
    }

    pub(crate) fn stopped_error(&self) -> Error {
        Error::Stopped { informer: self.inner.name.clone() }
    }

    fn not_reached(&self, source: kinformer_store::Error) -> Error {
        Error::VersionNotReached { informer: self.inner.name.clone(), source: Arc::new(source) }
    }

    pub(crate) fn not_synced(&self, outcome: WaitOutcome) -> Error {
        let parts = self.inner.list.current();
        let unlisted = parts.iter().filter(|part| !part.reflector().is_synced());
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
    /// Creates the span of a run. docs/observability.md lists its fields.
    fn span(&self) -> Span {
        tracing::info_span!(
            "informer",
            kinformer.informer.name = &*self.name,
            kinformer.informer.resource = &*self.resource,
            kinformer.informer.scope = Some(&*self.scope).filter(|scope| !scope.is_empty()),
            k8s.cluster.name = Some(&*self.cluster).filter(|cluster| !cluster.is_empty()),
        )
    }

    pub(crate) fn metrics(&self) -> InformerMetrics {
        let snapshot = self.indexer.snapshot();
        InformerMetrics {
            name: self.name.clone(),
            resource: self.resource.clone(),
            cluster: self.cluster.clone(),
            scope: self.scope.clone(),
            synced: self.synced.is_cancelled(),
            watching: self.list.current().iter().all(|part| is_watching(&part.reflector().state())),
            objects: snapshot.len(),
            resource_versions: snapshot.resource_versions().clone(),
            queue: self.queue.metrics(),
            processing: self.latency.summary(),
            reflector: self.list.metrics(),
            handlers: self.processor.handler_metrics(),
        }
    }

    pub(crate) fn bytes(&self) -> Option<u64> {
        self.indexer.snapshot().iter().map(|object| object.memory_size().map(|size| size as u64)).sum()
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.is_cancelled()
    }

    /// Returns the last error of a list or watch, preferably of a part without a list.
    fn last_error(&self) -> Option<Arc<SourceError>> {
        let all = self.list.current();
        let errors = |listed: bool| {
            let parts = all.iter().filter(move |part| part.reflector().is_synced() == listed);
            parts.filter_map(|part| part.reflector().last_error())
        };
        errors(false).next().or_else(|| errors(true).next())
    }
}

fn is_watching(state: &ReflectorState) -> bool {
    matches!(state, ReflectorState::Watching { .. })
}

/// Ends all waits when a run ends, also if its future is dropped.
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
