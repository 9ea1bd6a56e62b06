//! The queue of deltas. DeltaFIFO and RealFIFO are its two kinds.

use std::sync::Arc;

use foldhash::fast::RandomState;
use kinformer_core::{
    Delta, Deltas, Error as SinkError, KnownObjects, Object, Parts, ReadyFuture, Replacement, Report,
    ResourceVersion, Sink, Tombstone, Transform,
};

use crate::backlog::Backlog;
use crate::known::Known;
use crate::queue::BoxFuture;
use crate::shared::Shared;
use crate::writes::Settings;
use crate::{Bound, Error, Popped, Queue, Stats};

/// A queue of deltas with one consumer or more: a [`DeltaFifo`](crate::DeltaFifo) or a
/// [`RealFifo`](crate::RealFifo), which differ in what they keep, `B`.
///
/// A clone is another handle to the same queue.
pub struct DeltaQueue<T: Object, B> {
    pub(crate) shared: Arc<Shared<T, B>>,
    pub(crate) settings: Arc<Settings<T>>,
}

/// Builds a [`DeltaFifo`](crate::DeltaFifo) or a [`RealFifo`](crate::RealFifo).
#[must_use]
pub struct DeltaQueueBuilder<T, B> {
    known: Option<Known<T>>,
    transform: Option<Transform<T>>,
    bound: Bound,
    parts: Parts<T>,
    pub(crate) backlog: B,
}

impl<T: Object, B: Backlog<T>> DeltaQueueBuilder<T, B> {
    /// What the consumer knows already, usually the store that it fills. A [`RealFifo`](crate::RealFifo) with known
    /// objects is not atomic.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Every object passes this once before it is queued.
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// How many deltas the queue takes; 10,000 by default.
    pub fn bound(mut self, bound: Bound) -> Self {
        self.bound = bound;
        self
    }

    /// How what is queued is divided into parts, each with lists and a version of its own; it is not by default. The queue
    /// has synced when the first list of each part has been processed.
    pub fn parts(mut self, parts: Parts<T>) -> Self {
        self.parts = parts;
        self
    }

    /// The queue, empty.
    pub fn build(self) -> DeltaQueue<T, B> {
        let Self { known, transform, bound, parts, mut backlog } = self;
        backlog.set_parts(parts.clone());
        let shared = Shared::new(backlog, bound, parts.clone());
        let settings = Settings {
            keyed: B::KEYED || known.is_some(),
            hashed: !B::KEYED,
            checks_deletions: B::KEYED,
            known,
            transform,
            parts,
            seed: RandomState::default(),
        };
        DeltaQueue { shared, settings: Arc::new(settings) }
    }
}

/// Making.
impl<T: Object, B: Backlog<T>> DeltaQueue<T, B> {
    /// A queue without known objects.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with options.
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

/// Writing, by client-go's names. Nothing here waits: at the bound, operations fail with `Error::Full` and change
/// nothing; [`Self::ready`] waits for room.
impl<T: Object, B: Backlog<T>> DeltaQueue<T, B> {
    /// Queues several deltas in one operation. See [`Sink::apply`].
    ///
    /// An operation is queued whole as long as there is any room. What is left out (no valid key, a failed transform,
    /// accessors that panic) is in the report. The final state in a deletion passes the transform; if that fails, the
    /// deletion is queued without a state, and the report says so.
    ///
    /// # Errors
    /// Full, closed, known objects that panic. Nothing has changed.
    pub fn apply(&self, deltas: impl Into<Deltas<T>>) -> Result<Report, SinkError> {
        let (writes, report) = self.settings.prepare(deltas.into());
        match &self.settings.known {
            _ if writes.is_empty() => self.shared.check_open()?,
            Some(known) if writes.iter().any(|write| write.asks()) => self.shared.ask(
                || {
                    let mut writes = writes;
                    writes.iter_mut().try_for_each(|write| write.ask(known, &self.settings.parts))?;
                    Ok(writes)
                },
                |writes| self.shared.write(&self.settings, writes),
            )?,
            _ => self.shared.write(&self.settings, writes)?,
        }
        Ok(report)
    }

    /// The object was added.
    ///
    /// # Errors
    /// No valid key, a failed transform, full, closed. Nothing has changed.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<Report, SinkError> {
        self.apply(Delta::Added(object.into()))?.of_one()
    }

    /// The object was changed.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<Report, SinkError> {
        self.apply(Delta::Updated(object.into()))?.of_one()
    }

    /// The object is gone.
    ///
    /// # Errors
    /// No valid key, full, closed, known objects that panic. Nothing has changed.
    pub fn delete(&self, tombstone: impl Into<Tombstone<Arc<T>>>) -> Result<Report, SinkError> {
        self.apply(Delta::Deleted(tombstone.into()))?.of_one()
    }

    /// From now on there is exactly what this list holds. See [`Sink`].
    ///
    /// # Errors
    /// Full, closed, known objects that panic. Nothing has changed.
    pub fn replace(&self, replacement: Replacement<T>) -> Result<Report, SinkError> {
        self.apply(Delta::ReplacedAll(Box::new(replacement)))
    }

    /// Every known object is to be delivered again.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn resync(&self) -> Result<(), SinkError> {
        self.apply(Delta::SyncAll).map(drop)
    }

    /// The source, of a queue that is not divided into parts, has reached this version without a change. An atomic [`RealFifo`](crate::RealFifo) queues it in order
    /// with everything else; any other queue, and one that is full, only moves the [version](Popped::versions).
    ///
    /// # Errors
    /// Closed. Nothing has changed.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) -> Result<(), SinkError> {
        self.apply(Delta::bookmark(version)).map(drop)
    }

    /// Whether there is room, or the queue is closed.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    /// Waits until there is room, or the queue is closed. Cancel-safe. Another producer may be faster.
    pub async fn ready(&self) {
        self.shared.ready().await;
    }

    /// As [`Self::ready`], blocking the thread.
    #[cfg(not(loom))]
    pub fn ready_blocking(&self) {
        _ = self.shared.ready_blocking(None);
    }

    /// As [`Self::ready_blocking`], but not beyond the deadline.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`].
    #[cfg(not(loom))]
    pub fn ready_blocking_until(&self, deadline: std::time::Instant) -> Result<(), Error> {
        self.shared.ready_blocking(Some(deadline))
    }
}

/// Popping. What is popped counts as processed when the [`Popped`] is dropped.
impl<T: Object, B: Backlog<T>> DeltaQueue<T, B> {
    /// The next of the queue: the delta at the front of a [`RealFifo`](crate::RealFifo), all deltas of the key at the
    /// front of a [`DeltaFifo`](crate::DeltaFifo). Waits until there is something. Cancel-safe: dropped while it waits, it has taken nothing; so a
    /// deadline is `tokio::time::timeout` or the like around it.
    ///
    /// # Errors
    /// [`Error::Closed`]: everything has been popped and nothing will come.
    pub async fn pop(&self) -> Result<Popped<T>, Error> {
        self.shared.pop(1).await
    }

    /// As [`Self::pop`], for up to `max` distinct keys at once: it ends at a repeated key, at a delta
    /// that is about all objects, and with the initial list. 1,000 is a good size.
    ///
    /// # Errors
    /// [`Error::Closed`]: everything has been popped and nothing will come.
    pub async fn pop_batch(&self, max: usize) -> Result<Popped<T>, Error> {
        self.shared.pop(max).await
    }

    /// As [`Self::pop`], without waiting; `None` when there is nothing.
    ///
    /// # Errors
    /// [`Error::Closed`]: everything has been popped and nothing will come.
    pub fn try_pop(&self) -> Result<Option<Popped<T>>, Error> {
        self.shared.try_pop(1)
    }

    /// As [`Self::pop_batch`], without waiting; `None` when there is nothing.
    ///
    /// # Errors
    /// [`Error::Closed`]: everything has been popped and nothing will come.
    pub fn try_pop_batch(&self, max: usize) -> Result<Option<Popped<T>>, Error> {
        self.shared.try_pop(max)
    }

    /// As [`Self::pop`], blocking the thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: everything has been popped and nothing will come.
    #[cfg(not(loom))]
    pub fn pop_blocking(&self) -> Result<Popped<T>, Error> {
        self.shared.pop_blocking(1, None)
    }

    /// As [`Self::pop_blocking`], but not beyond the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::DeadlineExceeded`].
    #[cfg(not(loom))]
    pub fn pop_blocking_until(&self, deadline: std::time::Instant) -> Result<Popped<T>, Error> {
        self.shared.pop_blocking(1, Some(deadline))
    }

    /// As [`Self::pop_batch`], blocking the thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: everything has been popped and nothing will come.
    #[cfg(not(loom))]
    pub fn pop_batch_blocking(&self, max: usize) -> Result<Popped<T>, Error> {
        self.shared.pop_blocking(max, None)
    }

    /// As [`Self::pop_batch_blocking`], but not beyond the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::DeadlineExceeded`].
    #[cfg(not(loom))]
    pub fn pop_batch_blocking_until(
        &self,
        max: usize,
        deadline: std::time::Instant,
    ) -> Result<Popped<T>, Error> {
        self.shared.pop_blocking(max, Some(deadline))
    }

    /// Whether everything that the first replace, of each part, brought has been processed. False while nothing was
    /// written; true at once if an object was written first.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Waits for [`Self::has_synced`]. Any number may wait. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::Closed`]: it has not synced and will not.
    pub async fn synced(&self) -> Result<(), Error> {
        self.shared.synced().await
    }

    /// As [`Self::synced`], blocking the thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: it has not synced and will not.
    #[cfg(not(loom))]
    pub fn synced_blocking(&self) -> Result<(), Error> {
        self.shared.synced_blocking(None)
    }

    /// As [`Self::synced_blocking`], but not beyond the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::DeadlineExceeded`].
    #[cfg(not(loom))]
    pub fn synced_blocking_until(&self, deadline: std::time::Instant) -> Result<(), Error> {
        self.shared.synced_blocking(Some(deadline))
    }

    /// Closes the queue: it takes nothing more, what is in it can still be popped, and everyone who
    /// waits wakes. Says whether it was open; closing again changes nothing.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Whether the queue was closed.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// How many deltas are queued. What the bound is about.
    pub fn depth(&self) -> usize {
        self.shared.lock().backlog.depth()
    }

    /// What the queue holds and has done.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T: Object, B: Backlog<T>> Sink<T> for DeltaQueue<T, B> {
    fn apply(&self, deltas: Deltas<T>) -> Result<Report, SinkError> {
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

    fn stats(&self) -> Stats {
        self.shared.stats()
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
