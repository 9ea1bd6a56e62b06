//! The state of an indexer: what readers share, and what only writers need.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use kinformer_core::internal::readable_key;
use kinformer_core::{Error, KeyRef, Object, ObjectKey, Versions};

use crate::evaluated::Evaluated;
use crate::index::{Hasher, Index, IndexWriter, NoValues};
use crate::index_function::IndexFunction;
use crate::points::{MAX_NUMBER, Points};
use crate::tree::Tree;

/// How many objects a leaf of the slots holds.
pub(crate) const SLOT_LEAF: usize = 32;

/// One consistent state: all that a reader can ask for. Cloning is O(1) and shares everything.
pub(crate) struct Roots<T> {
    /// Every object has a slot, which it keeps as long as it is there.
    pub(crate) slots: Tree<Option<Arc<T>>, SLOT_LEAF>,
    /// From the hash of a key to its slot.
    pub(crate) points: Points,
    pub(crate) len: usize,
    /// One for each index function.
    pub(crate) indexes: Arc<Vec<Index>>,
    pub(crate) functions: Arc<Functions<T>>,
    /// The resource version of each part.
    pub(crate) versions: Versions,
    /// How many writes to objects were published up to this state.
    pub(crate) revision: u64,
    pub(crate) hasher: Hasher,
}

/// The index functions. Only ever grows at its end.
pub(crate) struct Functions<T> {
    pub(crate) all: Vec<(Arc<str>, IndexFunction<T>)>,
    /// Whether it may be asked, or is still being filled. As long as `all`.
    pub(crate) ready: Vec<bool>,
}

impl<T> Clone for Functions<T> {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), ready: self.ready.clone() }
    }
}

impl<T> Functions<T> {
    /// The number of an index that may be asked.
    pub(crate) fn position(&self, index: &str) -> Option<usize> {
        let position = self.all.iter().position(|(name, _)| **name == *index)?;
        self.is_ready(position).then_some(position)
    }

    pub(crate) fn is_ready(&self, position: usize) -> bool {
        self.ready.get(position).copied().unwrap_or_default()
    }
}

impl<T: Object> Roots<T> {
    pub(crate) fn new(functions: Vec<(Arc<str>, IndexFunction<T>)>, parts: u32) -> Self {
        Self {
            slots: Tree::default(),
            points: Points::default(),
            len: 0,
            indexes: Arc::new(functions.iter().map(|_| Index::default()).collect()),
            functions: Arc::new(Functions { ready: vec![true; functions.len()], all: functions }),
            versions: Versions::unset(parts),
            revision: 0,
            hasher: Hasher::default(),
        }
    }

    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<&Arc<T>> {
        self.slots.get(slot)?.as_ref()
    }

    #[inline]
    pub(crate) fn find(&self, hash: u32, key: KeyRef<'_>) -> Option<u32> {
        self.points.find(hash, |slot| self.at(slot).is_some_and(|object| object.key() == key))
    }

    #[inline]
    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<&Arc<T>> {
        self.at(self.find(hash_key(&self.hasher, key), key)?)
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

/// The hash of a key, without putting its parts together.
#[inline]
pub(crate) fn hash_key(hasher: &Hasher, key: KeyRef<'_>) -> u32 {
    hasher.hash_one(key) as u32
}

/// What only a writer needs.
#[derive(Default)]
pub(crate) struct Writer {
    /// Slots given back, to be used again.
    pub(crate) free: Vec<u32>,
    /// The first slot that was never used.
    pub(crate) next: u32,
    /// One for each index function.
    pub(crate) indexes: Vec<IndexWriter>,
}

impl Writer {
    pub(crate) fn new(indexes: usize) -> Self {
        Self { indexes: (0..indexes).map(|_| IndexWriter::default()).collect(), ..Self::default() }
    }
}

/// A writer at work on a state. It asks objects nothing: their slots have been found before, so that a panic of an
/// accessor leaves all consistent.
pub(crate) struct Edit<'a, T> {
    pub(crate) roots: &'a mut Roots<T>,
    pub(crate) writer: &'a mut Writer,
}

impl<T: Object> Edit<'_, T> {
    /// Stores an object, in the slot that its key has; returns the one it replaces. The answers to all index functions begin at number
    /// `first`. Leaves the version as it is.
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

    /// Whether there is room for so many more objects.
    pub(crate) fn has_room(&self, objects: usize) -> bool {
        objects <= self.writer.free.len() + (MAX_NUMBER - self.writer.next) as usize
    }

    /// Stores an object that is not there.
    pub(crate) fn insert(&mut self, hash: u32, object: Arc<T>) -> Result<u32, Error> {
        let slot = match self.writer.free.pop() {
            Some(slot) => slot,
            None if self.writer.next < MAX_NUMBER => {
                self.writer.next += 1;
                self.writer.next - 1
            }
            None => {
                return Err(full(readable_key(|| object.key())));
            }
        };
        *self.roots.slots.get_mut(slot) = Some(object);
        self.roots.points.insert(hash, slot);
        self.roots.len += 1;
        Ok(slot)
    }

    /// Brings these indexes up to date; touches only those whose values have changed.
    pub(crate) fn set_values(&mut self, indexes: Range<usize>, slot: u32, values: &Evaluated, first: usize) {
        let writers = self.writer.indexes.get_mut(indexes.clone()).unwrap_or_default();
        for (answer, (number, index_writer)) in indexes.zip(writers).enumerate() {
            let values = values.answer(first + answer);
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

    /// Empties a slot without giving it back.
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
