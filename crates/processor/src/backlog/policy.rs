//! The interface of a buffer policy: a [`Backlog`], created from [`Reading`].

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::listener::Task;
use crate::log_reader::LogReader;
use crate::undelivered::{Next, Undelivered};

/// What a policy creates a backlog from.
pub(crate) struct Reading<T> {
    pub(crate) reader: LogReader<T>,
    /// The name of the handler.
    pub(crate) name: Arc<str>,
    /// Cancelled when the handler must stop.
    pub(crate) stop: CancellationToken,
    /// Wakes the publishers that wait for [room](Undelivered::room).
    pub(crate) space: Arc<Notify>,
}

/// A backlog, and the task that must run beside its handler, if the policy has one.
pub(crate) struct Opened<T> {
    pub(crate) backlog: Box<dyn Backlog<T>>,
    pub(crate) task: Option<Task>,
}

/// The delivering half of a handler's undelivered events, as kept by a buffer policy. The other half, which any thread
/// may use, is [`Undelivered`].
pub(crate) trait Backlog<T>: Send {
    /// Returns the next event. The previous event has been processed and is dropped.
    fn next(&mut self) -> Next<'_, T>;

    /// Drops the event that was returned last, which a [release](Undelivered::release) cannot drop. Must be called
    /// before each wait for the next event.
    fn drop_previous(&mut self);

    /// Ready when there may be an event, or when the backlog is closed. May wake spuriously; a release need not wake.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Returns whether no further events will be published. Undelivered events may remain.
    fn is_closed(&self) -> bool;

    /// Returns the shared half.
    fn undelivered(&self) -> Arc<dyn Undelivered>;
}
