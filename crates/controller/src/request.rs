//! A request to reconcile a key.

use std::ops::Deref;

/// A request to reconcile a key. Dereferences to the key.
///
/// The object is read from an informer's store, where it may be missing: then it was deleted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request<Key> {
    /// The key.
    pub key: Key,
    /// How often the reconciliation of the key has failed since it last succeeded.
    pub failures: u32,
    /// The priority with which the key was queued.
    pub priority: i64,
}

impl<Key> Deref for Request<Key> {
    type Target = Key;

    fn deref(&self) -> &Key {
        &self.key
    }
}
