//! The receiving side of one handler: its backlog through its filter.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kinformer_core::internal::{ask, contain};
use kinformer_core::{BoxError, Object, Tombstone};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::backlog::{Backlog, Next};
use crate::event::{Event, Notification};
use crate::listener::{DoneGuard, Listener};

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
        let notification = match backlog.next() {
            Next::Event(notification, published) => {
                listener.delivers(published);
                notification
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
        let event = &notification.event;
        let Some(filter) = filter else {
            return deliver(event).map(Step::Delivered);
        };
        match Panicked::catch(event, || crossing(filter, notification))? {
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
fn crossing<T>(filter: &Filter<T>, notification: &Notification<T>) -> Crossing<T> {
    let before = notification.before().map(filter);
    let revision = notification.event.revision();
    match &notification.event {
        Event::Added { object, .. } if filter(object) => Crossing::AsItIs,
        Event::Updated { old, new, .. } => match (before.unwrap_or_default(), filter(new)) {
            (true, true) => Crossing::AsItIs,
            (false, true) => {
                Crossing::Becomes(Event::Added { object: new.clone(), in_initial_list: false, revision })
            }
            (true, false) => {
                let tombstone = Tombstone::FinalState(old.clone());
                Crossing::Becomes(Event::Deleted { tombstone, revision })
            }
            (false, false) => Crossing::None,
        },
        // The state before is unknown: rather a deletion too many.
        Event::Deleted { .. } if before.unwrap_or(true) => Crossing::AsItIs,
        Event::Added { .. } | Event::Deleted { .. } => Crossing::None,
    }
}
