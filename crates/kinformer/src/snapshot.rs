//! One state of a store.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kinformer_core::{KeyRef, ObjectKey, Versions};
use kinformer_kube::{Packed, PackedRef};
use kinformer_store::Error;

use crate::engine::state::{State, changes_since};

/// The objects of an [`Informer`](crate::Informer) at one moment. Cheap to clone; it does not change.
pub struct Snapshot<K> {
    state: Arc<dyn State>,
    kind: PhantomData<fn() -> K>,
}

/// An object that differs between two [snapshots](Snapshot::changes_since): it was added, changed or deleted.
#[non_exhaustive]
pub struct Difference<'a, K> {
    /// The state in the earlier snapshot; `None` if the object was not in it.
    pub old: Option<PackedRef<'a, K>>,
    /// The state in the later snapshot; `None` if the object is not in it any more.
    pub new: Option<PackedRef<'a, K>>,
}

impl<K> Snapshot<K> {
    pub(crate) fn new(state: Arc<dyn State>) -> Self {
        Self { state, kind: PhantomData }
    }

    /// The object with this key. O(1).
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<PackedRef<'_, K>> {
        self.state.get(key.into()).map(PackedRef::new)
    }

    /// Whether there is an object with this key. O(1).
    pub fn contains<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.state.get(key.into()).is_some()
    }

    /// How many objects there are. O(1).
    pub fn len(&self) -> usize {
        self.state.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest resource version that it reflects, of each part of the informer.
    pub fn resource_versions(&self) -> &Versions {
        self.state.resource_versions()
    }

    /// The revision of the store: of two snapshots of one store the higher one is the later one.
    pub fn revision(&self) -> u64 {
        self.state.revision()
    }

    /// All objects, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = PackedRef<'_, K>> {
        self.state.iter().map(PackedRef::new)
    }

    /// Visits all objects, in no particular order; faster than [`Self::iter`].
    pub fn for_each<'a>(&'a self, mut visit: impl FnMut(PackedRef<'a, K>)) {
        self.state.for_each(&mut |object| visit(PackedRef::new(object)));
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Packed<K>> {
        let mut objects = Vec::with_capacity(self.len());
        self.for_each(|object| objects.push(object.into_owned()));
        objects
    }

    /// All objects in the order of their keys.
    pub fn ordered(&self) -> Vec<PackedRef<'_, K>> {
        self.state.ordered().into_iter().map(PackedRef::new).collect()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.state.keys()
    }

    /// The objects that have this value in this index.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<PackedRef<'_, K>>, Error> {
        let mut objects = Vec::new();
        self.state.by_index(index, value, &mut |object| objects.push(PackedRef::new(object)))?;
        Ok(objects)
    }

    /// How many objects have this value in this index. O(1).
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_len(&self, index: &str, value: &str) -> Result<usize, Error> {
        self.state.index_len(index, value)
    }

    /// All values of this index that some object has.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, Error> {
        self.state.index_values(index)
    }

    /// What has become different since an earlier snapshot of the same informer: each object that was added, changed or
    /// deleted, once and in no particular order.
    ///
    /// Takes time in proportion to what was written in between, whatever the number of objects. Of an object that was
    /// written several times it shows the first and the last state, and nothing of one that was added and deleted again. In
    /// snapshots of metadata an object that is fetched as a whole now, at the version that it had, has not changed.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(earlier: kinformer::Snapshot<Pod>, later: kinformer::Snapshot<Pod>) {
    /// for change in later.changes_since(&earlier) {
    ///     match (change.old, change.new) {
    ///         (None, Some(pod)) => println!("{} was added", pod.key()),
    ///         (Some(_), Some(pod)) => println!("{} was changed", pod.key()),
    ///         (Some(pod), None) => println!("{} was deleted", pod.key()),
    ///         (None, None) => {}
    ///     }
    /// }
    /// # }
    /// ```
    pub fn changes_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = Difference<'a, K>> {
        changes_since(&*self.state, &*earlier.state)
            .map(|(old, new)| Difference { old: old.map(PackedRef::new), new: new.map(PackedRef::new) })
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> Vec<Arc<str>> {
        self.state.index_names()
    }
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self::new(self.state.clone())
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("objects", &self.len())
            .field("resource_versions", self.resource_versions())
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

impl<K> Clone for Difference<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Difference<'_, K> {}

impl<K> fmt::Debug for Difference<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Difference").field("old", &self.old).field("new", &self.new).finish()
    }
}
