//! From a source through a queue to a process function.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt as _;
use kinformer_core::{BoxError, Object, VersionUpdate, contain, panic_error};
use kinformer_delta_fifo::{Popped, Queue};
use kinformer_reflector::{
    ApiError, Exchange, ListerWatcher, Reflector, ReflectorHandle, ReflectorOptions, StopReason,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::losses::{Batch, Losses};

/// How many distinct keys are processed at once.
const BATCH: usize = 128;

/// What a controller does with what its queue gives.
pub trait Process<T: Object>: Send {
    /// Processes deltas, in their order. They count as processed when the [`Popped`] is dropped. There may be none, but
    /// a [version](Popped::version).
    fn process(&mut self, popped: Popped<T>) -> impl Future<Output = ()> + Send;

    /// The first list has been processed. Called once, at once when the source is empty.
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

/// Follows a source and calls a process function with every change, one batch after the other: a reflector,
/// a queue and the loop that empties it. Whether there is a store is for the process function to decide.
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_delta_fifo::{Popped, RealFifo};
/// use kinformer_shared_informer::Controller;
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
/// let controller = Controller::new("items", source, queue, move |popped: Popped<Item>| {
///     println!("{popped:?}");
///     seen.cancel();
///     async {}
/// });
/// controller.run(cancel).await;
/// # Ok(())
/// # }
/// ```
///
/// Follows client-go 1.37 (`Controller`).
pub struct Controller<T: Object, P> {
    name: Arc<str>,
    reflector: Reflector<T, Arc<dyn Queue<T>>>,
    queue: Arc<dyn Queue<T>>,
    process: P,
}

impl<T: Object, P: Process<T>> Controller<T, P> {
    /// A controller with the default options of the reflector. The name is for messages.
    pub fn new(
        name: impl Into<Arc<str>>,
        source: impl ListerWatcher<T> + 'static,
        queue: Arc<dyn Queue<T>>,
        process: P,
    ) -> Self {
        Self::with_options(name, source, queue, process, ReflectorOptions::default())
    }

    /// A controller with options for its reflector.
    pub fn with_options(
        name: impl Into<Arc<str>>,
        source: impl ListerWatcher<T> + 'static,
        queue: Arc<dyn Queue<T>>,
        process: P,
        options: ReflectorOptions,
    ) -> Self {
        let name = name.into();
        let reflector = Reflector::with_options(name.clone(), source, queue.clone(), options);
        Self { name, reflector, queue, process }
    }

    /// Exchanges the objects of lists and watch-lists for identical ones that the consumer holds already: see
    /// [`Exchange`].
    #[must_use]
    pub fn exchange(mut self, exchange: Exchange<T>) -> Self {
        self.reflector = self.reflector.exchange(exchange);
        self
    }

    /// The reflector as seen from outside: its state, its last error, what it has done.
    pub fn reflector(&self) -> ReflectorHandle {
        self.reflector.handle()
    }

    /// Runs until the token is cancelled or the queue is closed by someone else; closes the queue then. The reflector is a
    /// task of its own, which this future owns; dropping the future ends it.
    ///
    /// What the process function is at when the token is cancelled is dropped where it waits. A panic of it is
    /// contained and logged, and its batch is lost: so the reflector lists again, after a delay, and as long as that list
    /// has not been processed the controller has not [synced](Process::synced), and what is popped moves no
    /// [version](Popped::version).
    ///
    /// [`StopReason::Dropped`] says that the reflector has ended for no reason of its own: it panicked, or its runtime
    /// ended.
    pub async fn run(self, cancel: CancellationToken) -> StopReason {
        let Self { name, reflector, queue, mut process } = self;
        let handle = reflector.handle();
        let _close = CloseOnDrop(queue.clone());
        let mut tasks = JoinSet::new();
        // The reflector of an idle source does not find out by itself that the queue was closed.
        let stop = cancel.child_token();
        tasks.spawn(reflector.run(stop.clone()));

        let mut emptied = pin!(empty(&name, &*queue, &mut process, &handle));
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            ended = tasks.join_next() => Some(ended),
            () = &mut emptied => None,
        };
        if let Some(Some(Ok(StopReason::SinkClosed))) = ended {
            // What is still queued is processed.
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = emptied => {}
            }
        }
        let closed = !cancel.is_cancelled();
        queue.close();
        stop.cancel();
        let ended = match ended {
            Some(ended) => ended,
            None => tasks.join_next().await,
        };
        match ended {
            Some(Ok(StopReason::Cancelled)) if closed => StopReason::SinkClosed,
            Some(Ok(reason)) => reason,
            Some(Err(error)) => {
                if let Ok(panic) = error.try_into_panic() {
                    let error = panic_error(panic);
                    tracing::error!(controller = %name, %error, "the reflector panicked");
                }
                StopReason::Dropped
            }
            None => StopReason::Dropped,
        }
    }
}

/// Until the queue is closed and drained.
async fn empty<T: Object, P: Process<T>>(
    name: &str,
    queue: &dyn Queue<T>,
    process: &mut P,
    reflector: &ReflectorHandle,
) {
    let mut synced = false;
    let mut losses = Losses::default();
    loop {
        let mut popped = match queue.try_pop_batch(BATCH) {
            Ok(Some(popped)) => popped,
            Ok(None) => {
                let popped = tokio::select! {
                    biased;
                    popped = queue.pop_batch(BATCH) => popped,
                    // An empty first list brings nothing to process.
                    done = queue.synced(), if !synced && !losses.any() => {
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
        if !losses.is_whole_after(batch) {
            // Not everything up to that version has been processed.
            popped.set_version(VersionUpdate::NONE);
        }
        // Called within: it may panic before there is a future.
        match contained(name, async { process.process(popped).await }).await {
            Ok(()) if losses.processed(batch) => {
                let source = "a part of the list was lost".into();
                reflector.relist(ApiError::Panic { operation: "process", source });
            }
            Ok(()) => {}
            Err(source) => {
                losses.lost(batch);
                reflector.relist(ApiError::Panic { operation: "process", source });
            }
        }
        if !synced && !losses.any() && queue.has_synced() {
            synced = true;
            _ = contained(name, async { process.synced() }).await;
        }
        // The queue may never be empty, and the process function need not wait for anything.
        tokio::task::consume_budget().await;
    }
}

async fn contained(name: &str, work: impl Future<Output = ()>) -> Result<(), BoxError> {
    let Err(panic) = AssertUnwindSafe(work).catch_unwind().await else { return Ok(()) };
    let error = panic_error(panic);
    // It may have been the subscriber that panicked.
    _ = contain(
        || tracing::error!(controller = name, %error, "the process function panicked; its batch is lost"),
    );
    Err(error)
}

struct CloseOnDrop<T: Object>(Arc<dyn Queue<T>>);

impl<T: Object> Drop for CloseOnDrop<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T: Object, P> fmt::Debug for Controller<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("reflector", &self.reflector)
            .finish_non_exhaustive()
    }
}
