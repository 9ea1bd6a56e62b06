//! The processor: publishing, and adding handlers.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{Either, select};
use kinformer_core::{Change, Object};
use smallvec::SmallVec;
use tokio_util::sync::CancellationToken;

use crate::backlog::{self, Opened, Parts};
use crate::builder::{HandlerBuilder, NewHandler};
use crate::delivery::Delivery;
use crate::event::Notification;
use crate::listener::{HandlerStats, Listener, Moment, NewListener, Task};
use crate::listeners::Listeners;
use crate::log::Log;
use crate::log_reader::{Batch, LogReader, Start};
use crate::members::Phase;
use crate::registration::Registration;
use crate::run::drop_contained;
use crate::{DueHandlers, Error, EventHandler, EventStream};

/// How many events are published at once while handlers may make the publisher wait.
const SENT_AT_ONCE: usize = 64;

/// What a handler that joins receives first: every object of the store.
#[must_use]
pub struct InitialState<T> {
    pub(crate) revision: u64,
    pub(crate) objects: Box<dyn ExactSizeIterator<Item = Arc<T>> + Send>,
}

impl<T> InitialState<T> {
    /// The state at a revision: it includes all changes of [this revision](Change::revision) and earlier ones. The objects
    /// are taken one by one while the handler receives them.
    pub fn new(revision: u64, objects: impl ExactSizeIterator<Item = Arc<T>> + Send + 'static) -> Self {
        Self { revision, objects: Box::new(objects) }
    }
}

impl<T> fmt::Debug for InitialState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitialState")
            .field("revision", &self.revision)
            .field("objects", &self.objects.len())
            .finish()
    }
}

/// Publishes events to any number of handlers, each of which goes at its own pace.
///
/// Cheap to clone; all clones are the same processor. See the crate's documentation.
///
/// Follows client-go 1.37 (`sharedProcessor`).
pub struct SharedProcessor<T> {
    inner: Arc<Inner<T>>,
}

/// Builds a [`SharedProcessor`].
#[must_use = "nothing is built yet"]
pub struct SharedProcessorBuilder<T> {
    name: Arc<str>,
    initial_state: Option<Box<ReadState<T>>>,
    resync: Duration,
    grace: Duration,
}

type ReadState<T> = dyn Fn() -> InitialState<T> + Send + Sync;

struct Inner<T> {
    log: Arc<Log<Batch<T>>>,
    /// How many notifications have been published. Written under the log's lock.
    published: Arc<AtomicU64>,
    /// Whether the end of the initial list has been published. Written under the log's lock.
    synced: AtomicBool,
    initial_state: Option<Box<ReadState<T>>>,
    listeners: Arc<Listeners>,
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
        let (log, published) = (Log::new(), Arc::<AtomicU64>::default());
        let listeners = Listeners::new(name, resync, grace, log.bell().clone(), published.clone());
        let inner = Inner {
            log: Arc::new(log),
            published,
            synced: AtomicBool::new(false),
            initial_state,
            listeners: Arc::new(listeners),
        };
        SharedProcessor { inner: Arc::new(inner) }
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
        &self.inner.listeners.name
    }

    /// A builder for a handler of this processor.
    pub fn handler(&self) -> HandlerBuilder<'_, T> {
        HandlerBuilder::new(self)
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
        if !Weak::ptr_eq(&Arc::downgrade(&self.inner.listeners), &registration.listener.processor) {
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
        self.inner.publish(None, changes);
    }

    /// As [`Self::publish`], but waits between events for handlers with
    /// [`Buffer::BackPressure`](crate::Buffer::BackPressure). Without such handlers it does not wait.
    ///
    /// Ends when the processor stops.
    ///
    /// # Cancel safety
    /// Dropped while it waits, it has published the first of the changes, and the others are lost.
    pub async fn send(&self, changes: impl IntoIterator<Item = Change<T>>) {
        self.send_to(None, changes).await;
    }

    async fn send_to(&self, due: Option<DueHandlers>, changes: impl IntoIterator<Item = Change<T>>) {
        let inner = &self.inner;
        if self.room().is_none() {
            return inner.publish(due.as_ref(), changes);
        }
        let mut rest = changes.into_iter().collect::<Vec<_>>().into_iter();
        while rest.len() > 0 {
            match self.room() {
                None => return inner.publish(due.as_ref(), rest),
                Some(0) => self.ready().await,
                Some(room) => inner.publish(due.as_ref(), rest.by_ref().take(room.min(SENT_AT_ONCE))),
            }
        }
    }

    /// Waits until no handler makes the publisher wait. Cancel-safe; any number may wait.
    pub async fn ready(&self) {
        self.inner.listeners.limits.ready().await;
    }

    /// Whether no handler makes the publisher wait.
    pub fn is_ready(&self) -> bool {
        self.room() != Some(0)
    }

    /// How many events may be published before some handler makes the publisher wait, if any does.
    fn room(&self) -> Option<usize> {
        self.inner.listeners.limits.room()
    }

    /// Publishes the end of the initial list: a handler that has processed everything before it has synced. Idempotent.
    pub fn publish_synced(&self) {
        if !self.has_synced() {
            self.inner.publish_batch(0, None, true, SmallVec::new());
        }
    }

    /// Whether the end of the initial list was published.
    pub fn has_synced(&self) -> bool {
        self.inner.synced.load(Ordering::Acquire)
    }

    /// The store is about to receive another initial list: handlers that are added from now on have synced after the next
    /// [`Self::publish_synced`]. Handlers that were added before are not affected.
    pub fn expect_initial_list(&self) {
        let _ = self.inner.log.cursor(|| self.inner.synced.store(false, Ordering::Release));
    }

    /// Marks the handlers that are due for a resync. Returns whether any is marked. A handler that was marked stays so
    /// until [`Self::take_due_handlers`] returns it; one that was found due several times by then receives one resync.
    ///
    /// Follows client-go 1.37 (`shouldResync`), where the next check changes which handlers receive a resync that is
    /// still being delivered.
    pub fn mark_due_handlers(&self) -> bool {
        self.inner.listeners.mark_due()
    }

    /// Takes out the handlers that were [marked](Self::mark_due_handlers) as due for a resync, if any was. A resync has to
    /// be published for them, of objects that are read after this call.
    pub fn take_due_handlers(&self) -> Option<DueHandlers> {
        self.inner.listeners.take_due()
    }

    /// Publishes a resync to the handlers that are due and to no other: a [`Change::unchanged`] for each object, at the
    /// revision at which the objects were read. Each handler receives each object once, at its own pace. Does not wait.
    pub fn publish_resync(&self, due: DueHandlers, unchanged: impl IntoIterator<Item = Change<T>>) {
        self.inner.publish(Some(&due), unchanged);
    }

    /// As [`Self::publish_resync`], but waits as [`Self::send`] does.
    ///
    /// # Cancel safety
    /// As that of [`Self::send`].
    pub async fn send_resync(&self, due: DueHandlers, unchanged: impl IntoIterator<Item = Change<T>>) {
        self.send_to(Some(due), unchanged).await;
    }

    /// How often [`Self::mark_due_handlers`] is to be called: the smallest period of any handler, or the default. Fixed
    /// from the start on.
    pub fn resync_check_period(&self) -> Option<Duration> {
        self.inner.listeners.resync_check_period()
    }

    /// The statistics of each handler.
    pub fn stats(&self) -> Vec<HandlerStats> {
        self.inner.listeners.stats()
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
        self.inner.listeners.run(cancel).await
    }

    /// Ends a processor that has not started: its handlers are dropped, and streams and waits end. Returns false, without
    /// any effect, if it has started.
    pub fn discard(&self) -> bool {
        self.inner.listeners.discard()
    }

    /// Adds a handler, which `task` makes of its events.
    pub(crate) fn join(
        &self,
        handler: NewHandler<T>,
        task: impl FnOnce(Delivery<T>) -> Option<Task>,
    ) -> Result<Registration, Error> {
        let NewHandler { name, resync, buffer, filter } = handler;
        let inner = &*self.inner;
        let listeners = &inner.listeners;
        if listeners.phase() == Phase::Stopped {
            drop_contained(&name, task);
            drop_contained(&name, filter);
            return Err(listeners.stopped_error());
        }
        // The cursor first, and the state after it: what is published in between is in both, and is delivered once, since
        // its revision says that the state includes it.
        let (cursor, (read, synced)) = inner
            .log
            .cursor(|| (inner.published.load(Ordering::Acquire), inner.synced.load(Ordering::Acquire)));
        let initial = inner.initial_state.as_ref().map(|read| read());
        let (id, period) = listeners.enter(resync);
        period.log(&name);
        let stop = CancellationToken::new();
        let Opened { backlog, task: beside } = backlog::open(
            buffer,
            Parts {
                reader: LogReader::new(Start {
                    handler: id,
                    cursor,
                    initial,
                    synced,
                    read,
                    published: inner.published.clone(),
                    now: Moment::now(listeners.epoch),
                }),
                name: name.clone(),
                stop: stop.clone(),
                space: listeners.limits.space().clone(),
            },
        );
        let listener = Arc::new(Listener::new(NewListener {
            id,
            name,
            resync_period: period.get(),
            stop,
            undelivered: backlog.undelivered(),
            epoch: listeners.epoch,
            processor: Arc::downgrade(listeners),
        }));
        let task = task(Delivery::new(backlog, filter, listener.clone()));
        listener.will_run(both(task, beside));
        listeners.join(&listener)?;
        Ok(Registration { listener })
    }
}

/// What runs a handler and what runs beside it, in one task: so that one cannot be left without the other. It ends with
/// the handler.
fn both(handler: Option<Task>, beside: Option<Task>) -> Option<Task> {
    match (handler, beside) {
        (Some(handler), Some(beside)) => Some(Box::pin(async move {
            if let Either::Right(((), handler)) = select(handler, beside).await {
                handler.await;
            }
        })),
        (handler, beside) => handler.or(beside),
    }
}

impl<T: Object> Inner<T> {
    /// Publishes changes, those of one revision at once.
    fn publish(&self, due: Option<&DueHandlers>, changes: impl IntoIterator<Item = Change<T>>) {
        let changes = changes.into_iter();
        let mut batch = SmallVec::with_capacity(changes.size_hint().0);
        let mut revision = 0;
        for change in changes {
            if change.revision != revision && !batch.is_empty() {
                self.publish_batch(revision, due, false, std::mem::take(&mut batch));
            }
            revision = change.revision;
            batch.extend(Notification::of(change));
        }
        if !batch.is_empty() {
            self.publish_batch(revision, due, false, batch);
        }
    }

    fn publish_batch(
        &self,
        revision: u64,
        due: Option<&DueHandlers>,
        synced: bool,
        notifications: SmallVec<[Notification<T>; 1]>,
    ) {
        let due = due.map(DueHandlers::share);
        let published = Moment::now(self.listeners.epoch);
        self.log.publish(|| {
            let first = self.published.load(Ordering::Relaxed);
            self.published.store(first + notifications.len() as u64, Ordering::Release);
            if synced {
                self.synced.store(true, Ordering::Release);
            }
            Batch { first, revision, notifications, due, synced, published }
        });
    }
}

impl<T> Drop for Inner<T> {
    /// It cannot publish or run any more: all waits for its handlers end.
    fn drop(&mut self) {
        self.listeners.stop();
    }
}

impl<T> Clone for SharedProcessor<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T> fmt::Debug for SharedProcessor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedProcessor")
            .field("name", &self.inner.listeners.name)
            .field("phase", &self.inner.listeners.phase())
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
