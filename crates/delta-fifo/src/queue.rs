//! The interface that all delta queues share.

use std::future::Future;
use std::pin::Pin;

use kinformer_core::{Object, Sink};

use crate::{DeltaQueueMetrics, Error, Popped};

/// A boxed future, the return type of async methods of a trait object.
pub type BoxFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// A queue of deltas: producers write into it as a [`Sink`], a consumer pops.
///
/// Object-safe, so that a controller can take a [`DeltaFifo`](crate::DeltaFifo) or a [`RealFifo`](crate::RealFifo) as
/// the same `Arc<dyn Queue<T>>`. Follows client-go 0.37 (`QueueWithBatch`), except that a pop returns the deltas
/// instead of processing them under the queue's lock.
#[doc(alias = "QueueWithBatch")]
pub trait Queue<T: Object>: Sink<T> {
    /// Pops queued deltas of up to `max` distinct keys, without waiting; `None` if there is nothing to pop.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    fn try_pop_batch(&self, max: usize) -> Result<Option<Popped<T>>, Error>;

    /// Waits until the queue is not empty, then pops like [`Self::try_pop_batch`].
    ///
    /// The future is boxed. A consumer that calls [`Self::try_pop_batch`] first allocates only when it has to wait.
    ///
    /// # Cancel safety
    /// Nothing is popped before the future completes. Dropping it leaves every delta in the queue.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Result<Popped<T>, Error>>;

    /// Returns whether everything from the first replace has been processed. `false` before the first write; `true`
    /// immediately if the first write was a single object.
    fn has_synced(&self) -> bool;

    /// Waits until [`Self::has_synced`] returns `true`. Any number of tasks may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the queue, and a later call returns at once if it has synced.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue was closed before it could sync.
    fn synced(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Closes the queue: it rejects writes, its remaining deltas can still be popped, and all waiters wake. Returns
    /// whether it was open; closing again has no effect.
    fn close(&self) -> bool;

    /// Returns whether the queue is closed.
    fn is_closed(&self) -> bool;

    /// Returns the number of queued deltas.
    fn depth(&self) -> usize;

    /// Returns the metrics of the queue.
    fn metrics(&self) -> DeltaQueueMetrics;
}
