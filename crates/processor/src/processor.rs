//! The processor: publishing, and adding handlers.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kinformer_core::{Change, Object};
use tokio_util::sync::CancellationToken;

use crate::builder::HandlerBuilder;
use crate::error::Error;
use crate::handler::EventHandler;
use crate::listener::HandlerMetrics;
use crate::log_reader::InitialState;
use crate::publisher::{Publisher, ReadState};
use crate::registration::Registration;
use crate::resync::DueHandlers;
use crate::stream::EventStream;

/// Publishes events to any number of handlers, each of which goes at its own pace.
///
/// Cheap to clone; all clones are the same processor. See the crate's documentation.
///
/// Follows client-go 1.37 (`sharedProcessor`).
pub struct SharedProcessor<T> {
    publisher: Arc<Publisher<T>>,
}

/// Builds a [`SharedProcessor`].
#[must_use = "nothing is built yet"]
pub struct SharedProcessorBuilder<T> {
    name: Arc<str>,
    initial_state: Option<Box<ReadState<T>>>,
    resync: Duration,
    grace: Duration,
}

impl<T: Object> SharedProcessorBuilder<T> {
    /// Where a handler that joins gets its initial list from. Called once for each handler, without a lock.
    ///
    /// The state has to include everything that was published before the call, and its revision has to say which changes
    /// it includes. Without this there are no initial lists.
    pub fn initial_state(mut self, read: impl Fn() -> InitialState<T> + Send + Sync + 'static) -> Self {
        self.initial_state = Some(Box::new(read));
        self
    }

    /// The period of resyncs for handlers without one of their own. Zero, the default, means never, and so does
    /// [`Duration::MAX`].
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// How long handlers may take to return from their last event at the end, 10 seconds by default; unlimited with
    /// [`Duration::MAX`].
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
    /// A processor with the defaults. The name is for messages.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::builder(name).build()
    }

    /// For a processor with an initial list, or other settings.
    pub fn builder(name: impl Into<Arc<str>>) -> SharedProcessorBuilder<T> {
        SharedProcessorBuilder {
            name: name.into(),
            initial_state: None,
            resync: Duration::ZERO,
            grace: Duration::from_secs(10),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.publisher.listeners().name
    }

    /// A builder for a handler of this processor.
    pub fn handler(&self) -> HandlerBuilder<'_, T> {
        HandlerBuilder::new(&self.publisher)
    }

    /// Adds a handler with the defaults: see [`HandlerBuilder::add`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn add_handler(&self, handler: impl EventHandler<Arc<T>>) -> Result<Registration, Error> {
        self.handler().add(handler)
    }

    /// The events as a stream: see [`HandlerBuilder::stream`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn stream(&self) -> Result<EventStream<T>, Error> {
        self.handler().stream()
    }

    /// Removes a handler of this processor: see [`Registration::remove`]. Returns whether it was one of its own and not
    /// removed before; on any other it has no effect.
    pub async fn remove_handler(&self, registration: &Registration) -> bool {
        if !Weak::ptr_eq(&Arc::downgrade(self.publisher.listeners()), &registration.listeners) {
            return false;
        }
        let was_there = registration.listener.remove();
        registration.remove().await;
        was_there
    }

    /// Publishes changes in their order, without waiting.
    ///
    /// O(1) in the number of handlers. [`Change::revision`] is the revision of the store that includes the change. The
    /// store has to include it already, and revisions may only rise: so a handler that joins skips what its
    /// [initial list](SharedProcessorBuilder::initial_state) includes. Changes of revision 0, where there is no store, are
    /// skipped by no handler.
    pub fn publish(&self, changes: impl IntoIterator<Item = Change<T>>) {
        self.publisher.publish(None, changes);
    }

    /// As [`Self::publish`], but waits between events for handlers with
    /// [`Buffer::BackPressure`](crate::Buffer::BackPressure). Without such handlers it does not wait.
    ///
    /// Ends when the processor stops.
    ///
    /// # Cancel safety
    /// Dropped while it waits, it has published the first of the changes, and the others are lost.
    pub async fn send(&self, changes: impl IntoIterator<Item = Change<T>>) {
        self.publisher.send(None, changes).await;
    }

    /// Waits until no handler makes the publisher wait. Cancel-safe; any number may wait.
    pub async fn ready(&self) {
        self.publisher.listeners().limits.ready().await;
    }

    /// Whether no handler makes the publisher wait.
    pub fn is_ready(&self) -> bool {
        self.publisher.room() != Some(0)
    }

    /// Publishes the end of the initial list: a handler that has processed everything before it has synced. Idempotent.
    pub fn publish_synced(&self) {
        self.publisher.publish_synced();
    }

    /// As [`Self::publish_synced`], if the initial list is over at the moment of the publication. That is asked under the
    /// lock that [`Self::expect_initial_list`] takes: so whoever notes another list before that call, and lets this ask for
    /// the note, holds no lock of its own meanwhile. It must be quick.
    pub fn publish_synced_if(&self, is_over: impl FnOnce() -> bool) {
        self.publisher.publish_synced_if(is_over);
    }

    /// Whether the end of the initial list was published.
    pub fn has_synced(&self) -> bool {
        self.publisher.has_synced()
    }

    /// The store is about to receive another initial list: handlers that are added from now on have synced after the next
    /// [`Self::publish_synced`]. Handlers that were added before are not affected.
    pub fn expect_initial_list(&self) {
        self.publisher.expect_initial_list();
    }

    /// Marks the handlers that are due for a resync. Returns whether any is marked. A handler that was marked stays so
    /// until [`Self::take_due_handlers`] returns it; one that was found due several times by then receives one resync.
    ///
    /// Follows client-go 1.37 (`shouldResync`), where the next check changes which handlers receive a resync that is
    /// still being delivered.
    pub fn mark_due_handlers(&self) -> bool {
        self.publisher.listeners().mark_due()
    }

    /// Takes out the handlers that were [marked](Self::mark_due_handlers) as due for a resync, if any was. A resync has to
    /// be published for them, of objects that are read after this call.
    pub fn take_due_handlers(&self) -> Option<DueHandlers> {
        self.publisher.listeners().take_due()
    }

    /// Publishes a resync to the handlers that are due and to no other: a [`Change::unchanged`] for each object, at the
    /// revision at which the objects were read. Each handler receives each object once, at its own pace. Waits as
    /// [`Self::send`] does.
    ///
    /// # Cancel safety
    /// As that of [`Self::send`].
    pub async fn send_resync(&self, due: DueHandlers, unchanged: impl IntoIterator<Item = Change<T>>) {
        self.publisher.send(Some(due), unchanged).await;
    }

    /// How often [`Self::mark_due_handlers`] is to be called: the smallest period of any handler, or the default. Fixed
    /// from the start on.
    pub fn resync_check_period(&self) -> Option<Duration> {
        self.publisher.listeners().resync_check_period()
    }

    /// The statistics of each handler.
    pub fn handler_metrics(&self) -> Vec<HandlerMetrics> {
        self.publisher.listeners().metrics()
    }

    /// Delivers published events to the handlers until the token is cancelled.
    ///
    /// Each handler runs as a task on the current runtime, and one more task wakes them; this future owns all of them.
    /// Without handlers it has no task and sets no timer, and with idle handlers it sets no timer either, so it may be
    /// polled together with other futures of the caller.
    ///
    /// When the token is cancelled, every handler returns from the event it is in, and undelivered events are discarded.
    /// Futures of callbacks that take longer than the grace period are dropped at their await points. No task is left
    /// when this returns; only a thread that does not return from a callback cannot be ended.
    ///
    /// # Cancel safety
    /// Dropping the future ends the processor and its tasks at once.
    ///
    /// # Errors
    /// [`Error::Running`] or [`Error::Stopped`] at once: a processor runs once. [`Error::Stuck`] at the end: these
    /// handlers did not return within the grace period.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        self.publisher.listeners().run(cancel).await
    }

    /// Ends a processor that has not started: its handlers are dropped, and streams and waits end. Returns false, without
    /// any effect, if it has started.
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
