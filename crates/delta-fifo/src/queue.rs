//! What all delta queues have in common, for code that takes either.

use std::future::Future;
use std::pin::Pin;

use kinformer_core::{Object, Sink};

use crate::{Error, Popped, Stats};

/// A boxed future, as methods of a trait object return it.
pub type BoxFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// A queue of deltas: producers write into it as a [`Sink`], a consumer pops.
///
/// Object-safe, so that a controller can take a [`DeltaFifo`](crate::DeltaFifo) or a
/// [`RealFifo`](crate::RealFifo) as the same `Arc<dyn Queue<T>>`. Follows client-go 1.37 (`QueueWithBatch`),
/// except that a pop gives out what it popped instead of processing it under the queue's lock.
pub trait Queue<T: Object>: Sink<T> {
    /// Pops what is there for up to `max` distinct keys, without waiting; `None` when there is nothing.
    ///
    /// # Errors
    /// [`Error::Closed`]: nothing is there and nothing will come.
    fn try_pop_batch(&self, max: usize) -> Result<Option<Popped<T>>, Error>;

    /// As [`Self::try_pop_batch`], waiting until there is something. Cancel-safe: dropped while it waits, it
    /// has taken nothing.
    ///
    /// The future is boxed; a consumer that tries first pays for that only when it has to wait.
    ///
    /// # Errors
    /// [`Error::Closed`]: nothing is there and nothing will come.
    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Result<Popped<T>, Error>>;

    /// Whether everything that the first replace brought has been processed. False while nothing was written;
    /// true at once if an object was written first.
    fn has_synced(&self) -> bool;

    /// Waits for [`Self::has_synced`]. Any number may wait. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::Closed`]: it has not synced and will not.
    fn synced(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Closes the queue: it takes nothing more, what is in it can still be popped, and everyone who waits
    /// wakes. Says whether it was open; closing again changes nothing.
    fn close(&self) -> bool;

    /// Whether the queue was closed.
    fn is_closed(&self) -> bool;

    /// How many deltas are queued.
    fn depth(&self) -> usize;

    /// What the queue holds and has done, for metrics.
    fn stats(&self) -> Stats;
}
