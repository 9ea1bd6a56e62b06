//! Heap: the object that comes first by an order of your own.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Error as SinkError, KeyRef, Object, ObjectKey, Report};

use crate::incoming;
use crate::key_map::{KeyMap, Lookup, shrink};
use crate::sync::Mutex;
use crate::waiting::Changes;
use crate::{Error, WriteError};

type PriorityFunction<T, P> = dyn Fn(&T) -> P + Send + Sync;

/// A queue that pops the object with the least priority value first, and among equals the one that was added
/// first. Each key has one place; adding it again puts the newer object at its own place.
///
/// The priority is asked once for each added object, while no lock is held. `Reverse` turns the order round.
/// A clone is another handle to the same queue. Follows client-go 1.37 (`Heap`), which compares objects under
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
    items: Changes,
    priority: Box<PriorityFunction<T, P>>,
}

struct State<T, P> {
    /// By priority, then by the order of adding.
    order: BTreeMap<(P, u64), (ObjectKey, Arc<T>)>,
    places: KeyMap<(P, u64)>,
    added: u64,
    closed: bool,
}

impl<T: Object, P: Ord + Clone> State<T, P> {
    /// Gives back what had this key before.
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
    /// An empty heap, ordered by what this function says of an object.
    pub fn new(priority: impl Fn(&T) -> P + Send + Sync + 'static) -> Self {
        let state = State { order: BTreeMap::new(), places: KeyMap::default(), added: 0, closed: false };
        let priority = Box::new(priority);
        Self { shared: Arc::new(Shared { state: Mutex::new(state), items: Changes::new(), priority }) }
    }

    /// Adds an object, or puts it in the place of the one with its key.
    ///
    /// # Errors
    /// No valid key, a priority function that panics, closed. Nothing has changed.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<(), SinkError> {
        self.put_one(object.into(), Present::Replace)
    }

    /// Adds an object unless there is one with its key: then that one stays as it is.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_if_not_present(&self, object: impl Into<Arc<T>>) -> Result<(), SinkError> {
        self.put_one(object.into(), Present::Keep)
    }

    /// Adds objects at once: no pop sees a part of them. Those that cannot be added are reported by their
    /// position, and the others are added.
    pub fn bulk_add(&self, objects: impl IntoIterator<Item = Arc<T>>) -> Report {
        self.put_all(objects, Present::Replace)
    }

    /// Takes out the object with this key and gives it back; `None` if there is none. In client-go 1.37 (`Heap.Delete`)
    /// that is an error.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn delete<'k>(&self, key: impl Into<KeyRef<'k>>) -> Result<Option<Arc<T>>, Error> {
        let key = Lookup(key.into());
        let mut state = self.shared.state.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        Ok(state.remove(&key))
    }

    /// Waits for the next object. Cancel-safe: dropped while it waits, it has taken nothing.
    ///
    /// # Errors
    /// [`Error::Closed`]: everything has been popped and nothing will come.
    pub async fn pop(&self) -> Result<Arc<T>, Error> {
        self.shared.items.wait(|| self.try_pop().transpose()).await
    }

    /// The next object, without waiting; `None` when there is nothing.
    ///
    /// # Errors
    /// [`Error::Closed`]: everything has been popped and nothing will come.
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

    /// As [`Self::pop`], blocking the thread.
    ///
    /// # Errors
    /// [`Error::Closed`].
    #[cfg(not(loom))]
    pub fn pop_blocking(&self) -> Result<Arc<T>, Error> {
        self.shared.items.wait_blocking(None, || self.try_pop().transpose())
    }

    /// As [`Self::pop_blocking`], but not beyond the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::DeadlineExceeded`].
    #[cfg(not(loom))]
    pub fn pop_blocking_until(&self, deadline: std::time::Instant) -> Result<Arc<T>, Error> {
        self.shared.items.wait_blocking(Some(deadline), || self.try_pop().transpose())
    }

    /// The object that would be popped next.
    pub fn peek(&self) -> Option<Arc<T>> {
        self.shared.state.lock().order.first_key_value().map(|(_, (_, object))| object.clone())
    }

    /// The object with this key.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = Lookup(key.into());
        let state = self.shared.state.lock();
        state.places.get(&key).and_then(|place| state.order.get(place)).map(|(_, object)| object.clone())
    }

    /// All objects, in the order of their pops.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.shared.state.lock().order.values().map(|(_, object)| object.clone()).collect()
    }

    /// All keys, in the order of their pops.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.state.lock().order.values().map(|(key, _)| key.clone()).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.shared.state.lock().order.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the heap: it takes nothing more, what is in it can still be popped, and everyone who waits
    /// wakes. Says whether it was open.
    pub fn close(&self) -> bool {
        let was_open = !std::mem::replace(&mut self.shared.state.lock().closed, true);
        self.shared.items.notify();
        was_open
    }

    /// Whether the heap was closed.
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().closed
    }

    fn put_one(&self, object: Arc<T>, present: Present) -> Result<(), SinkError> {
        self.put_all([object], present).into_result().map_err(|problem| problem.error)
    }

    fn put_all(&self, objects: impl IntoIterator<Item = Arc<T>>, present: Present) -> Report {
        let mut report = Report::default();
        let mut prepared = Vec::new();
        for (position, object) in objects.into_iter().enumerate() {
            match self.prepare(&object) {
                Ok((key, priority)) => prepared.push((position, key, priority, object)),
                Err(error) => report.push(position, error),
            }
        }
        let mut dropped = Vec::new();
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            prepared.iter().for_each(|(position, ..)| report.push(*position, SinkError::Closed));
            return report;
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
        report
    }

    fn prepare(&self, object: &T) -> Result<(ObjectKey, P), SinkError> {
        let key = incoming::key(|| object.key())?;
        match contain(|| (self.shared.priority)(object)) {
            Ok(priority) => Ok((key, priority)),
            Err(source) => Err(SinkError::other(WriteError::Priority { key, source })),
        }
    }
}

/// What becomes of an object that has its key in the heap already.
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
