//! What all stores have in common.

use std::sync::Arc;

use kinformer_core::{
    Delta, Error, KeyRef, KnownObjects, Object, Replacement, Report, ResourceVersion, Sink, Tombstone,
    Versions,
};

/// A collection of objects by key that can be written by a reflector and read by anyone.
///
/// Writing is [`Sink`], asking for what is known is [`KnownObjects`]; this adds the rest of reading, and client-go's
/// names for writing one delta. The promise is the same for every implementation, and one generic test suite holds them all to it: each answer
/// comes from one consistent state, so that a list shows no key twice and no half of a replace.
///
/// Follows client-go 1.37 (`Store`).
pub trait Store<T: Object>: Sink<T> + KnownObjects<T> {
    /// All objects, each once, in no particular order. O(n).
    fn list(&self) -> Vec<Arc<T>>;

    /// The object with this key: [`KnownObjects::get_by_key`], with a key of any form.
    fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>>
    where
        Self: Sized,
    {
        self.get_by_key(key.into())
    }

    /// The newest resource version that the store reflects, of each part.
    fn resource_versions(&self) -> Versions;

    /// How many objects there are.
    fn len(&self) -> usize;

    /// Whether there are no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds or replaces an object.
    ///
    /// # Errors
    /// Why the object was left out. Nothing has changed.
    fn add(&self, object: Arc<T>) -> Result<Report, Error> {
        self.apply(Delta::Added(object).into())?.of_one()
    }

    /// Adds or replaces an object: to a store the same as [`Self::add`].
    ///
    /// # Errors
    /// As [`Self::add`].
    fn update(&self, object: Arc<T>) -> Result<Report, Error> {
        self.apply(Delta::Updated(object).into())?.of_one()
    }

    /// Removes an object; removing what is not there is no error.
    ///
    /// # Errors
    /// As [`Self::add`].
    fn delete(&self, tombstone: Tombstone<Arc<T>>) -> Result<Report, Error> {
        self.apply(Delta::Deleted(tombstone).into())?.of_one()
    }

    /// From now on there is exactly what the list holds, at its version. Single objects that were left out are in the
    /// report.
    ///
    /// # Errors
    /// See [`Sink::apply`]. Nothing has changed.
    fn replace(&self, replacement: Replacement<T>) -> Result<Report, Error> {
        self.apply(Delta::ReplacedAll(Box::new(replacement)).into())
    }

    /// The source, of a store that is not divided into parts, has reached this version without a change.
    ///
    /// # Errors
    /// See [`Sink::apply`]. Nothing has changed.
    fn bookmark(&self, version: ResourceVersion) -> Result<Report, Error> {
        self.apply(Delta::bookmark(version).into())
    }
}
