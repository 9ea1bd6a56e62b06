//! FIFO: one place per key, with the newest state.

use std::collections::VecDeque;
use std::sync::Arc;

use kinformer_core::{
    Delta, Deltas, Error as SinkError, KeyRef, Object, ObjectKey, PartialErrors, Parts, ReadyFuture,
    Replacement, Sink, Tombstone,
};
use smallvec::SmallVec;

use crate::incoming::{self, Incoming, Keyed};
use crate::key_map::{KeyMap, Lookup, RETAINED, shrink};
use crate::sync::{Mutex, MutexGuard};
use crate::waiting::Condition;
use crate::{Bound, Error};

/// A queue with one place per key, from which only the newest state is popped.
///
/// For consumers that process each object once, in its newest state, and ignore deletions: a deleted object leaves the
/// queue. A clone is another handle to the same queue. Follows client-go 0.37 (`FIFO`): an object of the initial list
/// counts as processed when it is popped.
pub struct Fifo<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    items: Condition,
    room: Condition,
    synced: Condition,
    limit: usize,
}

struct State<T> {
    items: KeyMap<Entry<T>>,
    /// The keys in pop order. An entry is skipped if its key is no longer in `items`, or has a later ticket there.
    queue: VecDeque<(ObjectKey, u64)>,
    tickets: u64,
    populated: bool,
    /// Number of objects of the first replace that are still queued.
    initial: usize,
    closed: bool,
}

struct Entry<T> {
    object: Arc<T>,
    ticket: u64,
    initial: bool,
}

impl<T: Object> State<T> {
    /// Queues a state. Returns the state previously queued for the key.
    fn put(&mut self, key: ObjectKey, object: Arc<T>, initial: bool) -> Option<Arc<T>> {
        if let Some(entry) = self.items.get_mut(&key) {
            return Some(std::mem::replace(&mut entry.object, object));
        }
        self.tickets += 1;
        self.initial += usize::from(initial);
        self.queue.push_back((key.clone(), self.tickets));
        self.items.insert(key, Entry { object, ticket: self.tickets, initial });
        None
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<T>> {
        let entry = self.items.remove(key)?;
        self.initial -= usize::from(entry.initial);
        if self.items.is_empty() {
            self.queue.clear();
            self.queue.shrink_to(RETAINED);
            shrink(&mut self.items);
        } else if self.queue.len() > 2 * self.items.len() + RETAINED {
            let items = &self.items;
            self.queue.retain(|(key, ticket)| items.get(key).is_some_and(|entry| entry.ticket == *ticket));
        }
        Some(entry.object)
    }

    fn pop(&mut self) -> Option<Arc<T>> {
        while let Some((key, ticket)) = self.queue.pop_front() {
            if self.items.get(&key).is_some_and(|entry| entry.ticket == ticket) {
                return self.remove(&key);
            }
        }
        None
    }

    fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }
}

impl<T> Clone for Fifo<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
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
        let state = State {
            items: KeyMap::default(),
            queue: VecDeque::new(),
            tickets: 0,
            populated: false,
            initial: 0,
            closed: false,
        };
        let [items, room, synced] = std::array::from_fn(|_| Condition::new());
        let limit = bound.limit();
        Self { shared: Arc::new(Shared { state: Mutex::new(state), items, room, synced, limit }) }
    }

    /// Queues an object. If its key is queued already, the object replaces the older state in its place.
    ///
    /// # Errors
    /// The key is invalid, its accessor panicked, or the queue is full or closed. Nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Fifo;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let queue = Fifo::new();
    /// queue.add(pod("web-0", 1))?;
    /// queue.add(pod("web-1", 1))?;
    /// queue.add(pod("web-0", 2))?; // Takes the place of the first.
    /// assert_eq!(queue.try_pop()?, Some(pod("web-0", 2).into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<PartialErrors, SinkError> {
        Sink::apply(self, Delta::Added(object.into()).into())?.require_applied()
    }

    /// Equivalent to [`Self::add`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<PartialErrors, SinkError> {
        Sink::apply(self, Delta::Updated(object.into()).into())?.require_applied()
    }

    /// Queues an object unless its key is queued already, in which case the queued state is kept. For a consumer that
    /// puts back an object it could not process.
    ///
    /// # Errors
    /// As [`Self::add`].
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Fifo;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let queue = Fifo::new();
    /// queue.add(pod("web-0", 2))?;
    /// queue.add_if_not_present(pod("web-0", 1))?; // Put back after a failure: outdated by now.
    /// assert_eq!(queue.try_pop()?, Some(pod("web-0", 2).into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_if_not_present(&self, object: impl Into<Arc<T>>) -> Result<PartialErrors, SinkError> {
        self.put(object.into(), |state, key, object| match state.items.contains_key(&key) {
            true => Some(object),
            false => state.put(key, object, false),
        })
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

    /// Waits for and pops the next object.
    ///
    /// # Cancel safety
    /// Nothing is popped before the future completes. Dropping it leaves every object in the queue.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Fifo;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let queue = Fifo::new();
    /// let (next, added) = tokio::join!(queue.pop(), async { queue.add(pod("web-0", 1)) });
    /// assert_eq!(next?, pod("web-0", 1).into());
    /// # added?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pop(&self) -> Result<Arc<T>, Error> {
        self.shared.items.wait(|| self.try_pop().transpose()).await
    }

    /// Pops the next object, without waiting; `None` if the queue is empty.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Fifo;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let queue = Fifo::new();
    /// queue.add(pod("web-0", 1))?;
    /// assert_eq!(queue.try_pop()?, Some(pod("web-0", 1).into()));
    /// assert_eq!(queue.try_pop()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_pop(&self) -> Result<Option<Arc<T>>, Error> {
        let mut state = self.shared.state.lock();
        let was_full = state.items.len() >= self.shared.limit;
        let had_synced = state.has_synced();
        let Some(object) = state.pop() else {
            return if state.closed { Err(Error::Closed) } else { Ok(None) };
        };
        let drained = state.closed && state.items.is_empty();
        self.wake(state, was_full, had_synced);
        if drained {
            self.shared.items.notify();
        }
        Ok(Some(object))
    }

    /// Like [`Self::pop`], but blocks the thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    #[cfg(not(loom))]
    pub fn pop_blocking(&self) -> Result<Arc<T>, Error> {
        self.shared.items.wait_blocking(None, || self.try_pop().transpose())
    }

    /// Like [`Self::pop_blocking`], with a deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty. [`Error::DeadlineExceeded`]: nothing was queued before the
    /// deadline.
    #[cfg(not(loom))]
    pub fn pop_blocking_until(&self, deadline: std::time::Instant) -> Result<Arc<T>, Error> {
        self.shared.items.wait_blocking(Some(deadline), || self.try_pop().transpose())
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
        self.shared.synced.wait(attempt).await
    }

    /// Closes the queue: it rejects writes, its remaining objects can still be popped, and all waiters wake. Returns
    /// whether it was open.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Fifo;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let queue = Fifo::new();
    /// queue.add(pod("web-0", 1))?;
    /// assert!(queue.close());
    /// assert!(queue.add(pod("web-1", 1)).is_err());
    /// assert!(queue.try_pop()?.is_some());
    /// assert!(queue.try_pop().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) -> bool {
        let was_open = !std::mem::replace(&mut self.shared.state.lock().closed, true);
        self.shared.items.notify();
        self.shared.room.notify();
        self.shared.synced.notify();
        was_open
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().closed
    }

    /// Returns the number of queued keys.
    pub fn len(&self) -> usize {
        self.shared.state.lock().items.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the queued state of a key.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = Lookup(key.into());
        self.shared.state.lock().items.get(&key).map(|entry| entry.object.clone())
    }

    /// Returns the queued keys, in pop order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let state = self.shared.state.lock();
        let current = |(key, ticket): &&(ObjectKey, u64)| {
            state.items.get(key).is_some_and(|entry| entry.ticket == *ticket)
        };
        state.queue.iter().filter(current).map(|(key, _)| key.clone()).collect()
    }

    fn put(
        &self,
        object: Arc<T>,
        put: impl FnOnce(&mut State<T>, ObjectKey, Arc<T>) -> Option<Arc<T>>,
    ) -> Result<PartialErrors, SinkError> {
        let key = incoming::key(|| object.key())?;
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            return Err(SinkError::Closed);
        }
        if state.items.len() >= self.shared.limit && !state.items.contains_key(&key) {
            drop(state);
            return Err(SinkError::Full { key: Some(key), limit: self.shared.limit });
        }
        let had_synced = state.has_synced();
        state.populated = true;
        let dropped = put(&mut state, key, object);
        self.wake(state, false, had_synced);
        self.shared.items.notify();
        drop(dropped);
        Ok(PartialErrors::default())
    }

    /// Releases the lock, then wakes the waiters whose condition has changed.
    fn wake(&self, state: MutexGuard<'_, State<T>>, was_full: bool, had_synced: bool) {
        let room = was_full && state.items.len() < self.shared.limit;
        let synced = !had_synced && state.has_synced();
        drop(state);
        if room {
            self.shared.room.notify();
        }
        if synced {
            self.shared.synced.notify();
        }
    }
}

/// A prepared write: all user code has run, only the lock is still needed.
enum Write<T> {
    Put(ObjectKey, Arc<T>),
    Remove(ObjectKey),
    Replace(Keyed<T>),
}

impl<T: Object> Write<T> {
    fn of(delta: Delta<T>, position: usize, errors: &mut PartialErrors) -> Result<Option<Self>, SinkError> {
        Ok(Some(match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                Self::Put(incoming::key(|| object.key())?, object)
            }
            Delta::Deleted(tombstone) => Self::Remove(incoming::key(|| tombstone.key())?),
            Delta::ReplacedAll(list) => {
                let mut list = Incoming::new((None, &Parts::one()), *list).keyed();
                errors.extend_at(position, std::mem::take(&mut list.errors));
                Self::Replace(list)
            }
            // A FIFO has no known objects to re-deliver and no version.
            _ => return Ok(None),
        }))
    }
}

impl<T: Object> State<T> {
    /// Applies a write. The displaced objects must be dropped after the lock is released.
    fn write(&mut self, write: Write<T>, displaced: &mut Vec<Arc<T>>) {
        match write {
            Write::Put(key, object) => {
                self.populated = true;
                displaced.extend(self.put(key, object, false));
            }
            Write::Remove(key) => {
                self.populated = true;
                displaced.extend(self.remove(&key));
            }
            Write::Replace(Keyed { objects, all, is_complete, .. }) => {
                let initial = !std::mem::replace(&mut self.populated, true);
                let missing = self.items.keys().filter(|key| is_complete && !all.contains_key(*key));
                let missing: Vec<ObjectKey> = missing.cloned().collect();
                displaced.extend(missing.iter().filter_map(|key| self.remove(key)));
                for (key, object) in objects {
                    displaced.extend(self.put(key, object, initial));
                }
            }
        }
    }
}

/// A resync and a bookmark queue nothing. A list and a deletion are accepted even if the queue is full.
impl<T: Object> Sink<T> for Fifo<T> {
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, SinkError> {
        let (mut writes, mut errors) = (SmallVec::<[Write<T>; 1]>::new(), PartialErrors::default());
        let mut position = 0;
        for delta in deltas {
            let first = position;
            position += delta.positions();
            match Write::of(delta, first, &mut errors) {
                Ok(write) => writes.extend(write),
                Err(error) => errors.push(first, error),
            }
        }
        if writes.is_empty() {
            return Ok(errors);
        }
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            return Err(SinkError::Closed);
        }
        let was_full = state.items.len() >= self.shared.limit;
        let refused = writes.iter().find_map(|write| match write {
            Write::Put(key, _) if was_full && !state.items.contains_key(key) => Some(key.clone()),
            _ => None,
        });
        if refused.is_some() {
            drop(state);
            return Err(SinkError::Full { key: refused, limit: self.shared.limit });
        }
        let had_synced = state.has_synced();
        let mut displaced = Vec::new();
        for write in writes {
            state.write(write, &mut displaced);
        }
        self.wake(state, was_full, had_synced);
        self.shared.items.notify();
        drop(displaced);
        Ok(errors)
    }

    fn is_ready(&self) -> bool {
        let state = self.shared.state.lock();
        state.closed || state.items.len() < self.shared.limit
    }

    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(self.shared.room.wait(|| self.is_ready().then_some(())))
    }
}

impl<T: Object> std::fmt::Debug for Fifo<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fifo").field("len", &self.len()).field("is_closed", &self.is_closed()).finish()
    }
}
