//! An indexer that can only be read.

use std::fmt;
use std::sync::Arc;

use kinformer_core::{KeyRef, Object, ObjectKey, ResourceVersion};

use crate::{Error, IndexFunction, Indexer, Snapshot};

/// What whoever owns an [`Indexer`] hands to those who may only read it. Cheap to clone.
///
/// Every method is that of the indexer with the same name.
pub struct Reader<T> {
    indexer: Arc<Indexer<T>>,
}

impl<T: Object> Reader<T> {
    /// A reader of this indexer.
    pub fn new(indexer: Arc<Indexer<T>>) -> Self {
        Self { indexer }
    }

    /// The whole state as it is now: see [`Indexer::snapshot`]. O(1).
    pub fn snapshot(&self) -> Snapshot<T> {
        self.indexer.snapshot()
    }

    /// The object with this key: see [`Indexer::get_by_key`]. O(1).
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.indexer.get_by_key(key)
    }

    /// The stored state of the object with the key of this one: see [`Indexer::get`]. O(1).
    pub fn get(&self, object: &T) -> Option<Arc<T>> {
        self.indexer.get(object)
    }

    /// Whether there is an object with this key: see [`Indexer::contains`]. O(1).
    pub fn contains<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.indexer.contains(key)
    }

    /// All objects, in no particular order: see [`Indexer::list`].
    pub fn list(&self) -> Vec<Arc<T>> {
        self.indexer.list()
    }

    /// The keys of all objects: see [`Indexer::keys`].
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.indexer.keys()
    }

    /// The objects that have this value in this index: see [`Indexer::by_index`].
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, Error> {
        self.indexer.by_index(index, value)
    }

    /// The objects that share a value of this index with the given one: see [`Indexer::index_of`].
    ///
    /// # Errors
    /// As [`Snapshot::index_of`].
    pub fn index_of(&self, index: &str, object: &T) -> Result<Vec<Arc<T>>, Error> {
        self.indexer.index_of(index, object)
    }

    /// The keys of the objects that have this value in this index: see [`Indexer::index_keys`].
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        self.indexer.index_keys(index, value)
    }

    /// All values of this index that some object has: see [`Indexer::index_values`].
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, Error> {
        self.indexer.index_values(index)
    }

    /// The function of an index: see [`Indexer::index_function`].
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_function(&self, index: &str) -> Result<IndexFunction<T>, Error> {
        self.indexer.index_function(index)
    }

    /// The names of the indexes: see [`Indexer::index_names`].
    pub fn index_names(&self) -> Vec<Arc<str>> {
        self.indexer.index_names()
    }

    /// The newest resource version that the store reflects: see [`Indexer::resource_version`].
    pub fn resource_version(&self) -> ResourceVersion {
        self.indexer.resource_version()
    }

    /// How many objects there are. O(1).
    pub fn len(&self) -> usize {
        self.indexer.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.indexer.is_empty()
    }

    /// Waits until the store reflects at least this version: see [`Indexer::wait_for`]. Cancel-safe.
    ///
    /// # Errors
    /// As [`Indexer::wait_for`].
    pub async fn wait_for(&self, version: &ResourceVersion) -> Result<(), Error> {
        self.indexer.wait_for(version).await
    }

    /// As [`Self::wait_for`], until a deadline. Cancel-safe.
    ///
    /// # Errors
    /// As [`Indexer::wait_for_until`].
    #[cfg(not(loom))]
    pub async fn wait_for_until(
        &self,
        version: &ResourceVersion,
        deadline: tokio::time::Instant,
    ) -> Result<(), Error> {
        self.indexer.wait_for_until(version, deadline).await
    }
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self { indexer: self.indexer.clone() }
    }
}

impl<T: Object> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reader").field(&self.indexer).finish()
    }
}
