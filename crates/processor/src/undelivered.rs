//! The interface of a handler's undelivered events.

use std::sync::Arc;

use crate::clock::Moment;
use crate::event::Event;

/// The next step of a handler.
pub(crate) enum Next<'a, T> {
    /// There is no undelivered event.
    Empty,
    /// The whole initial list has been processed. Returned once.
    Synced,
    /// An event, and the time of its publication.
    Event(&'a Event<Arc<T>>, Moment),
}

/// The undelivered events of one handler, for use by any thread.
pub(crate) trait Undelivered: Send + Sync {
    /// Returns the number of undelivered events.
    fn depth(&self) -> usize;

    /// Returns the number of events that may be published before this handler makes the publisher wait; `None` if it
    /// never does. A backlog must return either always `None` or always `Some`.
    fn room(&self) -> Option<usize> {
        None
    }

    /// Drops the undelivered events, and all later ones at once.
    fn release(&self);
}
