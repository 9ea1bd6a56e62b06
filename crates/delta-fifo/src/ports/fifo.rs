//! FIFO: an object queue in the order of arrival, which is a sink for a reflector.

use std::sync::Arc;

use kinformer_core::{
    Delta, Deltas, Error as SinkError, Object, ObjectKey, PartialErrors, Parts, ReadyFuture, Replacement,
    Sink, Tombstone,
};
use smallvec::SmallVec;

use crate::incoming::{self, Incoming, Keyed};
use crate::ports::object_queue::{ObjectQueue, Order, State};
use crate::{Bound, Error};

/// A queue with one place per key, from which only the newest state is popped.
///
/// For consumers that process each object once, in its newest state, and ignore deletions: a deleted object leaves the
/// queue. Follows client-go 0.37 (`FIFO`): an object of the initial list counts as processed when it is popped.
#[doc(alias = "NewFIFO")]
pub type Fifo<T> = ObjectQueue<T, ByArrival>;

/// The order of a [`Fifo`]: keys in the order of their first states.
#[derive(Debug)]
pub struct ByArrival;

impl<T> Order<T> for ByArrival {
    type Priority = ();
    const NAME: &'static str = "Fifo";
    const KEEPS_PLACE: bool = true;

    fn priority(&self, _: &ObjectKey, _: &T) -> Result<(), SinkError> {
        Ok(())
    }
}

impl<T: Object> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> Fifo<T> {
    /// Creates an empty queue with the default bound, 10,000 keys.
    pub fn new() -> Self {
        Self::with_bound(Bound::default())
    }

    /// Creates an empty queue with this bound, which counts keys.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::{Bound, Fifo};
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let queue = Fifo::with_bound(Bound::Deltas(1));
    /// queue.add(pod("web-0", 1))?;
    /// assert!(queue.add(pod("web-1", 1)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_bound(bound: Bound) -> Self {
        Self::with_order(ByArrival, bound.limit())
    }

    /// Removes an object from the queue.
    ///
    /// # Errors
    /// The key is invalid, its accessor panicked, or the queue is closed. Nothing has changed.
    pub fn delete(&self, tombstone: impl Into<Tombstone<Arc<T>>>) -> Result<PartialErrors, SinkError> {
        Sink::apply(self, Delta::Deleted(tombstone.into()).into())?.require_applied()
    }

    /// Replaces all queued objects with those of the list.
    ///
    /// # Errors
    /// The queue is closed. Nothing has changed.
    pub fn replace(&self, replacement: Replacement<T>) -> Result<PartialErrors, SinkError> {
        Sink::apply(self, Delta::ReplacedAll(Box::new(replacement)).into())
    }

    /// Returns whether everything from the first replace has been popped or has left the queue otherwise.
    pub fn has_synced(&self) -> bool {
        self.shared.state.lock().has_synced()
    }

    /// Waits until [`Self::has_synced`] returns `true`. Any number of tasks may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the queue, and a later call returns at once if it has synced.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue was closed before it could sync.
    pub async fn synced(&self) -> Result<(), Error> {
        let attempt = || {
            let state = self.shared.state.lock();
            match state.has_synced() {
                true => Some(Ok(())),
                false => (state.closed && !state.populated).then_some(Err(Error::Closed)),
            }
        };
        self.shared.changed.wait(attempt).await
    }
}

/// A prepared write: all user code has run, only the lock is still needed.
enum Write<T> {
    Put(ObjectKey, Arc<T>),
    Remove(ObjectKey),
    Replace(Keyed<T>),
}

impl<T: Object> Write<T> {
    fn of(delta: Delta<T>, errors: &mut PartialErrors) -> Result<Option<Self>, SinkError> {
        Ok(Some(match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                Self::Put(incoming::key(|| object.key())?, object)
            }
            Delta::Deleted(tombstone) => Self::Remove(incoming::key(|| tombstone.key())?),
            Delta::ReplacedAll(list) => {
                let mut list = Incoming::new((None, &Parts::one()), *list).keyed();
                errors.extend(std::mem::take(&mut list.errors));
                Self::Replace(list)
            }
            // A FIFO has no known objects to re-deliver and no version.
            _ => return Ok(None),
        }))
    }

    /// Applies the write. The displaced objects must be dropped after the lock is released.
    fn apply(self, state: &mut State<T, ByArrival>, displaced: &mut Vec<Arc<T>>) {
        match self {
            Self::Put(key, object) => displaced.extend(state.put(key, (), object, false)),
            Self::Remove(key) => {
                state.populated = true;
                displaced.extend(state.remove(&key));
            }
            Self::Replace(Keyed { objects, all, is_complete, .. }) => {
                let initial = !std::mem::replace(&mut state.populated, true);
                let missing = state.keys().filter(|key| is_complete && !all.contains_key(*key));
                let missing: Vec<ObjectKey> = missing.cloned().collect();
                displaced.extend(missing.iter().filter_map(|key| state.remove(key)));
                for (key, object) in objects {
                    displaced.extend(state.put(key, (), object, initial));
                }
            }
        }
    }
}

/// A resync and a bookmark queue nothing. A list and a deletion are accepted even if the queue is full.
impl<T: Object> Sink<T> for Fifo<T> {
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, SinkError> {
        let (mut writes, mut errors) = (SmallVec::<[Write<T>; 1]>::new(), PartialErrors::default());
        for (index, delta) in deltas.into_iter().enumerate() {
            match Write::of(delta, &mut errors) {
                Ok(write) => writes.extend(write),
                Err(error) => errors.push(error.with_index(index)),
            }
        }
        if writes.is_empty() {
            return Ok(errors);
        }
        let limit = self.shared.limit;
        self.write(|state, displaced| {
            let refused = writes.iter().find_map(|write| match write {
                Write::Put(key, _) if state.refuses(key, limit) => Some(key.clone()),
                _ => None,
            });
            if refused.is_some() {
                return Err(SinkError::Full { key: refused, limit });
            }
            writes.drain(..).for_each(|write| write.apply(state, displaced));
            Ok(())
        })?;
        Ok(errors)
    }

    fn is_ready(&self) -> bool {
        let state = self.shared.state.lock();
        state.closed || state.has_room(self.shared.limit)
    }

    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(self.shared.changed.wait(|| self.is_ready().then_some(())))
    }
}
