//! What can be read of a store that is being written.

use std::fmt;
use std::sync::Arc;

use kinformer_core::internal::ask;
use kinformer_core::{KeyRef, Object, ObjectKey, PartId, PartOrKey, Parts, ResourceVersion, Versions};

use crate::roots::Roots;
use crate::sync::RwLock;
use crate::wait::Waiters;
use crate::{Error, IndexFunction, Snapshot};

/// Reads an [`Indexer`](crate::Indexer), whose state at the moment of each call it gives, owned. Cheap to clone.
///
/// A [`Snapshot`] has the same methods and more, by reference. Several questions about one state need one, and so does
/// a walk that is to count no references.
///
/// A reader keeps the objects alive, and the indexer not: when that is dropped, nothing is written any more, and waits
/// for versions end.
pub struct Reader<T> {
    pub(crate) shared: Arc<Shared<T>>,
}

/// What an indexer and its readers have in common.
pub(crate) struct Shared<T> {
    /// Taken by readers for O(1). No user code but accessors runs while it is held.
    pub(crate) roots: RwLock<Arc<Roots<T>>>,
    pub(crate) waiters: Waiters,
    pub(crate) parts: Parts<T>,
}

impl<T: Object> Reader<T> {
    pub(crate) fn new(roots: Roots<T>, parts: Parts<T>) -> Self {
        let shared = Shared { roots: RwLock::new(Arc::new(roots)), waiters: Waiters::new(), parts };
        Self { shared: Arc::new(shared) }
    }

    /// The whole state as it is now: objects, indexes, version. O(1).
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot::new(self.shared.roots.read().clone())
    }

    /// The object with this key. O(1).
    ///
    /// ```
    /// # use kinformer_core::{KeyRef, Keyed, Object};
    /// # let indexer = kinformer_store::Indexer::new();
    /// # indexer.add(Keyed::new("default/web".parse()?, ()))?.into_result()?;
    /// let web = indexer.get(("default", "web")).ok_or("it is stored")?;
    /// assert!(indexer.get(KeyRef::new("default", "web")).is_some());
    /// assert!(indexer.get(web.key()).is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Follows client-go 1.37 (`Store.GetByKey`; `Store.Get(object)` is this with the object's key).
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.shared.roots.read().get(key.into()).cloned()
    }

    /// Whether there is an object with this key. O(1).
    pub fn contains<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.shared.roots.read().get(key.into()).is_some()
    }

    /// All objects, each once, in no particular order. O(n).
    pub fn list(&self) -> Vec<Arc<T>> {
        self.snapshot().list()
    }

    /// The keys of all objects, in no particular order. O(n), one allocation each.
    ///
    /// Follows client-go 1.37 (`Store.ListKeys`).
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot().keys()
    }

    /// The objects that have this value in this index, in no particular order. O(m) for m objects.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, Error> {
        let snapshot = self.snapshot();
        let mut objects = Vec::with_capacity(snapshot.index_len(index, value)?);
        snapshot.by_index(index, value)?.for_each(|object| objects.push(object.clone()));
        Ok(objects)
    }

    /// The objects that share a value of this index with the given one, each once. The object need not be stored.
    ///
    /// # Errors
    /// As [`Snapshot::index_of`].
    ///
    /// Follows client-go 1.37 (`Indexer.Index`).
    pub fn index_of(&self, index: &str, object: &Arc<T>) -> Result<Vec<Arc<T>>, Error> {
        Ok(self.snapshot().index_of(index, object)?.into_iter().cloned().collect())
    }

    /// The keys of the objects that have this value in this index.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        self.snapshot().index_keys(index, value)
    }

    /// All values of this index that some object has, in no particular order.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    ///
    /// Follows client-go 1.37 (`Indexer.ListIndexFuncValues`).
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, Error> {
        Ok(self.snapshot().index_values(index)?.cloned().collect())
    }

    /// The function of an index, to be asked about objects that are not stored.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_function(&self, index: &str) -> Result<IndexFunction<T>, Error> {
        self.snapshot().index_function(index)
    }

    /// The names of the indexes, in the order in which they were added.
    pub fn index_names(&self) -> Vec<Arc<str>> {
        self.snapshot().index_names().cloned().collect()
    }

    /// The newest resource version that the store reflects, of each part.
    pub fn resource_versions(&self) -> Versions {
        self.shared.roots.read().versions.clone()
    }

    /// How many objects there are. O(1).
    pub fn len(&self) -> usize {
        self.shared.roots.read().len
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a part of the store reflects at least this version, for example that of one's own write to the object
    /// with this key. An unset version is reached at once; a part without a version yet is waited for. A store that is not
    /// divided has one part, [`PartId::ONLY`], in which all keys are.
    ///
    /// Cancel-safe. Any number of tasks can wait; each is woken once, when its own version is there.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the store was [stopped](crate::Indexer::stop) first; [`Error::Incomparable`] when the
    /// part has a version that cannot be compared with this one; [`Error::NoPart`] at once if there is no such part, or
    /// it does not follow from the key.
    pub async fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Result<(), Error> {
        let part = self.part_of(place)?;
        let current = || self.resource_versions().of(part).clone();
        self.shared.waiters.wait(part, version.clone(), current).await
    }

    /// The part that is meant.
    ///
    /// # Errors
    /// [`Error::NoPart`].
    pub fn part_of<'k>(&self, place: impl Into<PartOrKey<'k>>) -> Result<PartId, Error> {
        let (parts, place) = (&self.shared.parts, place.into());
        let part = match place {
            PartOrKey::Part(part) => Some(part),
            // A partition that panics names no part.
            PartOrKey::Key(key) => ask(|| parts.of_key(key)).ok().flatten(),
            _ => None,
        };
        let known = part.filter(|part| part.number() < parts.count());
        known.ok_or_else(|| Error::NoPart { place: place.to_string(), parts: parts.count() })
    }

    /// As [`Self::wait_for`], until a deadline. Needs a tokio timer. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`] as well.
    #[cfg(not(loom))]
    pub async fn wait_for_until<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
        deadline: tokio::time::Instant,
    ) -> Result<(), Error> {
        let part = self.part_of(place)?;
        match tokio::time::timeout_at(deadline, self.wait_for(part, version)).await {
            Ok(result) => result,
            Err(_) => {
                let reached = self.resource_versions().of(part).clone();
                Err(Error::DeadlineExceeded { wanted: version.clone(), reached })
            }
        }
    }

    /// Whether nothing is written any more: the indexer was [stopped](crate::Indexer::stop) or dropped.
    pub fn is_stopped(&self) -> bool {
        self.shared.waiters.is_stopped()
    }

    pub(crate) fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct(name)
            .field("len", &snapshot.len())
            .field("resource_versions", snapshot.resource_versions())
            .field("indexes", &snapshot.index_names().collect::<Vec<_>>())
            .finish()
    }
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T: Object> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("Reader", f)
    }
}
