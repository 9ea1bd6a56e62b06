//! What a handler has not received: how it is read, and what others see of it.

use crate::clock::Moment;
use crate::event::LoggedEvent;

/// What the next step of a handler is.
pub(crate) enum Next<'a, T> {
    /// No event waits.
    Empty,
    /// The whole initial list has been processed. Returned once.
    Synced,
    /// An event, and when it was published.
    Event(&'a LoggedEvent<T>, Moment),
}

/// The undelivered events of one handler, as others see them.
pub(crate) trait Undelivered: Send + Sync {
    /// How many there are.
    fn depth(&self) -> usize;

    /// How many more events may be published before this handler makes the publisher wait; `None` if it never does.
    /// Whether it does must not change.
    fn room(&self) -> Option<usize> {
        None
    }

    /// Drops them, and keeps none from now on.
    fn release(&self);
}
