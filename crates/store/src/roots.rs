//! The state of a store: what readers share, and what only the writer needs.

use std::sync::Arc;

use foldhash::fast::RandomState;
use kinformer_core::{KeyRef, Object, ResourceVersion};

use crate::cow::CowVec;
use crate::hash::hash_key;
use crate::index::{Index, Places};
use crate::index_function::{IndexFunction, IndexValues};
use crate::points::Points;

/// The names and functions of the indexes, in the order of their numbers.
pub(crate) type Functions<T> = Vec<(Arc<str>, IndexFunction<T>)>;

/// Everything that a reader can ask for. A clone is a handful of reference counts and is a snapshot.
pub(crate) struct Roots<T> {
    pub(crate) objects: CowVec<Option<Arc<T>>>,
    /// From the hash of a key to the slot.
    points: Points,
    pub(crate) indexes: Arc<Vec<Index>>,
    pub(crate) functions: Arc<Functions<T>>,
    pub(crate) version: ResourceVersion,
    pub(crate) len: usize,
    pub(crate) seed: RandomState,
}

impl<T> Clone for Roots<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            points: self.points.clone(),
            indexes: self.indexes.clone(),
            functions: self.functions.clone(),
            version: self.version.clone(),
            len: self.len,
            seed: self.seed.clone(),
        }
    }
}

impl<T: Object> Roots<T> {
    pub(crate) fn new(functions: Functions<T>) -> Self {
        Self {
            objects: CowVec::default(),
            points: Points::default(),
            indexes: Arc::new(functions.iter().map(|_| Index::default()).collect()),
            functions: Arc::new(functions),
            version: ResourceVersion::UNSET,
            len: 0,
            seed: RandomState::default(),
        }
    }

    pub(crate) fn object(&self, slot: u32) -> Option<&Arc<T>> {
        self.objects.get(slot as usize)?.as_ref()
    }

    fn find(&self, hash: u32, key: KeyRef<'_>) -> Option<u32> {
        self.points.find(hash, |slot| self.object(slot).is_some_and(|object| object.key() == key))
    }

    pub(crate) fn slot(&self, key: KeyRef<'_>) -> Option<u32> {
        self.find(hash_key(&self.seed, key), key)
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<&Arc<T>> {
        self.object(self.slot(key)?)
    }

    pub(crate) fn index(&self, name: &str) -> Option<(&Index, &IndexFunction<T>)> {
        let number = self.functions.iter().position(|(known, _)| **known == *name)?;
        Some((self.indexes.get(number)?, &self.functions.get(number)?.1))
    }

    /// Moves the version forward. A version that does not compare is taken as it comes: with opaque versions
    /// the last one seen is the best there is.
    pub(crate) fn advance(&mut self, version: ResourceVersion) {
        if !version.is_unset() && !self.version.reaches(&version) {
            self.version = version;
        }
    }
}

/// What it takes to write; whoever holds it is the only writer.
pub(crate) struct Writer {
    free: Vec<u32>,
    slots: u32,
    /// For each index.
    places: Vec<Places>,
    /// A write was interrupted by a panic; everything here has to be found out again.
    interrupted: bool,
}

/// An object that has been looked at as far as needed, before any lock.
pub(crate) struct Prepared<T> {
    pub(crate) object: Arc<T>,
    pub(crate) hash: u32,
}

impl Writer {
    pub(crate) fn new(indexes: usize) -> Self {
        let places = std::iter::repeat_with(Places::default).take(indexes).collect();
        Self { free: Vec::new(), slots: 0, places, interrupted: false }
    }

    /// Finds out everything from the state itself.
    fn of<T>(roots: &Roots<T>) -> Self {
        let mut writer = Self::new(0);
        writer.places = roots.indexes.iter().map(Places::of).collect();
        for (first, leaf) in roots.objects.leaves(0) {
            for (slot, object) in leaf.iter().enumerate().map(|(i, object)| ((first + i) as u32, object)) {
                if object.is_some() {
                    writer.free.extend(writer.slots..slot);
                    writer.slots = slot + 1;
                }
            }
        }
        writer
    }

    /// Runs a write that changes this writer beside the published state, which an object's accessor may
    /// interrupt by a panic.
    pub(crate) fn guarded<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        self.interrupted = true;
        let result = write(self);
        self.interrupted = false;
        result
    }

    /// Makes sure that nothing is left of an interrupted write.
    pub(crate) fn recover<T>(&mut self, published: impl FnOnce() -> Roots<T>) {
        if self.interrupted {
            *self = Self::of(&published());
        }
    }

    pub(crate) fn add_index(&mut self, places: Places) {
        self.places.push(places);
    }

    /// Stores an object; says in which slot, and gives back the state before. `values` has the object's
    /// values from set number `first_set` on.
    pub(crate) fn put<T: Object>(
        &mut self,
        roots: &mut Roots<T>,
        prepared: Prepared<T>,
        values: &IndexValues,
        first_set: usize,
    ) -> (u32, Option<Arc<T>>) {
        let Prepared { object, hash } = prepared;
        // Looking for the key is all that can panic here, and comes first.
        let found = roots.find(hash, object.key());
        let slot = found.unwrap_or_else(|| {
            self.free.pop().unwrap_or_else(|| {
                self.slots += 1;
                self.slots - 1
            })
        });
        let same = roots.object(slot).is_some_and(|old| Arc::ptr_eq(old, &object));
        let old = if same { Some(object) } else { roots.objects.get_mut(slot as usize).replace(object) };
        if found.is_none() {
            roots.points.insert(hash, slot);
            roots.len += 1;
        }
        for (number, places) in self.places.iter_mut().enumerate() {
            let values = values.set(first_set + number);
            if !places.holds(roots.indexes.get(number), slot, &values)
                && let Some(index) = Arc::make_mut(&mut roots.indexes).get_mut(number)
            {
                places.update(index, &roots.seed, slot, &values);
            }
        }
        (slot, old)
    }

    pub(crate) fn remove<T: Object>(&mut self, roots: &mut Roots<T>, key: KeyRef<'_>) -> Option<Arc<T>> {
        let slot = roots.slot(key)?;
        let hash = hash_key(&roots.seed, key);
        self.remove_slot(roots, hash, slot)
    }

    pub(crate) fn remove_slot<T: Object>(
        &mut self,
        roots: &mut Roots<T>,
        hash: u32,
        slot: u32,
    ) -> Option<Arc<T>> {
        let old = roots.objects.get_mut(slot as usize).take();
        roots.objects.free_leaf_unless(slot as usize, Option::is_some);
        roots.points.remove(hash, slot);
        roots.len -= 1;
        let none = IndexValues::default();
        for (number, places) in self.places.iter_mut().enumerate() {
            if !places.holds(roots.indexes.get(number), slot, &none.set(0))
                && let Some(index) = Arc::make_mut(&mut roots.indexes).get_mut(number)
            {
                places.update(index, &roots.seed, slot, &none.set(0));
            }
        }
        self.free.push(slot);
        old
    }
}
