//! The loop of an informer: connects sources, a queue and a process function.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use kinformer_core::internal::{contain, contain_async};
use kinformer_core::{BoxError, KnownObjects, Object, PartId};
use kinformer_delta_fifo::{Popped, Queue};
use kinformer_reflector::{Exchange, ListerWatcher, Reflector, ReflectorOptions, SourceError, StopReason};
use tokio_util::sync::CancellationToken;

use crate::losses::{Batch, Losses};
use crate::parts::{NamedSource, Part, PartSink, Sources};

/// The maximum number of distinct keys in a batch.
const BATCH: usize = 128;

/// The process function of an [`InformerLoop`].
pub trait Process<T: Object>: Send {
    /// Processes a batch of deltas, in order. They count as processed when the [`Popped`] is dropped. A batch may
    /// contain only [versions](Popped::versions) and no delta.
    ///
    /// # Cancel safety
    /// The loop drops the future at its await point when the token of [`InformerLoop::run`] is cancelled, or when
    /// the future of `run` is dropped. The rest of the batch is then not processed.
    fn process(&mut self, popped: Popped<T>) -> impl Future<Output = ()> + Send;

    /// Called once, when the first list has been processed. If the source is empty, called without a batch.
    fn synced(&mut self) {}
}

impl<T, F, Fut> Process<T> for F
where
    T: Object,
    F: FnMut(Popped<T>) -> Fut + Send,
    Fut: Future<Output = ()> + Send,
{
    fn process(&mut self, popped: Popped<T>) -> impl Future<Output = ()> + Send {
        self(popped)
    }
}

/// Follows one or several sources and calls a process function with every change, one batch at a time. It consists of a
/// reflector for each source, a queue, and the loop that pops the queue. A store, if needed, belongs to the process
/// function.
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_delta_fifo::{Popped, RealFifo};
/// use kinformer_shared_informer::InformerLoop;
/// use kinformer_testing::{FakeSource, Item};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cancel = CancellationToken::new();
/// let seen = cancel.clone();
/// let source = FakeSource::new();
/// source.apply(Item::of("kitchen/kettle", 0, 0));
/// let queue = Arc::new(RealFifo::<Item>::new());
/// let informer_loop = InformerLoop::new("items", source, queue, move |popped: Popped<Item>| {
///     println!("{popped:?}");
///     seen.cancel();
///     async {}
/// });
/// informer_loop.run(cancel).await;
/// # Ok(())
/// # }
/// ```
///
/// Follows client-go 0.37 (`Controller`).
pub struct InformerLoop<T: Object, P> {
    name: Arc<str>,
    reflectors: Vec<(Part, PartReflector<T>)>,
    queue: Arc<dyn Queue<T>>,
    process: P,
}

/// The reflector of one part.
type PartReflector<T> = Reflector<T, PartSink<T>>;

impl<T: Object, P: Process<T>> InformerLoop<T, P> {
    /// Creates an informer loop with default reflector options. The name appears in logs and errors.
    pub fn new(
        name: impl Into<Arc<str>>,
        source: impl ListerWatcher<T> + 'static,
        queue: Arc<dyn Queue<T>>,
        process: P,
    ) -> Self {
        Self::with_options(name, source, queue, process, ReflectorOptions::default())
    }

    /// Creates an informer loop with reflector options.
    pub fn with_options(
        name: impl Into<Arc<str>>,
        source: impl ListerWatcher<T> + 'static,
        queue: Arc<dyn Queue<T>>,
        process: P,
        options: ReflectorOptions,
    ) -> Self {
        Self::of(name, Sources::one(source), queue, process, options)
    }

    /// Creates an informer loop with several sources, one for each part. The queue must be built with the same parts: see
    /// [`DeltaQueueBuilder::parts`](kinformer_delta_fifo::DeltaQueueBuilder::parts).
    pub fn of(
        name: impl Into<Arc<str>>,
        sources: Sources<T>,
        queue: Arc<dyn Queue<T>>,
        process: P,
        options: ReflectorOptions,
    ) -> Self {
        let name = name.into();
        let Sources { parts, sources } = sources;
        let reflector = |(id, (part, source)): (PartId, NamedSource<T>)| {
            let name = match part.is_empty() {
                true => name.clone(),
                false => format!("{name} ({part})").into(),
            };
            let sink = PartSink { queue: queue.clone(), part: id, parts: parts.clone() };
            let reflector = Reflector::with_options(name, source, sink, options.clone());
            (Part::new(id, part, reflector.handle()), reflector)
        };
        let reflectors = (0..).map(PartId::new).zip(sources).map(reflector).collect();
        Self { name, reflectors, queue, process }
    }

    /// Exchanges the objects of lists and watch-lists for identical ones that the consumer already holds: see
    /// [`Exchange`].
    #[must_use]
    pub fn exchange(self, exchange: Exchange<T>) -> Self {
        self.each(|reflector| reflector.exchange(exchange.clone()))
    }

    /// Sets the known objects of all reflectors: see [`Reflector::known_objects`].
    pub(crate) fn known_objects(self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.each(|reflector| reflector.known_objects(known.clone()))
    }

    /// Sets the interval at which the reflectors check for due resyncs.
    pub(crate) fn resync_period(self, period: Duration) -> Self {
        self.each(|reflector| reflector.resync_period(period))
    }

    fn each(mut self, change: impl Fn(PartReflector<T>) -> PartReflector<T>) -> Self {
        let changed = self.reflectors.into_iter().map(|(part, reflector)| (part, change(reflector)));
        self.reflectors = changed.collect();
        self
    }

    /// Returns the parts, each with the handle of its reflector.
    pub fn parts(&self) -> Vec<Part> {
        self.reflectors.iter().map(|(part, _)| part.clone()).collect()
    }

    /// Runs until the token is cancelled or the queue is closed by another owner, then closes the queue. All work
    /// happens in this future, which spawns no task.
    ///
    /// When the token is cancelled, the current future of the process function is dropped at its await point. If the
    /// queue is closed, the queued deltas are processed first. A panic of the process function is contained and logged,
    /// and its batch is lost. The reflectors then relist after a delay. Until that list has been processed, the
    /// loop does not [sync](Process::synced), and batches carry no [versions](Popped::versions) that depend on
    /// the lost one.
    ///
    /// Returns [`StopReason::Dropped`] if a reflector has panicked.
    ///
    /// # Cancel safety
    /// Dropping the future ends the loop and closes the queue: the requests in progress and the future of the
    /// process function are dropped, and deltas that are queued, or popped but not processed, are lost.
    pub async fn run(self, cancel: CancellationToken) -> StopReason {
        let Self { name, reflectors, queue, mut process } = self;
        let _close = CloseOnDrop(queue.clone());
        // A reflector of an idle source would not notice that the queue was closed.
        let stop = cancel.child_token();
        let mut parts = Vec::with_capacity(reflectors.len());
        let mut reflecting = FuturesUnordered::new();
        for (part, reflector) in reflectors {
            parts.push(part);
            reflecting.push(contain_async(reflector.run(stop.clone())));
        }

        let mut processing = pin!(process_all(&name, &*queue, &mut process, &parts));
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            // Polled before the reflectors, which could use up the budget of this task.
            () = &mut processing => None,
            Some(ended) = reflecting.next() => Some(ended),
        };
        if let Some(Ok(StopReason::SinkClosed)) = ended {
            // The queued deltas are still processed.
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = processing => {}
            }
        }
        let closed = !cancel.is_cancelled();
        queue.close();
        stop.cancel();
        let mut reason = StopReason::Cancelled;
        let mut next = ended;
        loop {
            match next {
                Some(Err(error)) => {
                    // The subscriber may have caused the panic, and may panic again.
                    _ = contain(|| tracing::error!(informer = %name, %error, "reflector panicked"));
                    reason = StopReason::Dropped;
                }
                Some(Ok(ended)) if ended != StopReason::Cancelled && reason != StopReason::Dropped => {
                    reason = ended
                }
                Some(Ok(_)) | None => {}
            }
            next = reflecting.next().await;
            if next.is_none() {
                break;
            }
        }
        match reason {
            StopReason::Cancelled if closed => StopReason::SinkClosed,
            reason => reason,
        }
    }
}

/// Pops and processes batches until the queue is closed and drained.
async fn process_all<T: Object, P: Process<T>>(
    name: &str,
    queue: &dyn Queue<T>,
    process: &mut P,
    parts: &[Part],
) {
    let mut synced = false;
    let mut losses = Losses::new(parts.len());
    let has_listed = |part: &Part| part.reflector().is_synced();
    let relist = |source: &str| {
        for part in parts.iter().filter(|part| has_listed(part)) {
            part.reflector().relist(SourceError::Panic { operation: "process", source: source.into() });
        }
    };
    loop {
        let mut popped = match queue.try_pop_batch(BATCH) {
            Ok(Some(popped)) => popped,
            Ok(None) => {
                let popped = tokio::select! {
                    biased;
                    popped = queue.pop_batch(BATCH) => popped,
                    // An empty first list produces no batch.
                    done = queue.synced(), if !synced && !losses.any_lost() => {
                        if done.is_ok() {
                            synced = true;
                            _ = contained(name, async { process.synced() }).await;
                        }
                        continue;
                    }
                };
                let Ok(popped) = popped else { return };
                popped
            }
            Err(_) => return,
        };
        let batch = Batch::of(&popped);
        if losses.any() {
            // The other versions are not reached, because a lost batch has not been replaced yet.
            popped.set_versions(losses.reached(&batch, popped.versions()));
        }
        // Called within the future, because the call may panic before it returns one.
        match contained(name, async { process.process(popped).await }).await {
            Ok(()) if losses.processed(&batch) => relist("a batch of the list was lost"),
            Ok(()) => {}
            Err(source) => {
                losses.lost(&batch, |part| parts.get(part).is_some_and(has_listed));
                relist(&source.to_string());
            }
        }
        if !synced && !losses.any_lost() && queue.has_synced() {
            synced = true;
            _ = contained(name, async { process.synced() }).await;
        }
        // Yields to other tasks, because the queue may never be empty and the process function may never wait.
        tokio::task::consume_budget().await;
    }
}

async fn contained(name: &str, work: impl Future<Output = ()>) -> Result<(), BoxError> {
    let Err(error) = contain_async(work).await else { return Ok(()) };
    // The subscriber may have caused the panic, and may panic again.
    _ = contain(|| tracing::error!(informer = name, %error, "process function panicked; its batch is lost"));
    Err(error)
}

struct CloseOnDrop<T: Object>(Arc<dyn Queue<T>>);

impl<T: Object> Drop for CloseOnDrop<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T: Object, P> fmt::Debug for InformerLoop<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerLoop")
            .field("name", &self.name)
            .field("parts", &self.reflectors.iter().map(|(part, _)| part).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
