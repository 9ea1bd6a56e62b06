//! The indexer: building it, its version, its end.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{
    Deltas, KeyRef, KnownObjects, Object, ObjectKey, Parts, Report, ResourceVersion, Sink, Transform,
    VersionUpdate, VersionUpdates, Versions,
};

use crate::index::Hasher;
use crate::index_function::{IndexFunction, Indexers, Named, join};
use crate::roots::{Functions, Roots, Writer};
use crate::sync::Mutex;
use crate::{Error, Reader, Store};

/// A concurrent collection of objects by key, with indexes and O(1) snapshots.
///
/// Share it as an `Arc`. It is read by the methods of [`Reader`], to which it dereferences; here is what writes it. A
/// [`reader`](Self::reader) of its own is for a caller that may only read.
///
/// Every read is answered from one consistent state; every write is one publication. Readers hold a lock for O(1),
/// however large what they read is; single writes for a microsecond; a [replace](Self::replace) builds the new state
/// aside and publishes it in O(1).
///
/// The store's resource version is that of the newest change it reflects: a replace sets it, as does anything
/// that cannot be compared with it; everything else only moves it forward, and what has no version leaves
/// it as it is. A store that is [divided into parts](IndexerBuilder::parts) has a version for each part, and a replace is
/// about the objects of one part.
///
/// Follows client-go 1.37 (`Indexer`, `ThreadSafeStore`), where a later event with a lower version moves
/// the version back.
pub struct Indexer<T> {
    /// Taken first, by writers only; before the lock of the readers.
    pub(crate) writer: Mutex<Writer>,
    reader: Reader<T>,
    pub(crate) hasher: Hasher,
    pub(crate) transform: Option<Transform<T>>,
}

/// Puts an [`Indexer`] together.
#[must_use = "a builder does nothing until it builds"]
pub struct IndexerBuilder<T> {
    indexers: Indexers<T>,
    transform: Option<Transform<T>>,
    parts: Parts<T>,
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

    /// How the objects are divided into parts, each with lists and a version of its own; they are not by default.
    pub fn parts(mut self, parts: Parts<T>) -> Self {
        self.parts = parts;
        self
    }

    /// Builds the indexer.
    ///
    /// # Errors
    /// [`Error::IndexerConflict`]: two indexes have the same name.
    pub fn build(self) -> Result<Indexer<T>, Error> {
        Ok(Indexer::with(join(&[], self.indexers)?, self.transform, self.parts))
    }
}

impl<T: Object> Indexer<T> {
    /// An indexer without indexes, which is a plain store.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Vec::new(), None, Parts::one())
    }

    /// For an indexer with indexes or a transform.
    pub fn builder() -> IndexerBuilder<T> {
        IndexerBuilder { indexers: Indexers::new(), transform: None, parts: Parts::one() }
    }

    fn with(functions: Vec<Named<T>>, transform: Option<Transform<T>>, parts: Parts<T>) -> Self {
        let writer = Mutex::new(Writer::new(functions.len()));
        let roots = Roots::new(functions, parts.count());
        Self { writer, hasher: roots.hasher.clone(), reader: Reader::new(roots, parts), transform }
    }

    /// What reads this store and cannot write it.
    pub fn reader(&self) -> Reader<T> {
        self.reader.clone()
    }

    /// The source, of a store that is not divided into parts, has reached this version without a change.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.move_versions(&VersionUpdate::Advance(version.into()).into());
    }

    /// Moves versions, and changes nothing else. Returns the revision of the state.
    pub(crate) fn move_versions(&self, updates: &VersionUpdates) -> u64 {
        if updates.is_none() {
            return self.shared.roots.read().revision;
        }
        let writer = self.writer.lock();
        let mut roots = self.shared.roots.write();
        let revision = roots.revision;
        let mut versions = roots.versions.clone();
        if !updates.apply_to(&mut versions) {
            return revision;
        }
        Arc::make_mut(&mut roots).versions = versions.clone();
        drop(roots);
        drop(writer);
        self.shared.waiters.published(&versions);
        revision
    }

    pub(crate) fn functions(&self) -> Arc<Functions<T>> {
        self.shared.roots.read().functions.clone()
    }
}

impl<T> Indexer<T> {
    /// Nothing will be written any more: ends all waits, those to come as well, unless what they wait for
    /// is already there. Reads and writes go on working. Idempotent; dropping the indexer does the same.
    pub fn stop(&self) {
        let reached = self.shared.roots.read().versions.clone();
        self.shared.waiters.stop(&reached);
    }
}

impl<T> Deref for Indexer<T> {
    type Target = Reader<T>;

    fn deref(&self) -> &Reader<T> {
        &self.reader
    }
}

impl<T> Drop for Indexer<T> {
    fn drop(&mut self) {
        // A waker of the user's may panic, and the thread may be panicking.
        _ = contain(|| self.stop());
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
        self.describe("Indexer", f)
    }
}

impl<T: Object> Sink<T> for Indexer<T> {
    fn apply(&self, deltas: Deltas<T>) -> Result<Report, kinformer_core::Error> {
        Ok(self.write_all(deltas).report)
    }
}

impl<T: Object> KnownObjects<T> for Indexer<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        Reader::keys(self)
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        Reader::get(self, key)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        self.snapshot().iter().for_each(visit);
    }
}

impl<T: Object> Store<T> for Indexer<T> {
    fn list(&self) -> Vec<Arc<T>> {
        Reader::list(self)
    }

    fn resource_versions(&self) -> Versions {
        Reader::resource_versions(self)
    }

    fn len(&self) -> usize {
        Reader::len(self)
    }
}
