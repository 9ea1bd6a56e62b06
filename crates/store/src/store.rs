//! The interface that all stores share.

use std::sync::Arc;

use kinformer_core::{
    Delta, Error, KeyRef, KnownObjects, Object, PartialErrors, Replacement, ResourceVersion, Sink, Tombstone,
    Versions,
};

/// A collection of objects by key, written by a reflector and read by any thread.
///
/// Writes go through [`Sink`], queries of known objects through [`KnownObjects`]; this trait adds the remaining reads
/// and the client-go names for writing one delta. All implementations pass the same generic test suite: each answer
/// comes from one consistent state, so a list never contains a key twice or half of a replace.
///
/// Follows client-go 0.37 (`Store`).
pub trait Store<T: Object>: Sink<T> + KnownObjects<T> {
    /// Returns all objects, each once, in no particular order. O(n).
    fn list(&self) -> Vec<Arc<T>>;

    /// Returns the object with this key. Like [`KnownObjects::get_by_key`], but accepts any form of key.
    fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>>
    where
        Self: Sized,
    {
        self.get_by_key(key.into())
    }

    /// Returns the newest resource version that the store reflects, by part.
    fn resource_versions(&self) -> Versions;

    /// Returns the number of objects.
    fn len(&self) -> usize;

    /// Returns whether the store is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds or replaces an object.
    ///
    /// # Errors
    /// The object was left out, for example because its key is invalid. Nothing has changed.
    fn add(&self, object: Arc<T>) -> Result<PartialErrors, Error> {
        self.apply(Delta::Added(object).into())?.require_applied()
    }

    /// Adds or replaces an object: equivalent to [`Self::add`].
    ///
    /// # Errors
    /// As [`Self::add`].
    fn update(&self, object: Arc<T>) -> Result<PartialErrors, Error> {
        self.apply(Delta::Updated(object).into())?.require_applied()
    }

    /// Removes an object. Removing an absent object is not an error.
    ///
    /// # Errors
    /// As [`Self::add`].
    fn delete(&self, tombstone: Tombstone<Arc<T>>) -> Result<PartialErrors, Error> {
        self.apply(Delta::Deleted(tombstone).into())?.require_applied()
    }

    /// Replaces all objects with those of the list, and the version with the list's. The returned
    /// errors name the objects that were left out.
    ///
    /// # Errors
    /// See [`Sink::apply`]. Nothing has changed.
    fn replace(&self, replacement: Replacement<T>) -> Result<PartialErrors, Error> {
        self.apply(Delta::ReplacedAll(Box::new(replacement)).into())
    }

    /// Advances the version of an undivided store: its source has reached this version without a change.
    ///
    /// # Errors
    /// See [`Sink::apply`]. Nothing has changed.
    fn bookmark(&self, version: ResourceVersion) -> Result<PartialErrors, Error> {
        self.apply(Delta::bookmark(version).into())
    }
}
