//! Popped deltas, and the notification that they have been processed.

use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::{Delta, Deltas, KeyError, Object, VersionUpdates};
use smallvec::SmallVec;

use crate::key_map::HashedKey;
use crate::sync::Mutex;

/// Deltas popped together, in order. They count as being processed while this value exists.
///
/// Dropping it marks the deltas as processed. Until then the queue counts their keys as known, so that a replace or a
/// resync does not miss an object that is no longer queued and not yet stored, and does not count them for
/// [`has_synced`](crate::Queue::has_synced). A consumer that is cancelled or panics drops it as well: nothing is
/// delivered twice.
///
/// ```
/// use kinformer_delta_fifo::{DeltaFifo, Keyed};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = DeltaFifo::new();
/// queue.add(Keyed::by(|_| "port", 80)?)?.into_result()?;
/// let popped = queue.try_pop()?.ok_or("empty")?;
/// for delta in popped.deltas() {
///     println!("{} {:?}", delta.delta_type(), delta.key());
/// }
/// drop(popped); // they have been processed
/// # Ok(())
/// # }
/// ```
#[doc(alias = "PopProcessFunc")]
#[must_use = "dropping it means that the deltas have been processed"]
pub struct Popped<T: Object> {
    taken: Taken<T>,
    /// `None` if the queue has no bookkeeping for these deltas.
    queue: Option<Arc<dyn Finish>>,
}

/// The data that the queue needs when the deltas have been processed.
#[derive(Default)]
pub(crate) struct Ticket {
    /// The number of popped entries that the sync of the queue waits for.
    pub(crate) initial: usize,
    /// The keys in flight, if the queue tracks keys.
    pub(crate) keys: SmallVec<[HashedKey; 1]>,
}

impl Ticket {
    /// Whether the queue has no bookkeeping for these deltas.
    fn is_empty(&self) -> bool {
        self.initial == 0 && self.keys.is_empty()
    }
}

/// Notifies a queue that popped deltas have been processed.
pub(crate) trait Finish: Send + Sync {
    fn finish(&self, ticket: Ticket);
}

/// A callback that is called once.
struct Once<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + Sync> Finish for Once<F> {
    fn finish(&self, _: Ticket) {
        let finish = self.0.lock().take();
        if let Some(finish) = finish {
            finish();
        }
    }
}

/// The result of a pop, taken out of a queue under its lock.
pub struct Taken<T> {
    pub(crate) deltas: Deltas<T>,
    pub(crate) in_initial_list: bool,
    pub(crate) key_error: Option<KeyError>,
    pub(crate) versions: VersionUpdates,
    pub(crate) ticket: Ticket,
}

impl<T> Taken<T> {
    /// Versions without deltas.
    pub(crate) fn only(versions: VersionUpdates) -> Self {
        Self {
            deltas: Deltas::new(),
            in_initial_list: false,
            key_error: None,
            versions,
            ticket: Ticket::default(),
        }
    }
}

impl<T: Object> Popped<T> {
    #[inline]
    pub(crate) fn new<F: Finish + 'static>(taken: Taken<T>, queue: &Arc<F>) -> Self {
        let queue = (!taken.ticket.is_empty()).then(|| queue.clone() as Arc<dyn Finish>);
        Self { taken, queue }
    }

    /// Creates the result of a pop from a custom [`Queue`](crate::Queue): deltas in order, and the updates of the
    /// consumer's versions once these and all previous deltas have been processed. See [`Self::versions`].
    pub fn of(deltas: impl Into<Deltas<T>>, versions: impl Into<VersionUpdates>) -> Self {
        Self { taken: Taken { deltas: deltas.into(), ..Taken::only(versions.into()) }, queue: None }
    }

    /// Marks the deltas as part of the initial list. For custom queues.
    pub fn as_initial_list(mut self) -> Self {
        self.taken.in_initial_list = true;
        self
    }

    /// Sets a callback for when the deltas have been processed, or their consumer was cancelled or panicked. For custom
    /// queues.
    pub fn on_processed(mut self, finish: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.queue = Some(Arc::new(Once(Mutex::new(Some(finish)))));
        self
    }

    /// Returns the deltas, in order.
    pub fn deltas(&self) -> &[Delta<T>] {
        &self.taken.deltas
    }

    /// Takes the deltas out. They count as being processed until `self` is dropped.
    pub fn take(&mut self) -> Deltas<T> {
        std::mem::take(&mut self.taken.deltas)
    }

    /// Returns whether the deltas are part of the initial list.
    pub fn in_initial_list(&self) -> bool {
        self.taken.in_initial_list
    }

    /// Returns the updates of the consumer's versions after these and all previously popped deltas have been processed:
    /// from then on, everything in a part up to its version has been processed. There may be updates without any delta.
    ///
    /// The version of an individual object guarantees less: older deltas of other keys, or the rest of a list that was
    /// split, may still be queued.
    pub fn versions(&self) -> &VersionUpdates {
        &self.taken.versions
    }

    /// Replaces the version updates, for an informer loop that has detected missing data.
    pub fn set_versions(&mut self, versions: impl Into<VersionUpdates>) {
        self.taken.versions = versions.into();
    }

    /// Returns the key error of the last delta's object, if its key became invalid after the delta was queued. The
    /// delta is included anyway; the consumer decides how to handle it.
    pub fn key_error(&self) -> Option<&KeyError> {
        self.taken.key_error.as_ref()
    }
}

impl<T: Object> Deref for Popped<T> {
    type Target = [Delta<T>];

    fn deref(&self) -> &[Delta<T>] {
        &self.taken.deltas
    }
}

impl<T: Object> Drop for Popped<T> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.finish(std::mem::take(&mut self.taken.ticket));
        }
    }
}

impl<T: Object> std::fmt::Debug for Popped<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let deltas = self
            .taken
            .deltas
            .iter()
            .map(|delta| (delta.delta_type(), delta.key().map(|key| key.to_string())));
        f.debug_struct("Popped")
            .field("deltas", &deltas.collect::<Vec<_>>())
            .field("in_initial_list", &self.taken.in_initial_list)
            .finish()
    }
}
