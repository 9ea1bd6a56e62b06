//! Heap: an object queue in the order of a custom priority.

use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Error as SinkError, KeyRef, Object, ObjectKey, PartialErrors};

use crate::key_map::Lookup;
use crate::ports::object_queue::{ObjectQueue, Order, Present};
use crate::{Error, WriteError};

/// A queue that pops the object with the lowest priority value first, and the earliest added among equals. Each key has
/// one place; adding it again replaces the object and its priority.
///
/// The priority function is called once for each added object, while no lock is held. Use `Reverse` for the opposite
/// order. Follows client-go 0.37 (`Heap`), which compares objects under its lock.
///
/// ```
/// use kinformer_core::Keyed;
/// use kinformer_delta_fifo::Heap;
///
/// let jobs = Heap::new(|job: &Keyed<u32>| **job);
/// for n in [3, 1, 2] {
///     jobs.add(Keyed::by(|n: &u32| format!("job-{n}"), n)?)?;
/// }
/// assert_eq!(**jobs.peek().unwrap(), 1);
/// assert_eq!(**jobs.try_pop()?.unwrap(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "NewHeap")]
pub type Heap<T, P> = ObjectQueue<T, ByPriority<T, P>>;

/// The order of a [`Heap`].
#[doc(alias = "LessFunc")]
pub struct ByPriority<T, P>(Box<dyn Fn(&T) -> P + Send + Sync>);

impl<T: Object, P: Ord + Clone + Send + Sync + 'static> Order<T> for ByPriority<T, P> {
    type Priority = P;
    const NAME: &'static str = "Heap";
    const KEEPS_PLACE: bool = false;

    fn priority(&self, key: &ObjectKey, object: &T) -> Result<P, SinkError> {
        contain(|| (self.0)(object))
            .map_err(|source| SinkError::other(WriteError::Priority { key: key.clone(), source }))
    }
}

impl<T: Object, P: Ord + Clone + Send + Sync + 'static> Heap<T, P> {
    /// Creates an empty heap, ordered by the values of this function. It has no bound.
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
        Self::with_order(ByPriority(Box::new(priority)), usize::MAX)
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
        self.write(|state, _| Ok(state.remove(&key))).map_err(|_| Error::Closed)
    }
}

impl<T, P> std::fmt::Debug for ByPriority<T, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByPriority").finish_non_exhaustive()
    }
}
