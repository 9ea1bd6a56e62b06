//! Read access to a store that is being written.

use std::fmt;
use std::sync::Arc;

#[cfg(not(loom))]
use kinformer_core::Wait;
use kinformer_core::internal::contain;
use kinformer_core::{KeyRef, Object, ObjectKey, PartId, PartOrKey, Parts, ResourceVersion, Versions};

use crate::roots::Roots;
use crate::sync::RwLock;
use crate::wait::Waiters;
use crate::{Error, IndexFunction, Snapshot};

/// A read-only handle to an [`Indexer`](crate::Indexer). Each call returns owned data from the state at that moment.
/// Cheap to clone.
///
/// A [`Snapshot`] has the same methods and more, by reference. Use one for several queries of the same state, or to
/// iterate without touching reference counts.
///
/// A reader keeps the objects alive, but not the indexer: once the indexer is dropped, nothing more is written, and
/// waits for versions end.
pub struct Reader<T> {
    pub(crate) shared: Arc<Shared<T>>,
}

/// The data shared by an indexer and its readers.
pub(crate) struct Shared<T> {
    /// Held by readers for O(1). No user code except accessors runs while it is held.
    pub(crate) roots: RwLock<Arc<Roots<T>>>,
    pub(crate) waiters: Waiters,
    pub(crate) parts: Parts<T>,
}

impl<T: Object> Reader<T> {
    pub(crate) fn new(roots: Roots<T>, parts: Parts<T>) -> Self {
        let shared = Shared { roots: RwLock::new(Arc::new(roots)), waiters: Waiters::new(), parts };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the current state: objects, indexes, versions. O(1).
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// let before = pods.snapshot();
    /// pods.delete_by_key(("default", "web-0"));
    /// assert!(before.contains(("default", "web-0")));
    /// assert!(!pods.snapshot().contains(("default", "web-0")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot::new(self.shared.roots.read().clone())
    }

    /// Returns the object with this key. O(1).
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
    /// Follows client-go 0.37 (`Store.GetByKey`; `Store.Get(object)` is this with the object's key).
    #[doc(alias = "GetByKey")]
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.shared.roots.read().get(key.into()).cloned()
    }

    /// Returns whether there is an object with this key. O(1).
    pub fn contains<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.shared.roots.read().get(key.into()).is_some()
    }

    /// Returns all objects, each once, in no particular order. O(n).
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// assert_eq!(pods.list(), [pod("default/web-0", 1).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list(&self) -> Vec<Arc<T>> {
        self.snapshot().list()
    }

    /// Returns the keys of all objects, in no particular order. O(n), one allocation per key.
    ///
    /// Follows client-go 0.37 (`Store.ListKeys`).
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot().keys()
    }

    /// Returns the objects with this value in this index, in no particular order. O(m) for m objects.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::builder().index("namespace", IndexFunction::by_namespace()).build()?;
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("other/web-0", 2))?;
    /// assert_eq!(pods.by_index("namespace", "other")?, [pod("other/web-0", 2).into()]);
    /// assert!(pods.by_index("node", "n1").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, Error> {
        let snapshot = self.snapshot();
        let mut objects = Vec::with_capacity(snapshot.index_len(index, value)?);
        snapshot.by_index(index, value)?.for_each(|object| objects.push(object.clone()));
        Ok(objects)
    }

    /// Returns the objects that share a value of this index with the given object, each once. The given object need not
    /// be stored.
    ///
    /// # Errors
    /// As [`Snapshot::index_of`].
    ///
    /// Follows client-go 0.37 (`Indexer.Index`).
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::builder().index("namespace", IndexFunction::by_namespace()).build()?;
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("other/web-0", 2))?;
    /// let same_namespace = pods.index_of("namespace", &pod("other/new", 0).into())?;
    /// assert_eq!(same_namespace, [pod("other/web-0", 2).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn index_of(&self, index: &str, object: &Arc<T>) -> Result<Vec<Arc<T>>, Error> {
        Ok(self.snapshot().index_of(index, object)?.into_iter().cloned().collect())
    }

    /// Returns the keys of the objects with this value in this index.
    ///
    /// ```
    /// use kinformer_core::{Keyed, ObjectKey};
    /// use kinformer_store::{IndexFunction, Indexer};
    ///
    /// let ports = Indexer::builder().index("namespace", IndexFunction::by_namespace()).build()?;
    /// ports.add(Keyed::new("default/web".parse()?, 80))?;
    /// ports.add(Keyed::new("other/web".parse()?, 81))?;
    /// let keys = ports.index_keys("namespace", "other")?; // for a queue of keys
    /// assert_eq!(keys, ["other/web".parse::<ObjectKey>()?]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        self.snapshot().index_keys(index, value)
    }

    /// Returns all values in this index, in no particular order.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    ///
    /// Follows client-go 0.37 (`Indexer.ListIndexFuncValues`).
    #[doc(alias = "ListIndexFuncValues")]
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, Error> {
        Ok(self.snapshot().index_values(index)?.cloned().collect())
    }

    /// Returns the function of an index, for example to call it with objects that are not stored.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]: there is no index of this name.
    #[doc(alias = "GetIndexers")]
    pub fn index_function(&self, index: &str) -> Result<IndexFunction<T>, Error> {
        self.snapshot().index_function(index)
    }

    /// Returns the names of the indexes, in the order in which they were added.
    #[doc(alias = "GetIndexers")]
    pub fn index_names(&self) -> Vec<Arc<str>> {
        self.snapshot().index_names().cloned().collect()
    }

    /// Returns the newest resource version that the store reflects, by part.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_versions(&self) -> Versions {
        self.shared.roots.read().versions.clone()
    }

    /// Returns the number of objects. O(1).
    pub fn len(&self) -> usize {
        self.shared.roots.read().len
    }

    /// Returns whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a part of the store reflects at least this version, for example the version of your own write to the
    /// object with this key. Returns immediately if `version` is unset; waits if the part has no version yet. An
    /// undivided store has one part, [`PartId::ONLY`], which contains all keys.
    ///
    /// Any number of tasks can wait; each is woken once, when its version has been reached. [`Wait::until`] sets a deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_core::Keyed;
    /// # use kinformer_store::*;
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// use kinformer_core::{PartId, ResourceVersion};
    ///
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// let version = ResourceVersion::number(7);
    /// let (reached, ()) = tokio::join!(pods.wait_for(PartId::ONLY, &version), async { pods.bookmark(7u64) });
    /// reached?;
    /// assert_eq!(pods.resource_versions().of(PartId::ONLY), &7u64.into());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future removes its waiter, so the store holds nothing for it. A later call returns at once if the
    /// store still has the version: a list may have set it back since.
    ///
    /// # Errors
    /// * [`Error::Stopped`]: the store was [stopped](crate::Indexer::stop) before it reached the version.
    /// * [`Error::Incomparable`]: the version of the part cannot be compared with this one.
    /// * [`Error::NoPart`]: there is no such part, or neither the key nor a stored object determines one: at once, or when the
    ///   parts [change](crate::Indexer::apply_parts).
    /// * [`Error::PartRemoved`]: the part was removed before it reached the version.
    /// * [`Error::DeadlineExceeded`]: the deadline passed before.
    #[cfg(not(loom))]
    pub fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let place = place.into();
        let wait = async move { self.reached(place, version).await };
        let at_deadline = move || {
            let reached = self.resource_versions().of(self.part_of(place)?).clone();
            Err(Error::DeadlineExceeded { wanted: version.clone(), reached })
        };
        Wait::new(wait, at_deadline)
    }

    #[cfg(loom)]
    pub async fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Result<(), Error> {
        self.reached(place.into(), version).await
    }

    async fn reached(&self, place: PartOrKey<'_>, version: &ResourceVersion) -> Result<(), Error> {
        loop {
            let part = self.part_of(place)?;
            let exists = || self.shared.parts.exists(part);
            let current = || exists().then(|| self.resource_versions().of(part).clone());
            match (self.shared.waiters.wait(part, version.clone(), current).await, place) {
                // The key may have another part now.
                (Err(Error::PartRemoved { .. }), PartOrKey::Key(_)) => {}
                (reached, _) => return reached,
            }
        }
    }

    /// Returns the part with this number, or of all objects with this key. If the key does not determine it, it is that of the stored
    /// object.
    ///
    /// # Errors
    /// [`Error::NoPart`]: there is no such part, or the key does not determine one and has no object.
    pub fn part_of<'k>(&self, place: impl Into<PartOrKey<'k>>) -> Result<PartId, Error> {
        let (parts, place) = (&self.shared.parts, place.into());
        let part = match place {
            PartOrKey::Part(part) => Some(part),
            // A partition that panics determines no part.
            PartOrKey::Key(key) => {
                let of_stored = || self.get(key).and_then(|object| parts.of(&object));
                contain(|| parts.of_key(key).or_else(of_stored)).ok().flatten()
            }
            _ => None,
        };
        let known = part.filter(|part| parts.exists(*part));
        known.ok_or_else(|| Error::NoPart { place: place.to_string(), parts: parts.count() })
    }

    /// Waits until the store has a state after this [revision](crate::Snapshot::revision): until a write of objects has been
    /// published. Returns `false` if the store was [stopped](crate::Indexer::stop) before. Each publication wakes all these
    /// waits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// let ports = Indexer::<Keyed<u32>>::new();
    /// let reader = ports.reader();
    /// let sums = tokio::spawn(async move {
    ///     let (mut sum, mut revision) = (0, 0);
    ///     while reader.changed(revision).await {
    ///         let snapshot = reader.snapshot();
    ///         (sum, revision) = (snapshot.iter().map(|port| ***port).sum(), snapshot.revision());
    ///     }
    ///     sum // of the last state: several writes may be one change
    /// });
    /// ports.add(Keyed::new("default/web".parse()?, 80))?;
    /// ports.add(Keyed::new("default/db".parse()?, 5432))?;
    /// # tokio::task::yield_now().await;
    /// ports.stop();
    /// assert_eq!(sums.await?, 5512);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future removes its waiter. A later call returns at once if there is a later state.
    pub async fn changed(&self, revision: u64) -> bool {
        self.shared.waiters.changed(|| self.shared.roots.read().revision > revision).await
    }

    /// Returns whether writing has ended: the indexer was [stopped](crate::Indexer::stop) or dropped.
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
