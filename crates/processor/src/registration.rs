//! The handle of a handler that was added.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::listener::{HandlerMetrics, Listener};
use crate::listeners::{Listeners, forget};
use crate::own_code;

/// A handler that was added: its statistics, waits for it, its removal.
///
/// Cheap to clone. Dropping it changes nothing: the handler goes on until it is removed or its processor stops.
///
/// Follows client-go 1.37 (`ResourceEventHandlerRegistration`).
#[derive(Clone)]
pub struct Registration {
    pub(crate) listener: Arc<Listener>,
    /// Those of its processor.
    pub(crate) listeners: Weak<Listeners>,
}

impl Registration {
    /// The name of the handler.
    pub fn name(&self) -> &str {
        &self.listener.name
    }

    /// Whether its processor has synced and the handler has processed the whole initial list. An event in which it
    /// panicked is processed.
    pub fn has_synced(&self) -> bool {
        self.listener.synced.is_cancelled()
    }

    /// Waits for [`Self::has_synced`]. Cancel-safe; any number may wait.
    ///
    /// # Errors
    /// [`Error::Ended`]: the handler ended first.
    pub async fn synced(&self) -> Result<(), Error> {
        let listener = &self.listener;
        tokio::select! {
            biased;
            () = listener.synced.cancelled() => Ok(()),
            () = listener.stop.cancelled() => {
                Err(Error::Ended { handler: listener.name.clone(), depth: listener.left() })
            }
        }
    }

    /// As [`Self::synced`], until a deadline.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`] as well, which names the handler and how far it is behind.
    pub async fn synced_until(&self, deadline: Instant) -> Result<(), Error> {
        tokio::time::timeout_at(deadline, self.synced()).await.unwrap_or_else(|_| {
            let metrics = self.listener.metrics();
            Err(Error::DeadlineExceeded { handler: metrics.name, depth: metrics.depth, stuck: metrics.stuck })
        })
    }

    /// The period of its resyncs, if there are any.
    pub fn resync_period(&self) -> Option<Duration> {
        self.listener.resync_period
    }

    /// Its statistics.
    pub fn metrics(&self) -> HandlerMetrics {
        self.listener.metrics()
    }

    /// Removes the handler. It is removed by the call; the future, which need not be awaited, ends when the
    /// callback that was running has returned, so that nothing is delivered after that. Idempotent, and fine at
    /// any time, after the end of the processor as well: it then waits for a callback that did not return within the
    /// grace period.
    ///
    /// Awaited within a callback of the very handler, its filter or its `Drop`, it ends at once, since it would wait for
    /// itself. A callback that waits for something else which awaits the removal (another thread or task) does wait for
    /// itself. Cancel-safe.
    pub fn remove(&self) -> impl Future<Output = ()> + Send + 'static {
        let Self { listener, listeners } = self.clone();
        listener.remove();
        forget(&listeners, &listener);
        async move {
            let mut done = pin!(listener.done.cancelled());
            // Checked with each poll: the future may have been passed to the callback.
            let waited = poll_fn(|context| match done.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if own_code::is_of(&listener) => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            });
            if waited.await {
                // Its own end may not have come to this yet.
                forget(&listeners, &listener);
            }
        }
    }

    /// Whether it was removed, or has come to its end with its processor.
    pub fn is_removed(&self) -> bool {
        self.listener.is_stopped()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}
