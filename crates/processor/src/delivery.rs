//! The receiving side of one handler: its backlog through its filter.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use kinformer_core::internal::{ask, contain};
use kinformer_core::{BoxError, Object, Tombstone};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::backlog::Backlog;
use crate::event::{Added, Deleted, Event, LoggedEvent, Updated};
use crate::listener::Listener;
use crate::listeners::DoneGuard;
use crate::undelivered::Next;

/// How long a handler receives nothing after a panic, as upstream.
pub(crate) const AFTER_PANIC: Duration = Duration::from_secs(1);

/// How many events are delivered before other tasks may use the thread.
pub(crate) const AT_ONCE: usize = 128;

/// Says whether a handler receives an object.
pub(crate) type Filter<T> = Box<dyn Fn(&Arc<T>) -> bool + Send>;

/// The receiving side of one handler. [`Listener`] is what it shares with the other side.
pub(crate) struct Delivery<T> {
    backlog: Box<dyn Backlog<T>>,
    filter: Option<Filter<T>>,
    pub(crate) listener: Arc<Listener>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Dropped last: this goes wherever the handler runs.
    pub(crate) done: Option<DoneGuard>,
}

/// What came of one attempt to deliver an event.
pub(crate) enum Step<R> {
    /// No event waits.
    Empty,
    /// Something was passed that is not delivered: try again.
    Skipped,
    Delivered(R),
}

/// User code that panicked, and the object of its event.
pub(crate) struct Panicked {
    pub(crate) key: String,
    pub(crate) error: BoxError,
}

impl Panicked {
    /// Runs user code over an event.
    pub(crate) fn catch<T: Object, R>(
        event: &Event<Arc<T>>,
        user_code: impl FnOnce() -> R,
    ) -> Result<R, Self> {
        contain(user_code).map_err(|error| Self::over(event, error))
    }

    /// A panic that was caught over an event.
    pub(crate) fn over<T: Object>(event: &Event<Arc<T>>, error: BoxError) -> Self {
        Self { key: ask(|| event.key().to_string()).unwrap_or_default(), error }
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

    /// Delivers the next event, if there is one that passes the filter. The previous event has been processed.
    pub(crate) fn next<R>(
        &mut self,
        deliver: impl FnOnce(&Event<Arc<T>>) -> Result<R, Panicked>,
    ) -> Result<Step<R>, Panicked> {
        contain(|| self.next_event(deliver))
            // Whatever else of the user's panics in between.
            .unwrap_or_else(|error| Err(Panicked { key: "unknown".to_owned(), error }))
    }

    fn next_event<R>(
        &mut self,
        deliver: impl FnOnce(&Event<Arc<T>>) -> Result<R, Panicked>,
    ) -> Result<Step<R>, Panicked> {
        let Self { backlog, filter, listener, .. } = self;
        let logged = match backlog.next() {
            Next::Event(logged, published) => {
                listener.delivers(published);
                logged
            }
            Next::Synced => {
                listener.synced.cancel();
                return Ok(Step::Skipped);
            }
            Next::Empty => {
                listener.is_idle();
                return Ok(Step::Empty);
            }
        };
        let event = &logged.event;
        let Some(filter) = filter else {
            return deliver(event).map(Step::Delivered);
        };
        match Panicked::catch(event, || crossing(filter, logged))? {
            Crossing::None => {
                listener.has_filtered();
                Ok(Step::Skipped)
            }
            Crossing::AsItIs => deliver(event).map(Step::Delivered),
            Crossing::Becomes(event) => deliver(&event).map(Step::Delivered),
        }
    }

    /// Drops the previous event, which a removal cannot reach, until the next one is delivered.
    pub(crate) fn rest(&mut self) {
        self.backlog.rest();
    }

    /// Counts and logs a panic.
    pub(crate) fn report(&self, Panicked { key, error }: &Panicked) {
        self.listener.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            handler = %self.listener.name, key, %error, continues_after = ?AFTER_PANIC,
            "handler panicked; skipping event",
        );
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.backlog.is_closed()
    }

    /// Ready when there may be an event, there will be none, or the listener is to stop.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.backlog.poll_ready(context).is_ready() { Poll::Ready(()) } else { self.poll_stopped(context) }
    }

    /// Ready when the listener is to stop.
    pub(crate) fn poll_stopped(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.stop.as_mut().poll(context)
    }
}

enum Crossing<T> {
    None,
    AsItIs,
    Becomes(Event<Arc<T>>),
}

/// What becomes of an event whose object may cross the filter.
///
/// A deletion is judged by the state that was delivered last: the final state may differ from it in what the filter
/// reads.
fn crossing<T>(filter: &Filter<T>, logged: &LoggedEvent<T>) -> Crossing<T> {
    let before = logged.before().map(filter);
    match &logged.event {
        Event::Added(added) if filter(&added.object) => Crossing::AsItIs,
        &Event::Updated(Updated { ref old, ref new, revision }) => {
            match (before.unwrap_or_default(), filter(new)) {
                (true, true) => Crossing::AsItIs,
                (false, true) => {
                    let object = new.clone();
                    Crossing::Becomes(Event::Added(Added { object, in_initial_list: false, revision }))
                }
                (true, false) => {
                    let tombstone = Tombstone::FinalState(old.clone());
                    Crossing::Becomes(Event::Deleted(Deleted { tombstone, revision }))
                }
                (false, false) => Crossing::None,
            }
        }
        // The state before is unknown: rather a deletion too many.
        Event::Deleted(_) if before.unwrap_or(true) => Crossing::AsItIs,
        Event::Added(_) | Event::Deleted(_) => Crossing::None,
    }
}
