//! Where the layers meet.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Deltas, Error, KeyRef, Object, ObjectKey, Report};

/// What [`Sink::ready`] gives.
pub type ReadyFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What a reflector writes into: a queue, or a store directly.
///
/// A sink applies [`Deltas`], in their order, at once, and never waits. The deltas of one call are one operation: a sink
/// takes all of them or none.
///
/// * `Err` means that nothing has changed: the sink is full or closed, or has failed as a whole.
/// * `Ok` means that the deltas were applied. What was wrong with single objects is in the [`Report`], by
///   [position](crate::Problem::position): an object without a valid key, one whose transform failed and one whose
///   accessors panic is left out, and all others are applied.
///
/// What the variants of [`Delta`](crate::Delta) mean to a sink:
///
/// * `Added`, `Updated`, `Replaced`: the object has this state.
/// * `Deleted`: the object is gone. Deleting what is not there is no error.
/// * `ReplacedAll`: from now on there is exactly what this list holds, at its version. Where the collection is divided into
///   [parts](crate::Partition), this is about the objects of the list's part only. Of a list that is not
///   [complete](crate::Replacement::is_complete) the objects are applied and nothing is deleted. What is known of an
///   object that is left out stays.
/// * `Sync`, `SyncAll`: the object, or every known object, is to be delivered again. Nothing to do for a sink that
///   has no consumer.
/// * `Bookmark`: the source of a part has reached this version without a change.
///
/// Queues and stores have these operations by their names in client-go as well (`add`, `update`, `delete`, `replace`,
/// `resync`). Follows client-go 1.37 (`ReflectorStore`).
pub trait Sink<T: Object>: Send + Sync {
    /// Applies these deltas.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Closed`], or an error of the sink's own; nothing of the operation has changed.
    fn apply(&self, deltas: Deltas<T>) -> Result<Report, Error>;

    /// Whether the sink wants more now. A producer that respects this never sees [`Error::Full`], as long as
    /// it is the only one.
    fn is_ready(&self) -> bool {
        true
    }

    /// Waits until [`Self::is_ready`], or until the sink is closed. Cancel-safe: dropping it loses nothing.
    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(std::future::ready(()))
    }
}

/// What a queue asks a store: what is known already.
///
/// Follows client-go 1.37 (`KeyListerGetter`).
pub trait KnownObjects<T: Object>: Send + Sync {
    /// The keys of all known objects, each once.
    fn keys(&self) -> Vec<ObjectKey>;

    /// The known state of one object.
    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>>;

    /// Shows every known object to `visit`, each once.
    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        for key in self.keys() {
            if let Some(object) = self.get_by_key(key.as_key()) {
                visit(&object);
            }
        }
    }
}

impl<T: Object, S: Sink<T> + ?Sized> Sink<T> for Arc<S> {
    fn apply(&self, deltas: Deltas<T>) -> Result<Report, Error> {
        (**self).apply(deltas)
    }

    fn is_ready(&self) -> bool {
        (**self).is_ready()
    }

    fn ready(&self) -> ReadyFuture<'_> {
        (**self).ready()
    }
}

impl<T: Object, K: KnownObjects<T> + ?Sized> KnownObjects<T> for Arc<K> {
    fn keys(&self) -> Vec<ObjectKey> {
        (**self).keys()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        (**self).get_by_key(key)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        (**self).for_each(visit);
    }
}
