//! The public type of the processor: publishes changes and adds handlers.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kinformer_core::{Change, Object};
use tokio_util::sync::CancellationToken;

use crate::builder::ListenerBuilder;
use crate::error::Error;
use crate::handler::EventHandler;
use crate::listener::HandlerMetrics;
use crate::log_reader::InitialState;
use crate::publisher::{Publisher, ReadState};
use crate::registration::Registration;
use crate::resync::DueHandlers;
use crate::stream::ListenerStream;

/// Publishes events to any number of handlers, each at its own pace.
///
/// * A handler receives one event at a time, in the order of publication. If the changes come from one store, the `old` of
///   an update is the state that the handler received before.
/// * A handler that is added late first receives the [initial list](SharedProcessorBuilder::initial_state), then all
///   later changes: nothing is lost and nothing is delivered twice.
/// * Handlers are independent: a handler that is slow, blocks, panics or never returns affects no other handler. It
///   affects the publisher only with [`Buffer::BackPressure`](crate::Buffer::BackPressure).
/// * Undelivered events take memory until they are delivered, unless the handler's [`Buffer`](crate::Buffer) bounds
///   them. [`Self::handler_metrics`] shows how many there are.
/// * Nothing is delivered before [`Self::run`] is polled. After its end, undelivered events are discarded and no
///   handler can be added. A processor runs once.
///
/// Cheap to clone; all clones are the same processor. When the last clone is dropped, the handlers end.
///
/// Follows client-go 0.37 (`sharedProcessor`).
pub struct SharedProcessor<T> {
    publisher: Arc<Publisher<T>>,
}

/// Builds a [`SharedProcessor`].
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use kinformer_processor::{InitialState, Keyed, SharedProcessor};
///
/// # fn example(store: Vec<Arc<Keyed<u16>>>) {
/// let ports = SharedProcessor::builder("ports")
///     .initial_state(move || InitialState::new(1, store.clone().into_iter())) // of handlers that join late
///     .resync(Duration::from_secs(600))
///     .grace(Duration::from_secs(3))
///     .build();
/// assert_eq!(ports.name(), "ports");
/// # }
/// # example(Vec::new());
/// ```
#[must_use = "nothing is built yet"]
pub struct SharedProcessorBuilder<T> {
    name: Arc<str>,
    initial_state: Option<Box<ReadState<T>>>,
    resync: Duration,
    grace: Duration,
}

impl<T: Object> SharedProcessorBuilder<T> {
    /// Sets the function that reads the initial list for a handler that joins. It is called once for each handler,
    /// without a lock.
    ///
    /// The state must include everything that was published before the call, and its revision must identify the changes
    /// that it includes. Without this function there are no initial lists.
    pub fn initial_state(mut self, read: impl Fn() -> InitialState<T> + Send + Sync + 'static) -> Self {
        self.initial_state = Some(Box::new(read));
        self
    }

    /// Sets the resync period of handlers that request none. Zero, the default, and [`Duration::MAX`] mean never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// Sets the grace period: the time that handlers may take to return from their last event when the processor ends.
    /// 10 seconds by default; unlimited with [`Duration::MAX`].
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Builds the processor.
    pub fn build(self) -> SharedProcessor<T> {
        let Self { name, initial_state, resync, grace } = self;
        SharedProcessor { publisher: Arc::new(Publisher::new(name, initial_state, resync, grace)) }
    }
}

impl<T: Object> SharedProcessor<T> {
    /// Creates a processor with the default settings. The name appears in logs and errors.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::builder(name).build()
    }

    /// Returns a builder for a processor with an initial list or other settings.
    pub fn builder(name: impl Into<Arc<str>>) -> SharedProcessorBuilder<T> {
        SharedProcessorBuilder {
            name: name.into(),
            initial_state: None,
            resync: Duration::ZERO,
            grace: Duration::from_secs(10),
        }
    }

    /// Returns the name of the processor.
    pub fn name(&self) -> &str {
        &self.publisher.listeners().name
    }

    /// Returns a builder for a handler of this processor.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_processor::{Change, Event, Keyed, SharedProcessor};
    /// # let ports = SharedProcessor::<Keyed<u16>>::new("ports");
    /// # let port = |number: u16| Keyed::by(ToString::to_string, number);
    /// # let running = tokio::spawn({
    /// #     let ports = ports.clone();
    /// #     async move { ports.run(Default::default()).await }
    /// # });
    /// use kinformer_processor::Buffer;
    ///
    /// let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = ports.handler().name("printer").buffer(Buffer::Coalesced).for_each(move |event| {
    ///     _ = sender.send(event.key().to_string());
    /// })?;
    /// ports.publish([Change::added(port(443)?)]);
    /// ports.publish_synced();
    /// handler.synced().await?;
    /// assert_eq!(received.try_recv()?, "443");
    /// # running.abort();
    /// # Ok(())
    /// # }
    /// ```
    pub fn handler(&self) -> ListenerBuilder<'_, T> {
        ListenerBuilder::new(&self.publisher)
    }

    /// Adds a handler with the default settings: see [`ListenerBuilder::add`].
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped.
    pub fn add_handler(&self, handler: impl EventHandler<Arc<T>>) -> Result<Registration, Error> {
        self.handler().add(handler)
    }

    /// Returns the events as a stream: see [`ListenerBuilder::stream`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_processor::{Change, Event, Keyed, SharedProcessor};
    /// # let ports = SharedProcessor::<Keyed<u16>>::new("ports");
    /// # let port = |number: u16| Keyed::by(ToString::to_string, number);
    /// # let running = tokio::spawn({
    /// #     let ports = ports.clone();
    /// #     async move { ports.run(Default::default()).await }
    /// # });
    /// use futures::StreamExt;
    ///
    /// let mut events = ports.stream()?;
    /// ports.publish([Change::added(port(443)?)]);
    /// let event = events.next().await.ok_or("no event")?;
    /// assert!(matches!(&event, Event::Added(_)) && event.key().to_string() == "443");
    /// # running.abort();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped.
    pub fn stream(&self) -> Result<ListenerStream<T>, Error> {
        self.handler().stream()
    }

    /// Removes a handler of this processor and waits until its callback has returned: see [`Registration::remove`].
    /// Returns whether this call removed it. Returns `false` for a handler that was removed before, and, without any
    /// effect, for a handler of another processor.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_processor::{Change, Event, Keyed, SharedProcessor};
    /// # let ports = SharedProcessor::<Keyed<u16>>::new("ports");
    /// # let port = |number: u16| Keyed::by(ToString::to_string, number);
    /// # let running = tokio::spawn({
    /// #     let ports = ports.clone();
    /// #     async move { ports.run(Default::default()).await }
    /// # });
    /// let handler = ports.handler().for_each(|event| println!("{}", event.key()))?;
    /// assert!(ports.remove_handler(&handler).await);
    /// assert!(handler.is_removed());
    /// # running.abort();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The first poll removes the handler. Dropping the future later only ends the wait for its callback.
    pub async fn remove_handler(&self, registration: &Registration) -> bool {
        if !Weak::ptr_eq(&Arc::downgrade(self.publisher.listeners()), &registration.listeners) {
            return false;
        }
        let was_there = registration.listener.remove();
        registration.remove().await;
        was_there
    }

    /// Publishes changes in order, without waiting.
    ///
    /// O(1) in the number of handlers. [`Change::revision`] is the revision of the store that includes the change. The
    /// store must include the change already, and revisions must never decrease, so that a handler that joins can skip
    /// the changes that its [initial list](SharedProcessorBuilder::initial_state) includes. Without a store the
    /// revision is 0, and no handler skips the change.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_processor::{Change, Event, Keyed, SharedProcessor};
    /// # let ports = SharedProcessor::<Keyed<u16>>::new("ports");
    /// # let port = |number: u16| Keyed::by(ToString::to_string, number);
    /// # let running = tokio::spawn({
    /// #     let ports = ports.clone();
    /// #     async move { ports.run(Default::default()).await }
    /// # });
    /// let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    /// ports.handler().for_each(move |event| _ = sender.send(event.key().to_string()))?;
    /// ports.publish([Change::added(port(80)?), Change::added(port(443)?)]);
    /// let keys = [received.recv().await, received.recv().await];
    /// assert_eq!(keys.map(Option::unwrap), ["80", "443"]); // each handler receives the changes in this order
    /// # running.abort();
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish(&self, changes: impl IntoIterator<Item = Change<T>>) {
        self.publisher.publish(None, changes);
    }

    /// Publishes changes as [`Self::publish`], but waits between events for handlers with
    /// [`Buffer::BackPressure`](crate::Buffer::BackPressure). Without such handlers it does not wait. When the
    /// processor stops, it returns.
    ///
    /// # Cancel safety
    /// If the future is dropped while it waits, the changes before that point are published and the remaining ones are
    /// lost.
    pub async fn send(&self, changes: impl IntoIterator<Item = Change<T>>) {
        self.publisher.send(None, changes).await;
    }

    /// Waits until no handler makes the publisher wait. Any number of tasks may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait reserves no room, and a later call checks again.
    pub async fn ready(&self) {
        self.publisher.listeners().limits.ready().await;
    }

    /// Returns whether no handler makes the publisher wait.
    pub fn is_ready(&self) -> bool {
        self.publisher.room() != Some(0)
    }

    /// Publishes the end of the initial list: a handler has synced once it has processed everything before it.
    /// Idempotent.
    pub fn publish_synced(&self) {
        self.publisher.publish_synced();
    }

    /// Returns whether the end of the initial list was published.
    pub fn has_synced(&self) -> bool {
        self.publisher.has_synced()
    }

    /// Marks the handlers that are due for a resync, and returns whether any handler is marked. A handler stays marked
    /// until [`Self::take_due_handlers`] returns it. If it becomes due several times before, it receives one resync.
    ///
    /// Follows client-go 0.37 (`shouldResync`), where the next check changes which handlers receive a resync that is
    /// still being delivered.
    pub fn mark_due_handlers(&self) -> bool {
        self.publisher.listeners().mark_due()
    }

    /// Removes the [marks](Self::mark_due_handlers) of the handlers that are due for a resync and returns these
    /// handlers; `None` if there are none. The caller must publish a resync for them, with objects read after this
    /// call.
    pub fn take_due_handlers(&self) -> Option<DueHandlers> {
        self.publisher.listeners().take_due()
    }

    /// Publishes a resync to the due handlers only: a [`Change::unchanged`] for each object, at the revision at which
    /// the objects were read. Each of these handlers receives each object once, at its own pace. The others hold nothing
    /// of it. Waits as [`Self::send`] does.
    ///
    /// The period of a handler with back-pressure begins again when its resync is published, so that a handler which needs
    /// longer for it than its period leaves time for changes.
    ///
    /// # Cancel safety
    /// If the future is dropped while it waits, the objects before that point are published. The due handlers receive
    /// the remaining ones at their next resync only.
    pub async fn send_resync(&self, due: DueHandlers, unchanged: impl IntoIterator<Item = Change<T>>) {
        self.publisher.send(Some(&due), unchanged).await;
        self.publisher.listeners().resynced(&due);
    }

    /// Returns the interval at which [`Self::mark_due_handlers`] must be called: the smallest resync period of any
    /// handler, including the default period; `None` without resyncs. Fixed when the processor starts.
    pub fn resync_check_period(&self) -> Option<Duration> {
        self.publisher.listeners().resync_check_period()
    }

    /// Returns the metrics of each handler.
    pub fn handler_metrics(&self) -> Vec<HandlerMetrics> {
        self.publisher.listeners().metrics()
    }

    /// Delivers published events to the handlers until the token is cancelled.
    ///
    /// Each handler runs as a task on the current runtime, and one more task wakes them. This future owns all of them.
    /// Without handlers it has no task. Without handlers, or with idle ones, it sets no timer, so it may be polled
    /// together with other futures of the caller.
    ///
    /// When the token is cancelled, each handler finishes its current event, and undelivered events are discarded.
    /// Callback futures that take longer than the grace period are dropped at their await points. No task is left when
    /// this returns; only a thread blocked in a callback cannot be ended.
    ///
    /// # Cancel safety
    /// Dropping the future before its first poll has no effect. Later it ends the processor and its tasks at once, without
    /// a grace period: callback futures are dropped at their await points, and undelivered events are lost. A blocking
    /// callback that is running continues on its thread, where its handler is dropped when it returns.
    ///
    /// # Errors
    /// [`Error::Running`] or [`Error::Stopped`] at once, because a processor runs once. [`Error::Stuck`] at the end if
    /// handlers did not return within the grace period.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        self.publisher.listeners().run(cancel).await
    }

    /// Ends a processor that has not started: drops its handlers, and ends its streams and waits. Returns `false`,
    /// without any effect, if it has started.
    pub fn discard(&self) -> bool {
        self.publisher.listeners().discard()
    }
}

impl<T> Clone for SharedProcessor<T> {
    fn clone(&self) -> Self {
        Self { publisher: self.publisher.clone() }
    }
}

impl<T> fmt::Debug for SharedProcessor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedProcessor")
            .field("name", &self.publisher.listeners().name)
            .field("phase", &self.publisher.listeners().phase())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SharedProcessorBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedProcessorBuilder")
            .field("name", &self.name)
            .field("resync", &self.resync)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
