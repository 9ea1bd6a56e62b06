//! What a pop gives: deltas, and the knowledge of when they have been processed.

use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::{Delta, Deltas, KeyError, Object, ObjectKey, VersionUpdates};
use smallvec::SmallVec;

use crate::sync::Mutex;

/// Deltas that were popped together, in order, and are being processed for as long as this lives.
///
/// Dropping it marks the deltas as processed. Until then the queue still counts their keys as known (a
/// replace or a resync would otherwise miss what is neither queued any more nor stored yet), and does not
/// count them for [`has_synced`](crate::Queue::has_synced). A consumer that is cancelled or panics drops it
/// as well: a queue has no second delivery.
#[must_use = "dropping it means that the deltas have been processed"]
pub struct Popped<T: Object> {
    deltas: Deltas<T>,
    in_initial_list: bool,
    key_error: Option<KeyError>,
    versions: VersionUpdates,
    ticket: Ticket,
    queue: Option<Arc<dyn Finish>>,
}

/// What the queue needs to know again when the deltas have been processed.
#[derive(Default)]
pub(crate) struct Ticket {
    /// How many entries of the initial list these are.
    pub(crate) initial: usize,
    /// The keys that are in flight, where the queue tracks them.
    pub(crate) keys: SmallVec<[ObjectKey; 1]>,
}

/// The queue's side of the end of a [`Popped`].
pub(crate) trait Finish: Send + Sync {
    fn finish(&self, ticket: Ticket);
}

/// A function that is called once.
struct Once<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + Sync> Finish for Once<F> {
    fn finish(&self, _: Ticket) {
        let finish = self.0.lock().take();
        if let Some(finish) = finish {
            finish();
        }
    }
}

/// What a pop takes out of a queue under its lock.
pub struct Taken<T> {
    pub(crate) deltas: Deltas<T>,
    pub(crate) in_initial_list: bool,
    pub(crate) key_error: Option<KeyError>,
    pub(crate) versions: VersionUpdates,
    pub(crate) ticket: Ticket,
}

impl<T> Taken<T> {
    /// No delta, but versions.
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
    pub(crate) fn new(taken: Taken<T>, queue: Arc<dyn Finish>) -> Self {
        let Taken { deltas, in_initial_list, key_error, versions, ticket } = taken;
        Self { deltas, in_initial_list, key_error, versions, ticket, queue: Some(queue) }
    }

    /// For a [`Queue`](crate::Queue) of your own: deltas in their order, and how the consumer's versions move once
    /// they and all before them have been processed. See [`Self::versions`].
    pub fn of(deltas: impl Into<Deltas<T>>, versions: impl Into<VersionUpdates>) -> Self {
        Self {
            deltas: deltas.into(),
            in_initial_list: false,
            key_error: None,
            versions: versions.into(),
            ticket: Ticket::default(),
            queue: None,
        }
    }

    /// For a queue of your own: the first replace brought these.
    pub fn as_initial_list(mut self) -> Self {
        self.in_initial_list = true;
        self
    }

    /// For a queue of your own: what to do once the deltas have been processed, or their consumer was cancelled or has
    /// panicked.
    pub fn on_processed(mut self, finish: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.queue = Some(Arc::new(Once(Mutex::new(Some(finish)))));
        self
    }

    /// The deltas, in order.
    pub fn deltas(&self) -> &[Delta<T>] {
        &self.deltas
    }

    /// Takes the deltas out; they still count as being processed until this is dropped.
    pub fn take(&mut self) -> Deltas<T> {
        std::mem::take(&mut self.deltas)
    }

    /// Whether the first replace brought these.
    pub fn in_initial_list(&self) -> bool {
        self.in_initial_list
    }

    /// How the versions of the consumer move once these deltas, and all that were popped before, have been processed:
    /// then everything of a part up to its version has been. There may be nothing but versions, and no delta.
    ///
    /// The version of a single object says less: in a [`DeltaFifo`](crate::DeltaFifo) older deltas of other keys may
    /// still be queued behind it, and so may the rest of a list that was taken apart.
    pub fn versions(&self) -> &VersionUpdates {
        &self.versions
    }

    /// Lets the consumer's versions move otherwise: for a controller that knows that something is missing.
    pub fn set_versions(&mut self, versions: impl Into<VersionUpdates>) {
        self.versions = versions.into();
    }

    /// The last delta's object has no valid key any more: it has changed since it was queued. The delta is
    /// here all the same; what to do with it is for the consumer to decide.
    pub fn key_error(&self) -> Option<&KeyError> {
        self.key_error.as_ref()
    }
}

impl<T: Object> Deref for Popped<T> {
    type Target = [Delta<T>];

    fn deref(&self) -> &[Delta<T>] {
        &self.deltas
    }
}

impl<T: Object> Drop for Popped<T> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.finish(std::mem::take(&mut self.ticket));
        }
    }
}

impl<T: Object> std::fmt::Debug for Popped<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let deltas =
            self.deltas.iter().map(|delta| (delta.delta_type(), delta.key().map(|key| key.to_string())));
        f.debug_struct("Popped")
            .field("deltas", &deltas.collect::<Vec<_>>())
            .field("in_initial_list", &self.in_initial_list)
            .finish()
    }
}
