//! The indexer: construction, versions, shutdown.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{
    Deltas, KeyRef, KnownObjects, Object, ObjectKey, PartialErrors, Parts, ResourceVersion, Sink, Transform,
    VersionUpdate, VersionUpdates, Versions,
};

use crate::index::Hasher;
use crate::index_function::{IndexFunction, Indexers, Named, join};
use crate::roots::{Functions, Roots, Writer};
use crate::sync::Mutex;
use crate::{Error, Reader, Store};

/// A concurrent collection of objects by key, with indexes and O(1) snapshots.
///
/// Shared as an `Arc`. Dereferences to [`Reader`], which has the methods for reading; the indexer adds those for
/// writing. Use [`reader`](Self::reader) to give a caller read-only access.
///
/// Every read is answered from one consistent state, and every write is one publication. Readers hold a lock for O(1),
/// regardless of how much they read; single writes hold it for about a microsecond; a [replace](Self::replace) builds
/// the new state aside and publishes it in O(1).
///
/// The store's resource version is that of the newest change it reflects. A replace sets the version, as does any
/// version that cannot be compared with the current one; all other versions only advance it, and an unset version
/// leaves it unchanged. A store that is [divided into parts](IndexerBuilder::parts) has one version per part, and a
/// replace affects only the objects of one part.
///
/// ```
/// use kinformer_core::{Keyed, Object as _};
/// use kinformer_store::Indexer;
///
/// let ports = Indexer::new();
/// let reader = ports.reader(); // for those who only read
/// let before = reader.snapshot();
/// ports.add(Keyed::new("default/web".parse()?, 80))?;
/// ports.update(Keyed::new("default/web".parse()?, 8080))?;
/// let web = reader.get(("default", "web")).ok_or("it is stored")?;
/// assert_eq!((web.key().name(), **web), ("web", 8080));
/// assert!(before.is_empty(), "a snapshot does not change");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Follows client-go 0.37 (`Indexer`, `ThreadSafeStore`), where a later event with a lower version moves the version
/// back.
#[doc(alias("ThreadSafeStore", "TypedIndexer"))]
pub struct Indexer<T> {
    /// Taken only by writers, before the readers' lock.
    pub(crate) writer: Mutex<Writer>,
    reader: Reader<T>,
    pub(crate) hasher: Hasher,
    pub(crate) transform: Option<Transform<T>>,
}

/// Builds an [`Indexer`].
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_store::{IndexFunction, IndexValues, Indexer, Keyed, Transform};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let parity = |port: &Arc<Keyed<u16>>, values: &mut IndexValues| {
///     values.push(if ***port % 2 == 0 { "even" } else { "odd" });
/// };
/// let valid = |port: Arc<Keyed<u16>>| if **port > 0 { Ok(port) } else { Err("port 0 is reserved".into()) };
/// let ports = Indexer::builder()
///     .index("parity", IndexFunction::new(parity))
///     .transform(Transform::new(valid))
///     .build()?;
/// ports.add(Keyed::by(|_| "web", 80)?)?.into_result()?;
/// assert!(ports.add(Keyed::by(|_| "none", 0)?).is_err());
/// assert_eq!((ports.len(), ports.by_index("parity", "even")?.len()), (1, 1));
/// # Ok(())
/// # }
/// ```
#[doc(alias("StoreOption", "ThreadSafeStoreOption"))]
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

    /// Sets a transform, applied exactly once to every object before it is stored.
    #[doc(alias("TransformingStore", "WithTransformer"))]
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Divides the objects into parts, each with its own lists and version; undivided by default.
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
    /// Creates an indexer without indexes: a plain store.
    #[doc(alias("NewIndexer", "NewNamespaceKeyedIndexerAndReflector", "NewStore", "NewThreadSafeStore"))]
    #[must_use]
    pub fn new() -> Self {
        Self::with(Vec::new(), None, Parts::one())
    }

    /// Returns a builder, for an indexer with indexes, a transform or parts.
    #[doc(alias = "NewIndexer")]
    pub fn builder() -> IndexerBuilder<T> {
        IndexerBuilder { indexers: Indexers::new(), transform: None, parts: Parts::one() }
    }

    fn with(functions: Vec<Named<T>>, transform: Option<Transform<T>>, parts: Parts<T>) -> Self {
        let writer = Mutex::new(Writer::new(functions.len()));
        let roots = Roots::new(functions, parts.ids());
        Self { writer, hasher: roots.hasher.clone(), reader: Reader::new(roots, parts), transform }
    }

    /// Returns a read-only handle to this store.
    pub fn reader(&self) -> Reader<T> {
        self.reader.clone()
    }

    /// Advances the version of an undivided store: its source has reached this version without a change.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.move_versions(&VersionUpdate::Advance(version.into()).into());
    }

    /// Updates the versions and nothing else. Returns the revision of the state.
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
        let reached = self.shared.waiters.reached(&versions);
        Arc::make_mut(&mut roots).versions = versions;
        drop(roots);
        drop(writer);
        self.shared.waiters.published(reached);
        revision
    }

    pub(crate) fn functions(&self) -> Arc<Functions<T>> {
        self.shared.roots.read().functions.clone()
    }
}

impl<T> Indexer<T> {
    /// Ends all current and future waits whose version is not reached, because nothing more will be written. Reads and
    /// writes keep working. Idempotent; dropping the indexer has the same effect.
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
        // A user's waker may panic, and this thread may be panicking already.
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
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, kinformer_core::Error> {
        Ok(self.write_all(deltas).errors)
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
