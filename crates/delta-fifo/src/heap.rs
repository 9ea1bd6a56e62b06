//! Heap: a queue ordered by a custom priority.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Error as SinkError, KeyRef, Object, ObjectKey, PartialErrors};

use crate::incoming;
use crate::key_map::{KeyMap, Lookup, shrink};
use crate::sync::Mutex;
use crate::waiting::Condition;
use crate::{Error, WriteError};

type PriorityFunction<T, P> = dyn Fn(&T) -> P + Send + Sync;

/// A queue that pops the object with the lowest priority value first, and the earliest added among equals. Each key has
/// one place; adding it again replaces the object and its priority.
///
/// The priority function is called once for each added object, while no lock is held. Use `Reverse` for the opposite
/// order. A clone is another handle to the same queue. Follows client-go 0.37 (`Heap`), which compares objects under
/// its lock. Adding and popping are O(log n).
///
/// ```
/// use kinformer_core::Keyed;
/// use kinformer_delta_fifo::Heap;
///
/// let jobs = Heap::new(|job: &Keyed<u32>| **job);
/// for n in [3, 1, 2] {
///     jobs.add(Keyed::by(|n: &u32| format!("job-{n}"), n)?)?;
/// }
/// assert_eq!(**jobs.try_pop()?.unwrap(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Heap<T, P> {
    shared: Arc<Shared<T, P>>,
}

struct Shared<T, P> {
    state: Mutex<State<T, P>>,
    items: Condition,
    priority: Box<PriorityFunction<T, P>>,
}

struct State<T, P> {
    /// Ordered by priority, then by insertion.
    order: BTreeMap<(P, u64), (ObjectKey, Arc<T>)>,
    places: KeyMap<(P, u64)>,
    added: u64,
    closed: bool,
}

impl<T: Object, P: Ord + Clone> State<T, P> {
    /// Stores an object. Returns the object previously stored under this key.
    fn put(&mut self, key: ObjectKey, priority: P, object: Arc<T>) -> Option<Arc<T>> {
        self.added += 1;
        let place = (priority, self.added);
        let earlier = self.places.insert(key.clone(), place.clone());
        self.order.insert(place, (key, object));
        earlier.and_then(|place| self.order.remove(&place)).map(|(_, object)| object)
    }

    fn remove(&mut self, key: &Lookup<'_>) -> Option<Arc<T>> {
        let place = self.places.remove(key)?;
        shrink(&mut self.places);
        self.order.remove(&place).map(|(_, object)| object)
    }
}

impl<T, P> Clone for Heap<T, P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: Object, P: Ord + Clone + Send + Sync + 'static> Heap<T, P> {
    /// Creates an empty heap, ordered by the values of this function.
    ///
    /// ```
    /// use std::cmp::Reverse;
    ///
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let largest_first = Heap::new(|job: &Keyed<u32>| Reverse(**job));
    /// largest_first.add(job("small", 1))?;
    /// largest_first.add(job("large", 9))?;
    /// assert_eq!(largest_first.peek().as_deref(), Some(&job("large", 9)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(priority: impl Fn(&T) -> P + Send + Sync + 'static) -> Self {
        let state = State { order: BTreeMap::new(), places: KeyMap::default(), added: 0, closed: false };
        let priority = Box::new(priority);
        Self { shared: Arc::new(Shared { state: Mutex::new(state), items: Condition::new(), priority }) }
    }

    /// Adds an object, replacing the one with the same key.
    ///
    /// # Errors
    /// The key is invalid, its accessor or the priority function panicked, or the heap is closed. Nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let jobs = Heap::new(|job: &Keyed<u32>| **job);
    /// jobs.add(job("a", 1))?;
    /// jobs.add(job("b", 2))?;
    /// jobs.add(job("a", 3))?; // Replaces the first.
    /// assert_eq!(jobs.list(), [job("b", 2).into(), job("a", 3).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<(), SinkError> {
        self.put_one(object.into(), Present::Replace)
    }

    /// Adds an object unless its key is present already, in which case the present object is kept.
    ///
    /// # Errors
    /// As [`Self::add`].
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let jobs = Heap::new(|job: &Keyed<u32>| **job);
    /// jobs.add_if_not_present(job("a", 1))?;
    /// jobs.add_if_not_present(job("a", 2))?;
    /// assert_eq!(jobs.list(), [job("a", 1).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_if_not_present(&self, object: impl Into<Arc<T>>) -> Result<(), SinkError> {
        self.put_one(object.into(), Present::Keep)
    }

    /// Adds several objects atomically: no pop observes only a part of them. Objects that cannot be added are reported
    /// by position; all others are added.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let jobs = Heap::new(|job: &Keyed<u32>| **job);
    /// let errors = jobs.bulk_add([job("a", 2).into(), job("b", 1).into()]);
    /// assert!(errors.is_empty());
    /// assert_eq!(jobs.list(), [job("b", 1).into(), job("a", 2).into()]);
    /// ```
    pub fn bulk_add(&self, objects: impl IntoIterator<Item = Arc<T>>) -> PartialErrors {
        self.put_all(objects, Present::Replace)
    }

    /// Removes and returns the object with this key; `None` if there is none. In client-go 0.37 (`Heap.Delete`) an
    /// absent key is an error.
    ///
    /// # Errors
    /// [`Error::Closed`]: the heap is closed. Nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::{KeyRef, Keyed};
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let jobs = Heap::new(|job: &Keyed<u32>| **job);
    /// jobs.add(job("a", 1))?;
    /// assert_eq!(jobs.delete(KeyRef::named("a"))?, Some(job("a", 1).into()));
    /// assert_eq!(jobs.delete(KeyRef::named("a"))?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete<'k>(&self, key: impl Into<KeyRef<'k>>) -> Result<Option<Arc<T>>, Error> {
        let key = Lookup(key.into());
        let mut state = self.shared.state.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        Ok(state.remove(&key))
    }

    /// Waits for and pops the next object.
    ///
    /// # Cancel safety
    /// Nothing is popped before the future completes. Dropping it leaves every object in the heap.
    ///
    /// # Errors
    /// [`Error::Closed`]: the heap is closed and empty.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let jobs = Heap::new(|job: &Keyed<u32>| **job);
    /// let later = jobs.clone();
    /// let (next, added) = tokio::join!(jobs.pop(), async { later.add(job("a", 1)) });
    /// assert_eq!(next?, job("a", 1).into());
    /// # added?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pop(&self) -> Result<Arc<T>, Error> {
        self.shared.items.wait(|| self.try_pop().transpose()).await
    }

    /// Pops the next object, without waiting; `None` if the heap is empty.
    ///
    /// # Errors
    /// [`Error::Closed`]: the heap is closed and empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let jobs = Heap::new(|job: &Keyed<u32>| **job);
    /// jobs.add(job("a", 1))?;
    /// assert_eq!(jobs.try_pop()?, Some(job("a", 1).into()));
    /// assert_eq!(jobs.try_pop()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_pop(&self) -> Result<Option<Arc<T>>, Error> {
        let mut state = self.shared.state.lock();
        let Some((_, (key, object))) = state.order.pop_first() else {
            return if state.closed { Err(Error::Closed) } else { Ok(None) };
        };
        state.places.remove(&key);
        shrink(&mut state.places);
        let drained = state.closed && state.order.is_empty();
        drop(state);
        if drained {
            self.shared.items.notify();
        }
        Ok(Some(object))
    }

    /// Like [`Self::pop`], but blocks the thread.
    ///
    /// # Errors
    /// [`Error::Closed`]: the heap is closed and empty.
    #[cfg(not(loom))]
    pub fn pop_blocking(&self) -> Result<Arc<T>, Error> {
        self.shared.items.wait_blocking(None, || self.try_pop().transpose())
    }

    /// Like [`Self::pop_blocking`], with a deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]: the heap is closed and empty. [`Error::DeadlineExceeded`]: nothing was added before the
    /// deadline.
    #[cfg(not(loom))]
    pub fn pop_blocking_until(&self, deadline: std::time::Instant) -> Result<Arc<T>, Error> {
        self.shared.items.wait_blocking(Some(deadline), || self.try_pop().transpose())
    }

    /// Returns the object that would be popped next.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let jobs = Heap::new(|job: &Keyed<u32>| **job);
    /// jobs.add(job("b", 2))?;
    /// jobs.add(job("a", 1))?;
    /// assert_eq!(jobs.peek(), Some(job("a", 1).into()));
    /// assert_eq!(jobs.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self) -> Option<Arc<T>> {
        self.shared.state.lock().order.first_key_value().map(|(_, (_, object))| object.clone())
    }

    /// Returns the object with this key.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = Lookup(key.into());
        let state = self.shared.state.lock();
        state.places.get(&key).and_then(|place| state.order.get(place)).map(|(_, object)| object.clone())
    }

    /// Returns all objects, in pop order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.shared.state.lock().order.values().map(|(_, object)| object.clone()).collect()
    }

    /// Returns all keys, in pop order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.state.lock().order.values().map(|(key, _)| key.clone()).collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.shared.state.lock().order.len()
    }

    /// Returns whether the heap is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the heap: it rejects new objects, its remaining objects can still be popped, and all waiters wake.
    /// Returns whether it was open.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_delta_fifo::Heap;
    ///
    /// # let job = |name: &str, priority| Keyed::new(name.parse().unwrap(), priority);
    /// let jobs = Heap::new(|job: &Keyed<u32>| **job);
    /// jobs.add(job("a", 1))?;
    /// assert!(jobs.close());
    /// assert!(jobs.add(job("b", 2)).is_err());
    /// assert!(jobs.try_pop()?.is_some());
    /// assert!(jobs.try_pop().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) -> bool {
        let was_open = !std::mem::replace(&mut self.shared.state.lock().closed, true);
        self.shared.items.notify();
        was_open
    }

    /// Returns whether the heap is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().closed
    }

    fn put_one(&self, object: Arc<T>, present: Present) -> Result<(), SinkError> {
        self.put_all([object], present).into_result().map_err(|problem| problem.error)
    }

    fn put_all(&self, objects: impl IntoIterator<Item = Arc<T>>, present: Present) -> PartialErrors {
        let mut errors = PartialErrors::default();
        let mut prepared = Vec::new();
        for (position, object) in objects.into_iter().enumerate() {
            match self.prepare(&object) {
                Ok((key, priority)) => prepared.push((position, key, priority, object)),
                Err(error) => errors.push(position, error),
            }
        }
        let mut dropped = Vec::new();
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            prepared.iter().for_each(|(position, ..)| errors.push(*position, SinkError::Closed));
            return errors;
        }
        for (_, key, priority, object) in prepared {
            if present == Present::Keep && state.places.contains_key(&key) {
                dropped.push(object);
            } else {
                dropped.extend(state.put(key, priority, object));
            }
        }
        drop(state);
        self.shared.items.notify();
        drop(dropped);
        errors
    }

    fn prepare(&self, object: &T) -> Result<(ObjectKey, P), SinkError> {
        let key = incoming::key(|| object.key())?;
        match contain(|| (self.shared.priority)(object)) {
            Ok(priority) => Ok((key, priority)),
            Err(source) => Err(SinkError::other(WriteError::Priority { key, source })),
        }
    }
}

/// How to handle an object whose key is in the heap already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Present {
    Replace,
    Keep,
}

impl<T: Object, P: Ord + Clone + Send + Sync + 'static> std::fmt::Debug for Heap<T, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap").field("len", &self.len()).field("is_closed", &self.is_closed()).finish()
    }
}
