//! The receiving side of one handler: its backlog and its filter.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use kinformer_core::internal::contain;
use kinformer_core::{BoxError, Object, Tombstone};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::backlog::Backlog;
use crate::event::{Added, Deleted, Event, Updated};
use crate::listener::Listener;
use crate::listeners::DoneGuard;
use crate::undelivered::Next;

/// The pause of a handler after a panic, as in client-go.
pub(crate) const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// The number of events that are delivered before the task yields.
pub(crate) const YIELD_AFTER: usize = 128;

/// Returns whether a handler receives an object.
pub(crate) type Filter<T> = Box<dyn Fn(&Arc<T>) -> bool + Send>;

/// The receiving side of one handler. It shares the [`Listener`] with the other side.
pub(crate) struct Delivery<T> {
    backlog: Box<dyn Backlog<T>>,
    filter: Option<Filter<T>>,
    pub(crate) listener: Arc<Listener>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Marks the end of the listener. Declared last, so it is dropped last.
    pub(crate) done: Option<DoneGuard>,
}

/// The result of one attempt to deliver an event.
pub(crate) enum Step<R> {
    /// There is no undelivered event.
    Empty,
    /// An event or mark was skipped: try again.
    Skipped,
    Delivered(R),
}

/// A panic of user code, with the key of the object of its event.
pub(crate) struct Panicked {
    pub(crate) key: String,
    pub(crate) error: BoxError,
}

impl Panicked {
    /// Runs user code for an event.
    pub(crate) fn catch<T: Object, R>(
        event: &Event<Arc<T>>,
        user_code: impl FnOnce() -> R,
    ) -> Result<R, Self> {
        contain(user_code).map_err(|error| Self::of_event(event, error))
    }

    /// Creates the panic of user code for an event.
    pub(crate) fn of_event<T: Object>(event: &Event<Arc<T>>, error: BoxError) -> Self {
        Self { key: contain(|| event.key().to_string()).unwrap_or_default(), error }
    }
}

impl<T: Object> Delivery<T> {
    pub(crate) fn new(
        backlog: Box<dyn Backlog<T>>,
        filter: Option<Filter<T>>,
        listener: Arc<Listener>,
    ) -> Self {
        let stop = Box::pin(listener.stop.clone().cancelled_owned());
        Self { backlog, filter, listener, stop, done: None }
    }

    /// Delivers the next event, if it passes the filter. The previous event has been fully processed.
    pub(crate) fn next<R>(
        &mut self,
        deliver: impl FnOnce(&Event<Arc<T>>) -> Result<R, Panicked>,
    ) -> Result<Step<R>, Panicked> {
        contain(|| self.next_event(deliver))
            // Catches panics of other user code, such as the iterator of an initial list.
            .unwrap_or_else(|error| Err(Panicked { key: "unknown".to_owned(), error }))
    }

    fn next_event<R>(
        &mut self,
        deliver: impl FnOnce(&Event<Arc<T>>) -> Result<R, Panicked>,
    ) -> Result<Step<R>, Panicked> {
        let Self { backlog, filter, listener, .. } = self;
        let event = match backlog.next() {
            Next::Event(event, published) => {
                listener.begin_event(published);
                event
            }
            Next::Synced => {
                listener.synced.cancel();
                return Ok(Step::Skipped);
            }
            Next::Empty => {
                listener.set_idle();
                return Ok(Step::Empty);
            }
        };
        let Some(filter) = filter else {
            return deliver(event).map(Step::Delivered);
        };
        match Panicked::catch(event, || apply_filter(filter, event))? {
            Filtered::Rejected => {
                listener.count_filtered();
                Ok(Step::Skipped)
            }
            Filtered::Unchanged => deliver(event).map(Step::Delivered),
            Filtered::Converted(event) => deliver(&event).map(Step::Delivered),
        }
    }

    /// Drops the previous event, which a removal cannot drop. Must be called before each wait.
    pub(crate) fn drop_previous(&mut self) {
        self.backlog.drop_previous();
    }

    /// Counts and logs a panic.
    pub(crate) fn report(&self, Panicked { key, error }: &Panicked) {
        self.listener.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            handler = %self.listener.name, key, %error, continues_after = ?PAUSE_AFTER_PANIC,
            "handler panicked; skipping event",
        );
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.backlog.is_closed()
    }

    /// Ready when there may be an event, the backlog is closed, or the listener must stop.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.backlog.poll_ready(context).is_ready() { Poll::Ready(()) } else { self.poll_stopped(context) }
    }

    /// Ready when the listener must stop.
    pub(crate) fn poll_stopped(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.stop.as_mut().poll(context)
    }
}

/// An event after the filter.
enum Filtered<T> {
    Rejected,
    Unchanged,
    /// The object starts or stops passing the filter.
    Converted(Event<Arc<T>>),
}

/// Applies the filter to the states of an event before and after the change.
///
/// A deletion is filtered by the state that was delivered last, because the final state may differ in the fields that
/// the filter reads.
fn apply_filter<T>(filter: &Filter<T>, event: &Event<Arc<T>>) -> Filtered<T> {
    let before = event.before().map(filter);
    match event {
        Event::Added(added) if filter(&added.object) => Filtered::Unchanged,
        &Event::Updated(Updated { ref old, ref new, revision }) => {
            match (before.unwrap_or_default(), filter(new)) {
                (true, true) => Filtered::Unchanged,
                (false, true) => {
                    let object = new.clone();
                    Filtered::Converted(Event::Added(Added { object, in_initial_list: false, revision }))
                }
                (true, false) => {
                    let tombstone = Tombstone::FinalState(old.clone());
                    Filtered::Converted(Event::Deleted(Deleted {
                        tombstone,
                        old: Some(old.clone()),
                        revision,
                    }))
                }
                (false, false) => Filtered::Rejected,
            }
        }
        // If the state before is unknown, the deletion is delivered: a superfluous deletion is better than a missing
        // one.
        Event::Deleted(_) | Event::Left(_) if before.unwrap_or(true) => Filtered::Unchanged,
        Event::Added(_) | Event::Deleted(_) | Event::Left(_) => Filtered::Rejected,
    }
}
