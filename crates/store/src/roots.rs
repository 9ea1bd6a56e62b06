//! The state of an indexer: the part shared with readers, and the part private to writers.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use kinformer_core::ObjectName;
use kinformer_core::{Error, KeyRef, Object, ObjectKey, PartId, Versions};

use crate::evaluated::Evaluated;
use crate::index::{Hasher, Index, IndexWriter, NoValues};
use crate::index_function::IndexFunction;
use crate::points::{MAX_NUMBER, Points};
use crate::tree::Tree;

/// The number of objects in one leaf of the slots.
pub(crate) const SLOT_LEAF: usize = 32;

/// One consistent state, with everything that readers can access. Cloning is O(1) and shares all data.
pub(crate) struct Roots<T> {
    /// The slots of the objects. An object stays in its slot for as long as it is stored.
    pub(crate) slots: Tree<Option<Arc<T>>, SLOT_LEAF>,
    /// Maps the hash of a key to its slot.
    pub(crate) points: Points,
    pub(crate) len: usize,
    /// One for each index function.
    pub(crate) indexes: Arc<Vec<Index>>,
    pub(crate) functions: Arc<Functions<T>>,
    /// The resource version of each part.
    pub(crate) versions: Versions,
    /// The number of published writes to objects up to this state.
    pub(crate) revision: u64,
    pub(crate) hasher: Hasher,
}

/// The index functions. New functions are appended; none is removed.
pub(crate) struct Functions<T> {
    pub(crate) all: Vec<(Arc<str>, IndexFunction<T>)>,
    /// For each function, whether its index is complete and can be queried. As long as `all`.
    pub(crate) ready: Vec<bool>,
}

impl<T> Clone for Functions<T> {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), ready: self.ready.clone() }
    }
}

impl<T> Functions<T> {
    /// Returns the number of an index that can be queried.
    pub(crate) fn position(&self, index: &str) -> Option<usize> {
        let position = self.all.iter().position(|(name, _)| **name == *index)?;
        self.is_ready(position).then_some(position)
    }

    pub(crate) fn is_ready(&self, position: usize) -> bool {
        self.ready.get(position).copied().unwrap_or_default()
    }
}

impl<T: Object> Roots<T> {
    pub(crate) fn new(functions: Vec<(Arc<str>, IndexFunction<T>)>, parts: Vec<PartId>) -> Self {
        Self {
            slots: Tree::default(),
            points: Points::default(),
            len: 0,
            indexes: Arc::new(functions.iter().map(|_| Index::default()).collect()),
            functions: Arc::new(Functions { ready: vec![true; functions.len()], all: functions }),
            versions: Versions::of_parts(parts),
            revision: 0,
            hasher: Hasher::default(),
        }
    }

    #[inline]
    pub(crate) fn object(&self, slot: u32) -> Option<&Arc<T>> {
        self.slots.get(slot)?.as_ref()
    }

    #[inline]
    pub(crate) fn find<'a>(&self, hash: u32, key: impl Fn() -> KeyRef<'a>) -> Option<u32> {
        self.points.find(hash, |slot| self.object(slot).is_some_and(|object| object.key() == key()))
    }

    #[inline]
    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<&Arc<T>> {
        self.object(self.find(hash_key(&self.hasher, key), || key)?)
    }
}

impl<T> Clone for Roots<T> {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            points: self.points.clone(),
            len: self.len,
            indexes: self.indexes.clone(),
            functions: self.functions.clone(),
            versions: self.versions.clone(),
            revision: self.revision,
            hasher: self.hasher.clone(),
        }
    }
}

pub(crate) fn full(key: Option<ObjectKey>) -> Error {
    Error::Full { key, limit: MAX_NUMBER as usize }
}

/// Hashes a key without joining its parts.
#[inline]
pub(crate) fn hash_key(hasher: &Hasher, key: KeyRef<'_>) -> u32 {
    hasher.hash_one(key) as u32
}

/// State that is private to writers.
#[derive(Default)]
pub(crate) struct Writer {
    /// Freed slots.
    pub(crate) free: Vec<u32>,
    /// The lowest slot that has never been used.
    pub(crate) next: u32,
    /// One for each index function.
    pub(crate) indexes: Vec<IndexWriter>,
}

impl Writer {
    pub(crate) fn new(indexes: usize) -> Self {
        Self { indexes: (0..indexes).map(|_| IndexWriter::default()).collect(), ..Self::default() }
    }
}

/// Edits a state. It calls no accessors, because the slots have been found before: so a panic of an accessor leaves the
/// state consistent.
pub(crate) struct Edit<'a, T> {
    pub(crate) roots: &'a mut Roots<T>,
    pub(crate) writer: &'a mut Writer,
}

impl<T: Object> Edit<'_, T> {
    /// Stores an object in the slot of its key and returns the object that it replaces. The results of the index functions
    /// start at number `first`. Does not change the version.
    pub(crate) fn upsert(
        &mut self,
        slot: Option<u32>,
        hash: u32,
        object: &Arc<T>,
        values: &Evaluated,
        first: usize,
    ) -> Result<Option<Arc<T>>, Error> {
        let (slot, old) = match slot {
            Some(slot) => (slot, self.roots.slots.get_mut(slot).replace(object.clone())),
            None => (self.insert(hash, object.clone())?, None),
        };
        let indexes = 0..self.writer.indexes.len();
        self.set_values(indexes, slot, values, first);
        Ok(old)
    }

    /// Returns whether there is room for this many more objects.
    pub(crate) fn has_room(&self, objects: usize) -> bool {
        objects <= self.writer.free.len() + (MAX_NUMBER - self.writer.next) as usize
    }

    /// Stores an object whose key is not stored yet.
    pub(crate) fn insert(&mut self, hash: u32, object: Arc<T>) -> Result<u32, Error> {
        let slot = match self.writer.free.pop() {
            Some(slot) => slot,
            None if self.writer.next < MAX_NUMBER => {
                self.writer.next += 1;
                self.writer.next - 1
            }
            None => {
                return Err(full(ObjectName::of(|| object.key()).key()));
            }
        };
        *self.roots.slots.get_mut(slot) = Some(object);
        self.roots.points.insert(hash, slot);
        self.roots.len += 1;
        Ok(slot)
    }

    /// Updates these indexes. Modifies only indexes whose values have changed.
    #[inline]
    pub(crate) fn set_values(&mut self, indexes: Range<usize>, slot: u32, values: &Evaluated, first: usize) {
        if !indexes.is_empty() {
            self.set_all_values(indexes, slot, values, first);
        }
    }

    fn set_all_values(&mut self, indexes: Range<usize>, slot: u32, values: &Evaluated, first: usize) {
        let writers = self.writer.indexes.get_mut(indexes.clone()).unwrap_or_default();
        for (offset, (number, index_writer)) in indexes.zip(writers).enumerate() {
            let values = values.result(first + offset);
            let unchanged =
                self.roots.indexes.get(number).is_none_or(|index| index_writer.has(index, slot, &values));
            if !unchanged && let Some(index) = Arc::make_mut(&mut self.roots.indexes).get_mut(number) {
                index_writer.set(index, &self.roots.hasher, slot, &values);
            }
        }
    }

    /// Removes the object in this slot.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) -> Option<Arc<T>> {
        let old = self.remove_slot(hash, slot);
        self.writer.free.push(slot);
        old
    }

    /// Empties a slot without freeing it.
    pub(crate) fn remove_slot(&mut self, hash: u32, slot: u32) -> Option<Arc<T>> {
        self.roots.points.remove(hash, slot);
        for (number, index_writer) in self.writer.indexes.iter_mut().enumerate() {
            let nowhere = self.roots.indexes.get(number).is_none_or(|i| index_writer.has(i, slot, &NoValues));
            if !nowhere && let Some(index) = Arc::make_mut(&mut self.roots.indexes).get_mut(number) {
                index_writer.set(index, &self.roots.hasher, slot, &NoValues);
            }
        }
        self.roots.len -= 1;
        let old = self.roots.slots.get_mut(slot).take();
        let leaf = slot as usize / SLOT_LEAF;
        if self.roots.slots.leaf(leaf).is_some_and(|leaf| leaf.iter().all(Option::is_none)) {
            self.roots.slots.drop_leaf(leaf);
        }
        old
    }
}
