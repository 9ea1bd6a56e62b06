//! A value that is computed when it is read and has become stale.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use crate::sync::{Condvar, Mutex, thread, wait};

/// A value that is computed on its first use, and again on the first use after [`notify`](Self::notify): for results that
/// change with every event but are read rarely, such as an index or a sum over a snapshot.
///
/// * Concurrent calls of [`get`](Self::get) share one computation and its value.
/// * A `get` that starts after a `notify` never returns a value whose computation started before it. A computation in
///   progress continues for the calls that wait for it, and its result is stale for all later ones.
/// * An error or a panic reaches its caller and is not kept: the next `get` computes again.
///
/// `get` blocks its thread while the value is computed. There is no asynchronous form: a computation over a snapshot
/// waits for nothing, and event handlers and index functions are not asynchronous. In asynchronous code, use
/// `spawn_blocking` for a long computation.
///
/// An index over a snapshot, made stale by an event handler:
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Arc;
///
/// use kinformer_core::{Keyed, Object};
/// use kinformer_store::{Indexer, Lazy};
///
/// // The objects are ports, under the names of their hosts.
/// let hosts = Arc::new(Indexer::<Keyed<u16>>::builder().build()?);
/// let by_port: Lazy<_> = Lazy::new({
///     let hosts = hosts.clone();
///     move || {
///         let mut by_port = HashMap::<u16, Vec<String>>::new();
///         for host in hosts.snapshot().iter() {
///             let port: &u16 = host;
///             by_port.entry(*port).or_default().push(host.key().to_string());
///         }
///         Ok(by_port)
///     }
/// });
/// // An informer calls its handlers when the store has the change already.
/// let on_event = || by_port.notify();
///
/// hosts.add(Keyed::by(|_| "web", 80)?)?.into_result()?;
/// on_event();
/// let Ok(ports) = by_port.get(); // this computation cannot fail
/// assert_eq!(ports[&80], ["web"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Follows client-go 0.37 (`synctrack.Lazy`), which computes under a lock.
pub struct Lazy<T, E = Infallible> {
    compute: Box<dyn Fn() -> Result<T, E> + Send + Sync>,
    current: Mutex<Arc<Entry<T>>>,
}

/// A value between two calls of `notify`.
struct Entry<T> {
    state: Mutex<State<T>>,
    /// Wakes the calls that wait for the end of a computation.
    ended: Condvar,
}

enum State<T> {
    Empty,
    /// This thread computes the value.
    Computing(thread::ThreadId),
    Ready(Arc<T>),
}

impl<T, E> Lazy<T, E> {
    /// Creates a value that is computed by this function. Calls of the function may overlap after a
    /// [`notify`](Self::notify).
    pub fn new(compute: impl Fn() -> Result<T, E> + Send + Sync + 'static) -> Self {
        Self { compute: Box::new(compute), current: Mutex::new(Arc::new(Entry::new())) }
    }

    /// Makes the value stale, because something that it is computed from has changed before this call. It computes
    /// nothing and does not wait for a computation.
    pub fn notify(&self) {
        let current = self.current.lock().clone();
        if current.is_empty() {
            return;
        }
        // The old value is dropped after the lock is released: its destructor is user code.
        let _old = std::mem::replace(&mut *self.current.lock(), Arc::new(Entry::new()));
    }

    /// Returns the value. Computes it first if there is none or it is stale, or waits for another thread that does so.
    ///
    /// # Errors
    /// The error of the computation of this call. Calls that waited for it compute themselves.
    ///
    /// # Panics
    /// If the computation of this call panics, or calls `get` of the same value.
    pub fn get(&self) -> Result<Arc<T>, E> {
        let entry = self.current.lock().clone();
        if let Some(value) = entry.value_or_claim() {
            return Ok(value);
        }
        // Also ends the claim after an error or a panic.
        let mut computation = Computation { entry: &entry, value: None };
        let value = Arc::new((self.compute)()?);
        computation.value = Some(value.clone());
        Ok(value)
    }
}

impl<T> Entry<T> {
    fn new() -> Self {
        Self { state: Mutex::new(State::Empty), ended: Condvar::new() }
    }

    fn is_empty(&self) -> bool {
        matches!(*self.state.lock(), State::Empty)
    }

    /// Returns the value, or `None` if the caller must compute it.
    fn value_or_claim(&self) -> Option<Arc<T>> {
        let this_thread = thread::current().id();
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Ready(value) => return Some(value.clone()),
                State::Computing(thread) => {
                    assert!(*thread != this_thread, "the computation of a lazy value reads that value");
                    state = wait(&self.ended, state);
                }
                State::Empty => {
                    *state = State::Computing(this_thread);
                    return None;
                }
            }
        }
    }
}

/// A computation in progress. Its end wakes the calls that wait for it.
struct Computation<'a, T> {
    entry: &'a Entry<T>,
    value: Option<Arc<T>>,
}

impl<T> Drop for Computation<'_, T> {
    fn drop(&mut self) {
        *self.entry.state.lock() = self.value.take().map_or(State::Empty, State::Ready);
        self.entry.ended.notify_all();
    }
}

impl<T, E> fmt::Debug for Lazy<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy").finish_non_exhaustive()
    }
}
