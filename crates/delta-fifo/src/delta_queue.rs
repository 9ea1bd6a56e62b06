//! The delta queue. DeltaFIFO and RealFIFO are its two kinds.

use std::slice;
use std::sync::Arc;

use foldhash::fast::RandomState;
use kinformer_core::{
    Delta, Deltas, Error as SinkError, KnownObjects, Object, PartialErrors, Parts, ReadyFuture, Replacement,
    ResourceVersion, Sink, Tombstone, Transform,
};

use crate::backlog::Backlog;
use crate::known::Known;
use crate::queue::BoxFuture;
use crate::shared::Shared;
use crate::writes::{Settings, Write};
use crate::{Bound, DeltaQueueMetrics, Error, Popped, Queue};

/// A queue of deltas with one or more consumers: a [`DeltaFifo`](crate::DeltaFifo) or a [`RealFifo`](crate::RealFifo),
/// depending on its backlog `B`.
///
/// A clone is another handle to the same queue.
pub struct DeltaQueue<T: Object, B> {
    pub(crate) shared: Arc<Shared<T, B>>,
    pub(crate) settings: Arc<Settings<T>>,
}

/// Builds a [`DeltaFifo`](crate::DeltaFifo) or a [`RealFifo`](crate::RealFifo).
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_delta_fifo::{Bound, DeltaFifo, Keyed, KnownObjects};
///
/// # fn example(store: Arc<dyn KnownObjects<Keyed<u16>>>) {
/// let queue = DeltaFifo::builder()
///     .known_objects(store) // the store of the consumer, in which a list finds deleted objects
///     .bound(Bound::Deltas(1_000))
///     .build();
/// assert_eq!(queue.depth(), 0);
/// # }
/// ```
#[must_use]
pub struct DeltaQueueBuilder<T, B> {
    known: Option<Known<T>>,
    transform: Option<Transform<T>>,
    bound: Bound,
    parts: Parts<T>,
    pub(crate) backlog: B,
}

impl<T: Object, B: Backlog<T>> DeltaQueueBuilder<T, B> {
    /// Sets the objects that the consumer already knows, usually the store that it fills. A
    /// [`RealFifo`](crate::RealFifo) with known objects is not atomic.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Sets a transform, applied once to every object before it is queued.
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Sets the maximum number of queued deltas; 10,000 by default.
    pub fn bound(mut self, bound: Bound) -> Self {
        self.bound = bound;
        self
    }

    /// Divides the queued objects into parts, each with its own lists and version; undivided by default. The queue has
    /// synced once the first list of each part has been processed.
    pub fn parts(mut self, parts: Parts<T>) -> Self {
        self.parts = parts;
        self
    }

    /// Builds the queue, which is empty.
    pub fn build(self) -> DeltaQueue<T, B> {
        let Self { known, transform, bound, parts, mut backlog } = self;
        backlog.set_parts(parts.clone());
        let shared = Shared::new(backlog, bound, parts.clone());
        let settings = Settings {
            keyed: B::KEYED || known.is_some(),
            checks_deletions: B::KEYED,
            known,
            transform,
            parts,
            seed: RandomState::default(),
        };
        DeltaQueue { shared, settings: Arc::new(settings) }
    }
}

/// Constructors.
impl<T: Object, B: Backlog<T>> DeltaQueue<T, B> {
    /// Creates a queue without known objects.
    #[doc(alias("NewDeltaFIFO", "NewRealFIFO"))]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder for a queue with options.
    #[doc(alias("NewDeltaFIFOWithOptions", "NewRealFIFOWithOptions"))]
    pub fn builder() -> DeltaQueueBuilder<T, B> {
        DeltaQueueBuilder {
            known: None,
            transform: None,
            bound: Bound::default(),
            parts: Parts::one(),
            backlog: B::default(),
        }
    }
}

/// Writes, under their client-go names. None of them waits: a queue at its bound returns `Error::Full` and changes
/// nothing; [`Self::ready`] waits for room.
impl<T: Object, B: Backlog<T>> DeltaQueue<T, B> {
    /// Queues several deltas in one operation. See [`Sink::apply`].
    ///
    /// While there is any room, an operation is queued as a whole. Objects that are left out (invalid key, failed
    /// transform, panicking accessors) are in the returned errors. The final state of a deletion passes the transform
    /// as well; if the transform fails, the deletion is queued without a state and the error is returned.
    ///
    /// # Errors
    /// The queue is full or closed, or the known objects panicked. Nothing has changed.
    pub fn apply(&self, deltas: impl Into<Deltas<T>>) -> Result<PartialErrors, SinkError> {
        let mut deltas = deltas.into();
        if deltas.len() == 1
            && let Some(delta) = deltas.pop()
        {
            return self.apply_one(delta);
        }
        let (mut writes, mut errors) = (Vec::with_capacity(deltas.len()), PartialErrors::default());
        for (index, delta) in deltas.into_iter().enumerate() {
            match self.settings.prepare(delta, &mut errors) {
                Ok(write) => writes.extend(write),
                Err(error) => errors.push(error.with_index(index)),
            }
        }
        self.write(&mut writes)?;
        Ok(errors)
    }

    fn apply_one(&self, delta: Delta<T>) -> Result<PartialErrors, SinkError> {
        let mut errors = PartialErrors::default();
        match self.settings.prepare(delta, &mut errors) {
            Ok(Some(ref mut write)) => self.write(slice::from_mut(write))?,
            Ok(None) => self.write(&mut [])?,
            Err(error) => {
                self.write(&mut [])?;
                errors.push(error);
            }
        }
        Ok(errors)
    }

    #[inline]
    fn write(&self, writes: &mut [Write<T>]) -> Result<(), SinkError> {
        match &self.settings.known {
            _ if writes.is_empty() => self.shared.check_open(),
            Some(known) if writes.iter().any(Write::needs_known) => self.shared.query_known(
                || {
                    writes.iter_mut().try_for_each(|write| write.read_known(known, &self.settings.parts))?;
                    Ok(writes)
                },
                |writes| self.shared.write(&self.settings, writes),
            ),
            _ => self.shared.write(&self.settings, writes),
        }
    }

    /// Queues an added object.
    ///
    /// ```
    /// # use kinformer_delta_fifo::*;
    /// # let port = |value: u16| Keyed::by(|_| "port", value);
    /// let queue = DeltaFifo::new();
    /// queue.add(port(80)?)?.into_result()?;
    /// assert!(matches!(&queue.try_pop()?.ok_or("empty")?[..], [Delta::Added(_)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The object was left out (invalid key, failed transform, panicking accessor, no part), or the queue is full or
    /// closed. Nothing has changed.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<PartialErrors, SinkError> {
        self.apply_one(Delta::Added(object.into()))?.require_applied()
    }

    /// Queues an updated object.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<PartialErrors, SinkError> {
        self.apply_one(Delta::Updated(object.into()))?.require_applied()
    }

    /// Queues a deletion.
    ///
    /// # Errors
    /// The key is invalid, an accessor panicked, the queue is full or closed, or the known objects panicked. Nothing
    /// has changed.
    pub fn delete(&self, tombstone: impl Into<Tombstone<Arc<T>>>) -> Result<PartialErrors, SinkError> {
        self.apply_one(Delta::Deleted(tombstone.into()))?.require_applied()
    }

    /// Replaces all objects with those of the list. See [`Sink`].
    ///
    /// ```
    /// # use kinformer_delta_fifo::*;
    /// # let port = |value: u16| Keyed::by(|_| "port", value);
    /// let queue = DeltaFifo::new();
    /// queue.add(port(80)?)?.into_result()?;
    /// queue.replace(Replacement::new(Vec::new(), "7"))?.into_result()?;
    /// let popped = queue.try_pop()?.ok_or("empty")?;
    /// let types: Vec<String> = popped.iter().map(|delta| delta.delta_type().to_string()).collect();
    /// assert_eq!(types, ["Added", "Deleted"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The queue is full or closed, or the known objects panicked. Nothing has changed.
    pub fn replace(&self, replacement: Replacement<T>) -> Result<PartialErrors, SinkError> {
        self.apply_one(Delta::ReplacedAll(Box::new(replacement)))
    }

    /// Re-delivers every known object (resync).
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn resync(&self) -> Result<(), SinkError> {
        self.apply_one(Delta::SyncAll).map(drop)
    }

    /// Advances the version of an undivided queue: its source has reached this version without a change. An atomic
    /// [`RealFifo`](crate::RealFifo) queues it in order with all other deltas; any other queue, or a full one, only
    /// updates the [versions](Popped::versions).
    ///
    /// # Errors
    /// The queue is closed. Nothing has changed.
    /// Closed. Nothing has changed.
    #[doc(alias = "EmitDeltaTypeBookmark")]
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) -> Result<(), SinkError> {
        self.apply_one(Delta::bookmark(version)).map(drop)
    }

    /// Returns whether there is room, or the queue is closed.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    /// Waits until there is room or the queue is closed. Another producer may use the room first.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait reserves no room, and a later call checks again.
    pub async fn ready(&self) {
        self.shared.ready().await;
    }

    /// Like [`Self::ready`], but blocks the thread.
    #[cfg(not(loom))]
    pub fn ready_blocking(&self) {
        _ = self.shared.ready_blocking(None);
    }

    /// Like [`Self::ready_blocking`], with a deadline.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`]: there was no room before the deadline.
    #[cfg(not(loom))]
    pub fn ready_blocking_until(&self, deadline: std::time::Instant) -> Result<(), Error> {
        self.shared.ready_blocking(Some(deadline))
    }
}

/// Pops. Deltas count as processed once their [`Popped`] is dropped.
impl<T: Object, B: Backlog<T>> DeltaQueue<T, B> {
    /// Waits for and pops the next entry: the delta at the front of a [`RealFifo`](crate::RealFifo), or all deltas of
    /// the key at the front of a [`DeltaFifo`](crate::DeltaFifo).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_delta_fifo::*;
    /// # let port = |value: u16| Keyed::by(|_| "port", value);
    /// let queue = DeltaFifo::new();
    /// queue.add(port(80)?)?.into_result()?;
    /// assert_eq!(queue.pop().await?.len(), 1);
    /// queue.close();
    /// assert!(queue.pop().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is popped before the future completes. Dropping it leaves every delta in the queue, so it can be wrapped
    /// in `tokio::time::timeout` for a deadline. A completed pop is in the returned [`Popped`]; if that is dropped, its
    /// deltas count as processed and are not delivered again.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    pub async fn pop(&self) -> Result<Popped<T>, Error> {
        self.shared.pop(1).await
    }

    /// Waits for and pops up to `max` distinct keys. A batch ends at a repeated key, at a delta that concerns all
    /// objects, and at the end of the initial list. 1,000 is a good size.
    ///
    /// # Cancel safety
    /// As for [`Self::pop`].
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    pub async fn pop_batch(&self, max: usize) -> Result<Popped<T>, Error> {
        self.shared.pop(max).await
    }

    /// Like [`Self::pop`], without waiting; `None` if there is nothing to pop.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    pub fn try_pop(&self) -> Result<Option<Popped<T>>, Error> {
        self.shared.try_pop(1)
    }

    /// Like [`Self::pop_batch`], without waiting; `None` if there is nothing to pop.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    pub fn try_pop_batch(&self, max: usize) -> Result<Option<Popped<T>>, Error> {
        self.shared.try_pop(max)
    }

    /// Like [`Self::pop`], but blocks the thread.
    ///
    /// ```
    /// # use kinformer_delta_fifo::*;
    /// # let port = |value: u16| Keyed::by(|_| "port", value);
    /// let queue = DeltaFifo::new();
    /// queue.add(port(80)?)?.into_result()?;
    /// assert_eq!(queue.pop_blocking()?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    #[cfg(not(loom))]
    pub fn pop_blocking(&self) -> Result<Popped<T>, Error> {
        self.shared.pop_blocking(1, None)
    }

    /// Like [`Self::pop_blocking`], with a deadline.
    ///
    /// ```
    /// # use kinformer_delta_fifo::*;
    /// # use std::time::Instant;
    /// let queue = DeltaFifo::<Keyed<u16>>::new();
    /// assert!(matches!(queue.pop_blocking_until(Instant::now()), Err(Error::DeadlineExceeded)));
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty. [`Error::DeadlineExceeded`]: nothing was queued before the
    /// deadline.
    #[cfg(not(loom))]
    pub fn pop_blocking_until(&self, deadline: std::time::Instant) -> Result<Popped<T>, Error> {
        self.shared.pop_blocking(1, Some(deadline))
    }

    /// Like [`Self::pop_batch`], but blocks the thread.
    ///
    /// ```
    /// # use kinformer_delta_fifo::*;
    /// # let port = |value: u16| Keyed::by(|port: &u16| port.to_string(), value);
    /// let queue = RealFifo::new();
    /// queue.add(port(80)?)?.into_result()?;
    /// queue.add(port(443)?)?.into_result()?;
    /// assert_eq!(queue.pop_batch_blocking(10)?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    #[cfg(not(loom))]
    pub fn pop_batch_blocking(&self, max: usize) -> Result<Popped<T>, Error> {
        self.shared.pop_blocking(max, None)
    }

    /// Like [`Self::pop_batch_blocking`], with a deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty. [`Error::DeadlineExceeded`]: nothing was queued before the
    /// deadline.
    #[cfg(not(loom))]
    pub fn pop_batch_blocking_until(
        &self,
        max: usize,
        deadline: std::time::Instant,
    ) -> Result<Popped<T>, Error> {
        self.shared.pop_blocking(max, Some(deadline))
    }

    /// Returns whether everything from the first replace of each part has been processed. `false` before the first
    /// write; `true` immediately if the first write was a single object.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Waits until [`Self::has_synced`] returns `true`. Any number of tasks may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the queue, and a later call returns at once if it has synced.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue was closed before it could sync.
    pub async fn synced(&self) -> Result<(), Error> {
        self.shared.synced().await
    }

    /// Like [`Self::synced`], but blocks the thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue was closed before it could sync.
    #[cfg(not(loom))]
    pub fn synced_blocking(&self) -> Result<(), Error> {
        self.shared.synced_blocking(None)
    }

    /// Like [`Self::synced_blocking`], with a deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue was closed before it could sync. [`Error::DeadlineExceeded`]: it had not synced
    /// before the deadline.
    #[cfg(not(loom))]
    pub fn synced_blocking_until(&self, deadline: std::time::Instant) -> Result<(), Error> {
        self.shared.synced_blocking(Some(deadline))
    }

    /// Closes the queue: it rejects writes, its remaining deltas can still be popped, and all waiters wake. Returns
    /// whether it was open; closing again has no effect.
    ///
    /// ```
    /// # use kinformer_delta_fifo::*;
    /// # let port = |value: u16| Keyed::by(|_| "port", value);
    /// let queue = DeltaFifo::new();
    /// queue.add(port(80)?)?.into_result()?;
    /// assert!(queue.close());
    /// assert!(queue.add(port(81)?).is_err());
    /// assert!(queue.try_pop()?.is_some()); // the rest can still be popped
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Returns the number of queued deltas. Limited by the bound.
    pub fn depth(&self) -> usize {
        self.shared.lock().backlog.depth()
    }

    /// Returns the metrics of the queue.
    pub fn metrics(&self) -> DeltaQueueMetrics {
        self.shared.metrics()
    }
}

impl<T: Object, B: Backlog<T>> Sink<T> for DeltaQueue<T, B> {
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, SinkError> {
        DeltaQueue::apply(self, deltas)
    }

    fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(self.shared.ready())
    }
}

impl<T: Object, B: Backlog<T>> Queue<T> for DeltaQueue<T, B> {
    fn try_pop_batch(&self, max: usize) -> Result<Option<Popped<T>>, Error> {
        self.shared.try_pop(max)
    }

    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Result<Popped<T>, Error>> {
        Box::pin(self.shared.pop(max))
    }

    fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.shared.synced())
    }

    fn close(&self) -> bool {
        self.shared.close()
    }

    fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    fn depth(&self) -> usize {
        self.shared.lock().backlog.depth()
    }

    fn metrics(&self) -> DeltaQueueMetrics {
        self.shared.metrics()
    }
}

impl<T: Object, B: Backlog<T>> Default for DeltaQueue<T, B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object, B> Clone for DeltaQueue<T, B> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), settings: self.settings.clone() }
    }
}

impl<T: Object, B: Backlog<T>> std::fmt::Debug for DeltaQueue<T, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(B::NAME)
            .field("depth", &self.depth())
            .field("has_synced", &self.has_synced())
            .field("is_closed", &self.is_closed())
            .finish()
    }
}
