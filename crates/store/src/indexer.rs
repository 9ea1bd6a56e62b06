//! The indexer: building it and reading from it.

use std::fmt;
use std::sync::Arc;

use kinformer_core::{
    Deltas, KeyRef, KnownObjects, Object, ObjectKey, Report, ResourceVersion, Sink, Transform, VersionUpdate,
};

use crate::index::Hasher;
use crate::index_function::{IndexFunction, Indexers, join};
use crate::roots::{Functions, Roots, Writer};
use crate::sync::{Mutex, RwLock};
use crate::wait::Waiters;
use crate::{Error, Snapshot, Store};

/// A concurrent collection of objects by key, with indexes and O(1) snapshots.
///
/// Share it as an `Arc`. Every read is answered from one consistent state; every write is one publication.
/// Readers hold a lock for O(1), however large what they read is; single writes for a microsecond; a
/// [replace](Self::replace) builds the new state aside and publishes it in O(1).
///
/// The store's resource version is that of the newest change it reflects: a replace sets it, as does anything
/// that cannot be compared with it; everything else only moves it forward, and what has no version leaves
/// it as it is.
///
/// Follows client-go 1.37 (`Indexer`, `ThreadSafeStore`), where a later event with a lower version moves
/// the version back.
pub struct Indexer<T> {
    /// Taken first, by writers only.
    pub(crate) writer: Mutex<Writer>,
    /// What readers take. No user code but accessors runs while it or the writer's lock is held.
    pub(crate) roots: RwLock<Arc<Roots<T>>>,
    pub(crate) hasher: Hasher,
    pub(crate) transform: Option<Transform<T>>,
    pub(crate) waiters: Waiters,
}

/// Puts an [`Indexer`] together.
#[must_use = "a builder does nothing until it builds"]
pub struct IndexerBuilder<T> {
    indexers: Indexers<T>,
    transform: Option<Transform<T>>,
}

impl<T: Object> IndexerBuilder<T> {
    /// Adds an index.
    pub fn index(mut self, name: impl Into<Arc<str>>, function: IndexFunction<T>) -> Self {
        self.indexers = self.indexers.index(name, function);
        self
    }

    /// Adds several indexes.
    pub fn indexers(
        mut self,
        indexers: impl IntoIterator<Item = (impl Into<Arc<str>>, IndexFunction<T>)>,
    ) -> Self {
        for (name, function) in indexers {
            self.indexers = self.indexers.index(name, function);
        }
        self
    }

    /// Sets what every object passes exactly once before it is stored.
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Builds the indexer.
    ///
    /// # Errors
    /// [`Error::IndexerConflict`]: two indexes have the same name.
    pub fn build(self) -> Result<Indexer<T>, Error> {
        let functions = join(&[], self.indexers)?;
        let writer = Writer::new(functions.len());
        let roots = Roots::new(functions);
        Ok(Indexer {
            hasher: roots.hasher.clone(),
            writer: Mutex::new(writer),
            roots: RwLock::new(Arc::new(roots)),
            transform: self.transform,
            waiters: Waiters::new(),
        })
    }
}

impl<T: Object> Indexer<T> {
    /// An indexer without indexes, which is a plain store.
    #[must_use]
    pub fn new() -> Self {
        let roots = Roots::new(Vec::new());
        Self {
            hasher: roots.hasher.clone(),
            writer: Mutex::new(Writer::new(0)),
            roots: RwLock::new(Arc::new(roots)),
            transform: None,
            waiters: Waiters::new(),
        }
    }

    /// For an indexer with indexes or a transform.
    pub fn builder() -> IndexerBuilder<T> {
        IndexerBuilder { indexers: Indexers::new(), transform: None }
    }

    /// The whole state as it is now: objects, indexes, version. O(1).
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot::new(self.roots.read().clone())
    }

    /// The object with this key. O(1).
    ///
    /// ```
    /// # use kinformer_core::{KeyRef, Keyed, ObjectKey};
    /// # let indexer = kinformer_store::Indexer::new();
    /// # indexer.add(Keyed::new("default/web".parse()?, ()))?.into_result()?;
    /// assert!(indexer.get_by_key(("default", "web")).is_some());
    /// assert!(indexer.get_by_key(KeyRef::new("default", "web")).is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.roots.read().get(key.into()).cloned()
    }

    /// The stored state of the object with the key of this one. O(1).
    pub fn get(&self, object: &T) -> Option<Arc<T>> {
        self.get_by_key(object.key())
    }

    /// Whether there is an object with this key. O(1).
    pub fn contains<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.roots.read().get(key.into()).is_some()
    }

    /// All objects, each once, in no particular order. To walk them by reference, take a [snapshot](Self::snapshot).
    pub fn list(&self) -> Vec<Arc<T>> {
        self.snapshot().list()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot().keys()
    }

    /// The objects that have this value in this index. To walk them by reference, take a
    /// [snapshot](Self::snapshot).
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, Error> {
        let snapshot = self.snapshot();
        let mut objects = Vec::with_capacity(snapshot.index_len(index, value)?);
        snapshot.by_index(index, value)?.for_each(|object| objects.push(object.clone()));
        Ok(objects)
    }

    /// The objects that share a value of this index with the given one, each once.
    ///
    /// # Errors
    /// As [`Snapshot::index_of`].
    pub fn index_of(&self, index: &str, object: &T) -> Result<Vec<Arc<T>>, Error> {
        Ok(self.snapshot().index_of(index, object)?.into_iter().cloned().collect())
    }

    /// The keys of the objects that have this value in this index.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        self.snapshot().index_keys(index, value)
    }

    /// All values of this index that some object has.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
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

    /// The names of the indexes.
    pub fn index_names(&self) -> Vec<Arc<str>> {
        self.snapshot().index_names().cloned().collect()
    }

    /// The newest resource version that the store reflects.
    pub fn resource_version(&self) -> ResourceVersion {
        self.roots.read().version.clone()
    }

    /// How many objects there are. O(1).
    pub fn len(&self) -> usize {
        self.roots.read().len
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The source has reached this version without a change.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.move_version(&VersionUpdate::Advance(version.into()));
    }

    /// Moves the version, and changes nothing else. Returns the revision of the state.
    pub(crate) fn move_version(&self, update: &VersionUpdate) -> u64 {
        if update.is_none() {
            return self.roots.read().revision;
        }
        let writer = self.writer.lock();
        let mut roots = self.roots.write();
        let revision = roots.revision;
        let mut version = roots.version.clone();
        update.apply_to(&mut version);
        if version == roots.version {
            return revision;
        }
        Arc::make_mut(&mut roots).version = version.clone();
        drop(roots);
        drop(writer);
        self.waiters.published(&version);
        revision
    }

    /// Waits until the store reflects at least this version, for example that of one's own write. An unset
    /// version is reached at once; a store without a version yet is waited for.
    ///
    /// Cancel-safe. Any number of tasks can wait; each is woken once, when its own version is there.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the store was [stopped](Self::stop) first; [`Error::Incomparable`] when the
    /// store has a version that cannot be compared with this one.
    pub async fn wait_for(&self, version: &ResourceVersion) -> Result<(), Error> {
        self.waiters.wait(version.clone(), || self.resource_version()).await
    }

    /// As [`Self::wait_for`], until a deadline. Needs a tokio timer.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`] as well.
    #[cfg(not(loom))]
    pub async fn wait_for_until(
        &self,
        version: &ResourceVersion,
        deadline: tokio::time::Instant,
    ) -> Result<(), Error> {
        match tokio::time::timeout_at(deadline, self.wait_for(version)).await {
            Ok(result) => result,
            Err(_) => {
                Err(Error::DeadlineExceeded { wanted: version.clone(), reached: self.resource_version() })
            }
        }
    }

    /// Nothing will be written any more: ends all waits, those to come as well, unless what they wait for
    /// is already there. Reads and writes go on working. Idempotent.
    pub fn stop(&self) {
        self.waiters.stop(&self.resource_version());
    }

    /// Whether [`Self::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.waiters.is_stopped()
    }

    pub(crate) fn functions(&self) -> Arc<Functions<T>> {
        self.roots.read().functions.clone()
    }
}

impl<T: Object> Default for Indexer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for IndexerBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexerBuilder")
            .field("indexers", &self.indexers)
            .field("transform", &self.transform)
            .finish()
    }
}

impl<T: Object> fmt::Debug for Indexer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct("Indexer")
            .field("len", &snapshot.len())
            .field("resource_version", snapshot.resource_version())
            .field("indexes", &snapshot.index_names().collect::<Vec<_>>())
            .finish()
    }
}

impl<T: Object> Sink<T> for Indexer<T> {
    fn apply(&self, deltas: Deltas<T>) -> Result<Report, kinformer_core::Error> {
        Ok(self.write_all(deltas).report)
    }
}

impl<T: Object> KnownObjects<T> for Indexer<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        Indexer::keys(self)
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        Indexer::get_by_key(self, key)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        self.snapshot().iter().for_each(visit);
    }
}

impl<T: Object> Store<T> for Indexer<T> {
    fn list(&self) -> Vec<Arc<T>> {
        Indexer::list(self)
    }

    fn resource_version(&self) -> ResourceVersion {
        Indexer::resource_version(self)
    }

    fn len(&self) -> usize {
        Indexer::len(self)
    }
}
