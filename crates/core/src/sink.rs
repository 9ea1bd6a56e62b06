//! Traits that connect the layers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Deltas, Error, KeyRef, Object, ObjectKey, PartialErrors};

/// The future returned by [`Sink::ready`].
pub type ReadyFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The target of a reflector: a queue, or a store directly.
///
/// A sink applies [`Deltas`] in order, synchronously, and never waits. The deltas of one call form one operation: a
/// sink applies all of them or none.
///
/// * `Err` means that nothing has changed: the sink is full, closed, or has failed as a whole.
/// * `Ok` means that the deltas were applied. Errors of individual objects are in the [`PartialErrors`] and name them: an
///   object without a valid key, with a failed transform or with a panicking accessor is left out, and all others are applied.
///
/// The variants of [`Delta`](crate::Delta) mean:
///
/// * `Added`, `Updated`, `Replaced`: stores this state of the object.
/// * `Deleted`: removes the object. Removing an absent object is not an error.
/// * `ReplacedAll`: replaces all objects with those of the list, and the version with the list's. In a collection that
///   is divided into [parts](crate::Partition), this affects only the objects of the list's part. If the list is not
///   [complete](crate::Replacement::is_complete), its objects are applied and nothing is deleted. An object that is
///   left out keeps its known state.
/// * `Sync`, `SyncAll`: re-delivers this object, or every known object (resync). A sink without a consumer ignores it.
/// * `Bookmark`: the source of a part has reached this version without a change.
///
/// Queues and stores also offer these operations under their client-go names (`add`, `update`, `delete`, `replace`,
/// `resync`). Follows client-go 0.37 (`ReflectorStore`).
#[doc(alias = "ReflectorStore")]
pub trait Sink<T: Object>: Send + Sync {
    /// Applies these deltas.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Closed`], or an error specific to the sink. Nothing has changed.
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, Error>;

    /// Returns whether the sink has room. A sole producer that writes only while this is `true` never receives
    /// [`Error::Full`].
    fn is_ready(&self) -> bool {
        true
    }

    /// Waits until [`Self::is_ready`] returns `true` or the sink is closed.
    ///
    /// # Cancel safety
    /// Dropping the future only removes the waiter: it reserves no room and holds no data.
    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(std::future::ready(()))
    }
}

/// The objects that a consumer already knows, as a queue looks them up in a store.
///
/// Follows client-go 0.37 (`KeyListerGetter`).
#[doc(alias = "KeyListerGetter")]
pub trait KnownObjects<T: Object>: Send + Sync {
    /// Returns the keys of all known objects, each once.
    #[doc(alias = "KeyLister")]
    fn keys(&self) -> Vec<ObjectKey>;

    /// Returns the known state of one object.
    #[doc(alias = "KeyGetter")]
    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>>;

    /// Calls `visit` with every known object, each once.
    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        for key in self.keys() {
            if let Some(object) = self.get_by_key(key.as_key()) {
                visit(&object);
            }
        }
    }
}

impl<T: Object, S: Sink<T> + ?Sized> Sink<T> for Arc<S> {
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, Error> {
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
