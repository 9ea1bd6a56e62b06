//! A queue with one place per key, from which only the newest state is popped. FIFO and heap are its two kinds.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::Equivalent;
use kinformer_core::{Error as SinkError, KeyRef, Object, ObjectKey, PartialErrors};

use crate::key_map::{KeyMap, Lookup, shrink};
use crate::sync::Mutex;
use crate::waiting::Condition;
use crate::{Error, incoming};

/// The order of an [`ObjectQueue`].
pub trait Order<T>: Send + Sync + 'static {
    /// The lowest is popped first.
    type Priority: Ord + Clone + Send + Sync + 'static;
    /// The name of the queue.
    const NAME: &'static str;
    /// Whether an object that is added again keeps its place.
    const KEEPS_PLACE: bool;

    /// Returns the priority of an object. Called while no lock is held.
    ///
    /// # Errors
    /// The function of the user failed.
    fn priority(&self, key: &ObjectKey, object: &T) -> Result<Self::Priority, SinkError>;
}

/// A queue with one place for each key: a [`Fifo`](crate::Fifo) or a [`Heap`](crate::Heap), depending on its order `O`.
///
/// A clone is another handle to the same queue. Adding and popping are O(log n).
pub struct ObjectQueue<T, O: Order<T>> {
    pub(super) shared: Arc<Shared<T, O>>,
}

pub(super) struct Shared<T, O: Order<T>> {
    pub(super) state: Mutex<State<T, O>>,
    pub(super) changed: Condition,
    order: O,
    pub(super) limit: usize,
}

pub(super) struct State<T, O: Order<T>> {
    /// In pop order: by priority, then by arrival.
    entries: BTreeMap<Place<T, O>, Entry<T>>,
    places: KeyMap<Place<T, O>>,
    /// Number of places given.
    arrivals: u64,
    pub(super) populated: bool,
    /// Number of objects of the first replace that are still queued.
    initial: usize,
    pub(super) closed: bool,
}

type Place<T, O> = (<O as Order<T>>::Priority, u64);

struct Entry<T> {
    key: ObjectKey,
    object: Arc<T>,
    initial: bool,
}

impl<T, O: Order<T>> State<T, O> {
    /// Queues a state. Returns the state previously queued for the key.
    pub(super) fn put(
        &mut self,
        key: ObjectKey,
        priority: O::Priority,
        object: Arc<T>,
        initial: bool,
    ) -> Option<Arc<T>> {
        self.populated = true;
        let present = self.places.get(&key).filter(|_| O::KEEPS_PLACE);
        if let Some(entry) = present.and_then(|place| self.entries.get_mut(place)) {
            return Some(std::mem::replace(&mut entry.object, object));
        }
        let displaced = self.remove(&key);
        self.arrivals += 1;
        self.initial += usize::from(initial);
        let place = (priority, self.arrivals);
        self.places.insert(key.clone(), place.clone());
        self.entries.insert(place, Entry { key, object, initial });
        displaced
    }

    pub(super) fn remove(&mut self, key: &(impl Hash + Equivalent<ObjectKey>)) -> Option<Arc<T>> {
        let place = self.places.remove(key)?;
        shrink(&mut self.places);
        let entry = self.entries.remove(&place)?;
        self.initial -= usize::from(entry.initial);
        Some(entry.object)
    }

    fn pop(&mut self) -> Option<Arc<T>> {
        let (_, entry) = self.entries.pop_first()?;
        self.places.remove(&entry.key);
        shrink(&mut self.places);
        self.initial -= usize::from(entry.initial);
        Some(entry.object)
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        self.places.contains_key(key)
    }

    /// Returns whether there is no place for this key.
    pub(super) fn refuses(&self, key: &ObjectKey, limit: usize) -> bool {
        !self.has_room(limit) && !self.contains(key)
    }

    pub(super) fn has_room(&self, limit: usize) -> bool {
        self.entries.len() < limit
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.entries.values().map(|entry| &entry.key)
    }

    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }

    /// The conditions that waiters wait for and that a pop can fulfil: room, sync, and the end.
    fn conditions(&self, limit: usize) -> [bool; 3] {
        [self.has_room(limit), self.has_synced(), self.closed && self.entries.is_empty()]
    }
}

impl<T, O: Order<T>> Clone for ObjectQueue<T, O> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: Object, O: Order<T>> ObjectQueue<T, O> {
    pub(super) fn with_order(order: O, limit: usize) -> Self {
        let state = State {
            entries: BTreeMap::new(),
            places: KeyMap::default(),
            arrivals: 0,
            populated: false,
            initial: 0,
            closed: false,
        };
        let state = Mutex::new(state);
        Self { shared: Arc::new(Shared { state, changed: Condition::new(), order, limit }) }
    }

    /// Queues an object. If its key is queued already, the object replaces the older state: a FIFO keeps the place, a
    /// heap orders it again.
    ///
    /// # Errors
    /// The key is invalid, its accessor or the priority function panicked, or the queue is full or closed. Nothing has
    /// changed.
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
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<(), SinkError> {
        self.put_one(object.into(), Present::Replace)
    }

    /// Equivalent to [`Self::add`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<(), SinkError> {
        self.add(object)
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
    pub fn add_if_not_present(&self, object: impl Into<Arc<T>>) -> Result<(), SinkError> {
        self.put_one(object.into(), Present::Keep)
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
        self.shared.changed.wait(|| self.try_pop().transpose()).await
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
        let before = state.conditions(self.shared.limit);
        let Some(object) = state.pop() else {
            return if state.closed { Err(Error::Closed) } else { Ok(None) };
        };
        let fulfilled = state.conditions(self.shared.limit) != before;
        drop(state);
        if fulfilled {
            self.shared.changed.notify();
        }
        Ok(Some(object))
    }

    /// Like [`Self::pop`], but blocks the thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty.
    #[cfg(not(loom))]
    pub fn pop_blocking(&self) -> Result<Arc<T>, Error> {
        self.shared.changed.wait_blocking(None, || self.try_pop().transpose())
    }

    /// Like [`Self::pop_blocking`], with a deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]: the queue is closed and empty. [`Error::DeadlineExceeded`]: nothing was queued before the
    /// deadline.
    #[cfg(not(loom))]
    pub fn pop_blocking_until(&self, deadline: std::time::Instant) -> Result<Arc<T>, Error> {
        self.shared.changed.wait_blocking(Some(deadline), || self.try_pop().transpose())
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
        self.shared.changed.notify();
        was_open
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().closed
    }

    /// Returns the number of queued keys.
    pub fn len(&self) -> usize {
        self.shared.state.lock().entries.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the object that would be popped next.
    pub fn peek(&self) -> Option<Arc<T>> {
        self.shared.state.lock().entries.first_key_value().map(|(_, entry)| entry.object.clone())
    }

    /// Returns the queued state of a key.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = Lookup(key.into());
        let state = self.shared.state.lock();
        state.places.get(&key).and_then(|place| state.entries.get(place)).map(|entry| entry.object.clone())
    }

    /// Returns the queued objects, in pop order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.shared.state.lock().entries.values().map(|entry| entry.object.clone()).collect()
    }

    /// Returns the queued keys, in pop order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.state.lock().keys().cloned().collect()
    }

    fn put_one(&self, object: Arc<T>, present: Present) -> Result<(), SinkError> {
        self.put_all([object], present).into_result().map_err(|problem| problem.error)
    }

    pub(super) fn put_all(
        &self,
        objects: impl IntoIterator<Item = Arc<T>>,
        present: Present,
    ) -> PartialErrors {
        let mut errors = PartialErrors::default();
        let mut prepared = Vec::new();
        for (index, object) in objects.into_iter().enumerate() {
            let key = incoming::key(|| object.key());
            match key.and_then(|key| Ok((self.shared.order.priority(&key, &object)?, key))) {
                Ok((priority, key)) => prepared.push((key, priority, object)),
                Err(error) => errors.push(error.with_index(index)),
            }
        }
        let limit = self.shared.limit;
        let mut refused = Vec::new();
        let written = self.write(|state, displaced| {
            for (key, priority, object) in prepared.drain(..) {
                if present == Present::Keep && state.contains(&key) {
                    displaced.push(object);
                } else if state.refuses(&key, limit) {
                    displaced.push(object);
                    refused.push(SinkError::Full { key: Some(key), limit });
                } else {
                    displaced.extend(state.put(key, priority, object, false));
                }
            }
            Ok(())
        });
        if written.is_err() {
            refused.extend(prepared.iter().map(|_| SinkError::Closed));
        }
        refused.into_iter().for_each(|error| errors.push(error));
        errors
    }

    /// Changes the state of an open queue, and wakes the waiters. Objects that the change passes out are dropped after
    /// the lock is released.
    pub(super) fn write<R>(
        &self,
        change: impl FnOnce(&mut State<T, O>, &mut Vec<Arc<T>>) -> Result<R, SinkError>,
    ) -> Result<R, SinkError> {
        let mut displaced = Vec::new();
        let mut state = self.shared.state.lock();
        let changed = if state.closed { Err(SinkError::Closed) } else { change(&mut state, &mut displaced) };
        drop(state);
        if changed.is_ok() {
            self.shared.changed.notify();
        }
        changed
    }
}

/// How to handle an object whose key is queued already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Present {
    Replace,
    Keep,
}

impl<T: Object, O: Order<T>> std::fmt::Debug for ObjectQueue<T, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(O::NAME).field("len", &self.len()).field("is_closed", &self.is_closed()).finish()
    }
}
