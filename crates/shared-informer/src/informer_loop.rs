//! The loop of an informer: connects sources, a queue and a process function.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kinformer_core::internal::{contain, contain_async};
use kinformer_core::{BoxError, KnownObjects, Object, PartId, Parts};
use kinformer_delta_fifo::{Popped, Queue};
use kinformer_reflector::{Exchange, ListerWatcher, Reflector, ReflectorOptions, SourceError, StopReason};
use tokio_util::sync::CancellationToken;

use crate::losses::{Batch, Losses};
use crate::part_list::{Difference, PartList};
use crate::parts::{NamedSource, Part, PartSink, Sources};

/// The maximum number of distinct keys in a batch.
const BATCH: usize = 128;

/// The process function of an [`InformerLoop`].
#[doc(alias("ProcessBatch", "ProcessBatchFunc", "ProcessFunc"))]
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

    /// Called between two batches when the parts have changed: the deltas of removed parts that are still queued, and objects
    /// that belong to no part now, are out of scope.
    ///
    /// # Cancel safety
    /// As for [`Self::process`].
    fn parts_changed(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
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
#[doc(alias = "InformerOptions")]
pub struct InformerLoop<T: Object, P> {
    list: Arc<PartList<T>>,
    /// In the order of their parts, in which they start: a simulation is repeated exactly.
    reflectors: BTreeMap<PartId, PartReflector<T>>,
    create: CreateReflector<T>,
    process: P,
}

/// The reflector of one part.
type PartReflector<T> = Reflector<T, PartSink<T>>;

/// The settings of all reflectors.
struct CreateReflector<T: Object> {
    name: Arc<str>,
    queue: Arc<dyn Queue<T>>,
    parts: Parts<T>,
    options: ReflectorOptions,
    exchange: Exchange<T>,
    known: Option<Arc<dyn KnownObjects<T>>>,
    period: Option<Duration>,
}

impl<T: Object> CreateReflector<T> {
    /// Creates the reflector of a part.
    fn create(&self, part: PartId, source: NamedSource<T>) -> (Part, PartReflector<T>) {
        let full_name = match source.0.is_empty() {
            true => self.name.clone(),
            false => format!("{} ({})", self.name, source.0).into(),
        };
        self.create_named(full_name, part, source)
    }

    fn create_named(
        &self,
        full_name: Arc<str>,
        part: PartId,
        (name, source): NamedSource<T>,
    ) -> (Part, PartReflector<T>) {
        let sink = PartSink { queue: self.queue.clone(), part, parts: self.parts.clone() };
        let reflector = Reflector::with_options(full_name, source, sink, self.options.clone());
        (Part::new(part, name, reflector.handle()), reflector)
    }

    /// Runs a reflector with the settings, which may be newer than the reflector.
    async fn run(
        &self,
        (part, reflector): (PartId, PartReflector<T>),
        cancel: CancellationToken,
    ) -> (PartId, Result<StopReason, BoxError>) {
        let mut reflector = reflector.exchange(self.exchange.clone());
        if let Some(known) = &self.known {
            reflector = reflector.known_objects(known.clone());
        }
        if let Some(period) = self.period {
            reflector = reflector.resync_period(period);
        }
        (part, contain_async(reflector.run(cancel)).await)
    }
}

impl<T: Object, P: Process<T>> InformerLoop<T, P> {
    /// Creates an informer loop with default reflector options. The name appears in logs and errors.
    #[doc(alias("NewIndexerInformer", "NewInformer"))]
    pub fn new(
        name: impl Into<Arc<str>>,
        source: impl ListerWatcher<T> + 'static,
        queue: Arc<dyn Queue<T>>,
        process: P,
    ) -> Self {
        Self::with_options(name, source, queue, process, ReflectorOptions::default())
    }

    /// Creates an informer loop with reflector options.
    #[doc(alias = "NewInformerWithOptions")]
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
        let Sources { parts, sources, .. } = sources;
        let (name, exchange) = (name.into(), Exchange::none());
        let create = CreateReflector {
            name,
            queue,
            parts: parts.clone(),
            options,
            exchange,
            known: None,
            period: None,
        };
        let is_divided = parts.is_divided();
        let created = (0..).map(PartId::new).zip(sources).map(|(id, source)| match is_divided {
            true => create.create(id, source),
            false => create.create_named(create.name.clone(), id, source),
        });
        let (current, reflectors): (Vec<Part>, Vec<_>) = created.unzip();
        let reflectors = current.iter().map(Part::id).zip(reflectors).collect();
        Self { list: Arc::new(PartList::new(parts, current)), reflectors, create, process }
    }

    /// Exchanges the objects of lists and watch-lists for identical ones that the consumer already holds: see
    /// [`Exchange`].
    #[must_use]
    pub fn exchange(mut self, exchange: Exchange<T>) -> Self {
        self.create.exchange = exchange;
        self
    }

    /// Sets the known objects of all reflectors: see [`Reflector::known_objects`].
    pub(crate) fn known_objects(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.create.known = Some(known);
        self
    }

    /// Sets the interval at which the reflectors check for due resyncs.
    pub(crate) fn resync_period(mut self, period: Duration) -> Self {
        self.create.period = Some(period);
        self
    }

    /// Returns the parts, each with the handle of its reflector.
    pub fn parts(&self) -> Vec<Part> {
        self.list.current().to_vec()
    }

    pub(crate) fn list(&self) -> &Arc<PartList<T>> {
        &self.list
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
        let Self { list, reflectors, create, mut process } = self;
        let CreateReflector { name, queue, .. } = &create;
        let _close = CloseOnDrop(queue.clone());
        // A reflector of an idle source would not notice that the queue was closed.
        let stop = cancel.child_token();
        let (running, ends) = (FuturesUnordered::new(), HashMap::new());
        let mut reflecting =
            Reflecting { create: &create, list: &list, running, stop: stop.clone(), ends, changing: None };
        reflecting.start(reflectors);
        let mut processing = pin!(process_all(name, &**queue, &mut process, &list));
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            // Polled before the reflectors, which could use up the budget of this task.
            () = &mut processing => None,
            ended = reflecting.run() => Some(ended),
        };
        if let Some(Ok(StopReason::SinkClosed)) = ended {
            // The queued deltas are still processed.
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = processing => {}
            }
        }
        let Reflecting { running: mut reflecting, .. } = reflecting;
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
            next = reflecting.next().await.map(|(_, ended)| ended);
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

/// The end of the reflector of a part.
type Ended = (PartId, Result<StopReason, BoxError>);

/// The running reflectors, which change with the parts.
struct Reflecting<'a, T: Object> {
    create: &'a CreateReflector<T>,
    list: &'a PartList<T>,
    running: FuturesUnordered<BoxFuture<'a, Ended>>,
    /// Ends all reflectors.
    stop: CancellationToken,
    /// End single reflectors.
    ends: HashMap<PartId, CancellationToken>,
    /// The change that waits for the end of reflectors.
    changing: Option<Difference<T>>,
}

impl<T: Object> Reflecting<'_, T> {
    fn start(&mut self, reflectors: impl IntoIterator<Item = (PartId, PartReflector<T>)>) {
        for (part, reflector) in reflectors {
            let cancel = self.stop.child_token();
            self.ends.insert(part, cancel.clone());
            self.running.push(Box::pin(self.create.run((part, reflector), cancel)));
        }
    }

    /// Runs the reflectors, and changes them with the parts, until one ends by itself. Returns its end.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: a later call continues.
    async fn run(&mut self) -> Result<StopReason, BoxError> {
        loop {
            self.change();
            tokio::select! {
                biased;
                Some((part, ended)) = self.running.next() => match (self.ends.remove(&part), &mut self.changing) {
                    (Some(_), _) => return ended,
                    // It was ended by a change, for which it no longer matters how.
                    (None, Some(difference)) => difference.ending.retain(|ending| *ending != part),
                    (None, None) => {}
                },
                () = self.list.requested() => {}
            }
        }
    }

    /// Takes the steps of changes that can be taken now.
    fn change(&mut self) {
        if self.changing.is_none()
            && let Some(difference) = self.list.take_requested()
        {
            let ends = difference.ending.iter().filter_map(|part| self.ends.remove(part));
            ends.for_each(|end| end.cancel());
            self.changing = Some(difference);
        }
        if let Some(difference) = self.changing.take_if(|difference| difference.ending.is_empty()) {
            let mut reflectors = Vec::new();
            self.list.change(difference, |id, source, not_before| {
                let (part, reflector) = self.create.create(id, source);
                reflectors.push((id, reflector.not_before(not_before)));
                part
            });
            self.start(reflectors);
        }
    }
}

/// Pops and processes batches until the queue is closed and drained.
async fn process_all<T: Object, P: Process<T>>(
    name: &str,
    queue: &dyn Queue<T>,
    process: &mut P,
    list: &PartList<T>,
) {
    let mut synced = false;
    let mut losses = Losses::new(list.parts.ids());
    loop {
        // Before the deltas of new parts, whose reflectors start after the change. There may be another change meanwhile.
        while let Some(number) = list.take_unapplied() {
            losses.set_parts(list.parts.ids());
            _ = contained(name, async { process.parts_changed().await }).await;
            list.applied(number);
        }
        if !synced && !losses.any_lost() && queue.has_synced() {
            synced = true;
            _ = contained(name, async { process.synced() }).await;
        }
        let mut popped = match queue.try_pop_batch(BATCH) {
            Ok(Some(popped)) => popped,
            Ok(None) => {
                let popped = tokio::select! {
                    biased;
                    () = list.unapplied() => continue,
                    popped = queue.pop_batch(BATCH) => popped,
                    // An empty first list produces no batch.
                    _ = queue.synced(), if !synced && !losses.any_lost() && !queue.is_closed() => continue,
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
            Ok(()) => {
                batch.ended_lists().for_each(|part| list.listed(part));
                if losses.processed(&batch) {
                    relist(list, "a batch of the list was lost");
                }
            }
            Err(source) => {
                let listed: Vec<PartId> = listed(list).iter().map(Part::id).collect();
                losses.lost(&batch, |part| listed.contains(&part));
                relist(list, &source.to_string());
            }
        }
        // Yields to other tasks, because the queue may never be empty and the process function may never wait.
        tokio::task::consume_budget().await;
    }
}

/// Returns the parts that have given a list to the queue.
fn listed<T: Object>(list: &PartList<T>) -> Vec<Part> {
    list.current().iter().filter(|part| part.reflector().is_synced()).cloned().collect()
}

/// Requests another list of each part that has given one.
fn relist<T: Object>(list: &PartList<T>, source: &str) {
    for part in listed(list) {
        part.reflector().relist(SourceError::Panic { operation: "process", source: source.into() });
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
            .field("name", &self.create.name)
            .field("parts", &self.list.current())
            .finish_non_exhaustive()
    }
}
