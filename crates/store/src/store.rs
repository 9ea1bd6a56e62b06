//! What all stores have in common.

use std::sync::Arc;

use kinformer_core::{KnownObjects, Object, ResourceVersion, Sink};

/// A collection of objects by key that can be written by a reflector and read by anyone.
///
/// Writing is [`Sink`], asking for what is known is [`KnownObjects`]; this adds the rest of reading. The
/// promise is the same for every implementation, and one generic test suite holds them all to it: each answer
/// comes from one consistent state, so that a list shows no key twice and no half of a replace.
///
/// Follows client-go 1.37 (`Store`).
pub trait Store<T: Object>: Sink<T> + KnownObjects<T> {
    /// All objects, each once, in no particular order. O(n).
    fn list(&self) -> Vec<Arc<T>>;

    /// The stored state of the object with the key of this one.
    fn get(&self, object: &T) -> Option<Arc<T>> {
        self.get_by_key(object.key())
    }

    /// The newest resource version that the store reflects.
    fn resource_version(&self) -> ResourceVersion;

    /// How many objects there are.
    fn len(&self) -> usize;

    /// Whether there are no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
