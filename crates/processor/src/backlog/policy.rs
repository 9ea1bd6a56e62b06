//! What each buffer policy is: a [`Backlog`], made of the same parts.

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::listener::Task;
use crate::log_reader::LogReader;
use crate::undelivered::{Next, Undelivered};

/// What a backlog is made of.
pub(crate) struct Parts<T> {
    pub(crate) reader: LogReader<T>,
    /// The name of the handler.
    pub(crate) name: Arc<str>,
    /// Cancelled when the handler is to stop.
    pub(crate) stop: CancellationToken,
    /// Wakes the publishers that wait for [room](Undelivered::room).
    pub(crate) space: Arc<Notify>,
}

/// A backlog, and what has to run beside its handler, if anything has to.
pub(crate) struct Opened<T> {
    pub(crate) backlog: Box<dyn Backlog<T>>,
    pub(crate) task: Option<Task>,
}

/// The undelivered events of one handler, as a buffer policy keeps them: the half that delivers. The other half, which
/// any thread may use, is [`Undelivered`].
pub(crate) trait Backlog<T>: Send {
    /// The next event. The one before has been processed, and is dropped.
    fn next(&mut self) -> Next<'_, T>;

    /// Drops the event that was returned last. To be called wherever the next one may be long in coming, since a
    /// [release](Undelivered::release) cannot reach that event.
    fn rest(&mut self);

    /// Ready when there may be an event, or nothing will be published any more. May wake spuriously; a release need not
    /// wake.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Whether nothing will be published any more, apart from what waits.
    fn is_closed(&self) -> bool;

    /// The half that is shared.
    fn undelivered(&self) -> Arc<dyn Undelivered>;
}
