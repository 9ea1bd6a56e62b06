//! The log and the handlers of one processor: publishes changes, and adds handlers.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{Either, select};
use kinformer_core::{Change, Object};
use smallvec::SmallVec;
use tokio_util::sync::CancellationToken;

use crate::backlog::{self, Buffer, Opened, Reading};
use crate::clock::Moment;
use crate::contained::drop_handler;
use crate::delivery::{Delivery, Filter};
use crate::error::Error;
use crate::event::Event;
use crate::listener::{Listener, NewListener, Task};
use crate::listeners::Listeners;
use crate::log::Log;
use crate::log_reader::{Batch, InitialState, LogReader, Start};
use crate::members::Phase;
use crate::registration::Registration;
use crate::resync::DueHandlers;

/// The number of events that are published at once if there are handlers with back-pressure.
const SENT_AT_ONCE: usize = 64;

/// Reads the initial list of a handler.
pub(crate) type ReadState<T> = dyn Fn() -> InitialState<T> + Send + Sync;

/// The state shared by the clones of a processor.
pub(crate) struct Publisher<T> {
    log: Arc<Log<Batch<T>>>,
    /// The number of events that were published for all handlers. Written under the log's lock.
    published: Arc<AtomicU64>,
    /// Whether the end of the initial list has been published. Written under the log's lock.
    synced: AtomicBool,
    initial_state: Option<Box<ReadState<T>>>,
    listeners: Arc<Listeners>,
}

/// The settings of a handler to be added.
pub(crate) struct NewHandler<T> {
    pub(crate) name: Arc<str>,
    pub(crate) resync: Option<Duration>,
    pub(crate) buffer: Buffer,
    pub(crate) filter: Option<Filter<T>>,
}

impl<T> Publisher<T> {
    pub(crate) fn listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }
}

impl<T: Object> Publisher<T> {
    pub(crate) fn new(
        name: Arc<str>,
        initial_state: Option<Box<ReadState<T>>>,
        resync: Duration,
        grace: Duration,
    ) -> Self {
        let log = Log::new();
        let listeners = Listeners::new(name, resync, grace, log.bell().clone());
        Self {
            log: Arc::new(log),
            published: Arc::default(),
            synced: AtomicBool::new(false),
            initial_state,
            listeners: Arc::new(listeners),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// See [`SharedProcessor::publish_synced`](crate::SharedProcessor::publish_synced).
    pub(crate) fn publish_synced(&self) {
        if !self.has_synced() {
            self.publish_batch(0, true, SmallVec::new());
        }
    }

    /// Returns the number of events that may be published before a handler makes the publisher wait; `None` if no
    /// handler does.
    pub(crate) fn room(&self) -> Option<usize> {
        self.listeners.limits.room()
    }

    /// Publishes changes; consecutive changes of one revision form a batch.
    pub(crate) fn publish(&self, due: Option<&DueHandlers>, changes: impl IntoIterator<Item = Change<T>>) {
        let mut changes = changes.into_iter();
        let mut next = changes.next();
        while let Some(first) = next.take() {
            let revision = first.revision;
            let mut batch = SmallVec::with_capacity(1 + changes.size_hint().0);
            batch.extend(Event::of(first));
            // Extends the batch in one call: a push checks the capacity each time.
            batch.extend(iter::from_fn(|| {
                loop {
                    let change = changes.next()?;
                    if change.revision != revision {
                        next = Some(change);
                        return None;
                    }
                    if let Some(event) = Event::of(change) {
                        return Some(event);
                    }
                }
            }));
            match due {
                _ if batch.is_empty() => {}
                None => self.publish_batch(revision, false, batch),
                Some(due) => self.publish_resync(revision, due, batch),
            }
        }
    }

    fn publish_batch(&self, revision: u64, synced: bool, events: SmallVec<[Event<Arc<T>>; 1]>) {
        let published = Moment::now(self.listeners.epoch);
        self.log.publish(|| {
            let before = self.published.load(Ordering::Relaxed);
            self.published.store(before + events.len() as u64, Ordering::Release);
            if synced {
                self.synced.store(true, Ordering::Release);
            }
            Batch { revision, events, resync: false, synced, published }
        });
    }

    fn publish_resync(&self, revision: u64, due: &DueHandlers, events: SmallVec<[Event<Arc<T>>; 1]>) {
        let published = Moment::now(self.listeners.epoch);
        let batch = |events| Batch { revision, events, resync: true, synced: false, published };
        self.log.publish_to(&due.ids, events.len(), batch(events));
    }

    /// Publishes changes as [`Self::publish`], but waits for handlers with back-pressure.
    pub(crate) async fn send(&self, due: Option<&DueHandlers>, changes: impl IntoIterator<Item = Change<T>>) {
        if self.room().is_none() {
            return self.publish(due, changes);
        }
        let mut rest = changes.into_iter().collect::<Vec<_>>().into_iter();
        while rest.len() > 0 {
            match self.room() {
                None => return self.publish(due, rest),
                Some(0) => self.listeners.limits.ready().await,
                Some(room) => self.publish(due, rest.by_ref().take(room.min(SENT_AT_ONCE))),
            }
        }
    }

    /// Adds a handler. `task` creates the handler's task from its `Delivery`.
    pub(crate) fn join(
        &self,
        handler: NewHandler<T>,
        task: impl FnOnce(Delivery<T>) -> Option<Task>,
    ) -> Result<Registration, Error> {
        let NewHandler { name, resync, buffer, filter } = handler;
        let listeners = &self.listeners;
        if listeners.phase() == Phase::Stopped {
            drop_handler(&name, task);
            drop_handler(&name, filter);
            return Err(listeners.stopped_error());
        }
        // The cursor is created before the state is read. A change published in between is in both, and is delivered
        // once, because its revision shows that the state includes it.
        let (cursor, (read, synced)) =
            self.log.cursor(|| (self.published.load(Ordering::Acquire), self.has_synced()));
        let initial = self.initial_state.as_ref().map(|read| read());
        let id = cursor.id();
        let period = listeners.enter(id, resync);
        period.log(&name);
        let stop = CancellationToken::new();
        let Opened { backlog, task: beside } = backlog::open(
            buffer,
            Reading {
                reader: LogReader::new(Start {
                    cursor,
                    initial,
                    synced,
                    read,
                    published: self.published.clone(),
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
        }));
        let task = task(Delivery::new(backlog, filter, listener.clone()));
        listener.set_task(both(task, beside));
        listeners.join(&listener)?;
        Ok(Registration { listener, listeners: Arc::downgrade(listeners) })
    }
}

/// Joins the task of a handler and the task beside it, so that neither can remain without the other. The result ends
/// with the handler.
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

impl<T> Drop for Publisher<T> {
    /// Stops the handlers, and ends all waits for them: nothing can be published or run any more.
    fn drop(&mut self) {
        self.listeners.stop();
    }
}
