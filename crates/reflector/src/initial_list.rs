//! Gathers the objects of a watch-list until the list is complete.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use kinformer_core::internal::contain;
use kinformer_core::{BoxError, KeyError, KeyRef, Object, ObjectKey, Replacement, ResourceVersion};

use crate::{DecodeError, EventType, WatchEvent};

/// Holds the newest object of each key. Stores no keys: they are read from the objects.
pub(crate) struct InitialList<T> {
    /// In the order of the first event of each key; `None` for deleted objects.
    objects: Vec<Option<Arc<T>>>,
    /// The free places in `objects`, to be reused.
    free: Vec<usize>,
    /// The place in `objects` of each key.
    places: HashTable<Place>,
    seed: RandomState,
    undecodable: BTreeSet<ObjectKey>,
    /// The number of objects left out because their accessor of the key panicked.
    unidentified: usize,
}

/// The hash of a key, so that keys are read only for comparisons, and its place in `objects`.
struct Place {
    hash: u64,
    index: usize,
}

/// Why an object is not in the list.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// The accessor of its key panicked. The list counts the object as unidentified.
    Panicked(BoxError),
    /// Its key is invalid. Nothing has changed.
    Invalid(KeyError),
}

impl<T: Object> InitialList<T> {
    pub(crate) fn new() -> Self {
        Self {
            objects: Vec::new(),
            free: Vec::new(),
            places: HashTable::new(),
            seed: RandomState::default(),
            undecodable: BTreeSet::new(),
            unidentified: 0,
        }
    }

    /// Applies an event about an object.
    ///
    /// # Errors
    /// The key of the object cannot be read.
    pub(crate) fn apply(&mut self, event: WatchEvent<T>) -> Result<(), Rejected> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => self.set(object)?,
            WatchEvent::Deleted(object) => {
                let hash = self.hash_of(&object)?;
                self.remove(hash, object.key());
            }
            WatchEvent::Undecodable(DecodeError { key: Some(key), event_type, .. }) => match event_type {
                Some(EventType::Deleted) => self.remove(self.seed.hash_one(&key), key.as_key()),
                _ => drop(self.undecodable.insert(key)),
            },
            WatchEvent::Undecodable(_) | WatchEvent::Bookmark { .. } | WatchEvent::Unexpected { .. } => {}
        }
        Ok(())
    }

    fn hash_of(&mut self, object: &T) -> Result<u64, Rejected> {
        let hash = contain(|| {
            let key = object.key();
            key.check().map(|()| self.seed.hash_one(key))
        });
        match hash {
            Ok(hash) => hash.map_err(Rejected::Invalid),
            Err(panic) => {
                self.unidentified += 1;
                Err(Rejected::Panicked(panic))
            }
        }
    }

    fn set(&mut self, object: Arc<T>) -> Result<(), Rejected> {
        let hash = self.hash_of(&object)?;
        let Self { objects, free, places, .. } = self;
        let same = |place: &Place| place.hash == hash && key_at(objects, place) == Some(object.key());
        let index = match places.entry(hash, same, |place| place.hash) {
            Entry::Occupied(entry) => entry.get().index,
            Entry::Vacant(entry) => {
                let index = free.pop().unwrap_or(objects.len());
                entry.insert(Place { hash, index });
                index
            }
        };
        match objects.get_mut(index) {
            Some(slot) => *slot = Some(object),
            None => objects.push(Some(object)),
        }
        Ok(())
    }

    fn remove(&mut self, hash: u64, key: KeyRef<'_>) {
        let Self { objects, free, places, undecodable, .. } = self;
        // An invalid key is in no set.
        if !undecodable.is_empty()
            && let Ok(key) = ObjectKey::try_from(key)
        {
            undecodable.remove(&key);
        }
        let same = |place: &Place| place.hash == hash && key_at(objects, place) == Some(key);
        let Ok(entry) = places.find_entry(hash, same) else { return };
        let (Place { index, .. }, _) = entry.remove();
        if let Some(slot) = objects.get_mut(index) {
            *slot = None;
            free.push(index);
        }
    }

    fn has(&self, key: KeyRef<'_>) -> bool {
        let hash = self.seed.hash_one(key);
        let same = |place: &Place| place.hash == hash && key_at(&self.objects, place) == Some(key);
        self.places.find(hash, same).is_some()
    }

    /// Returns the complete list. An object whose last state could not be decoded is part of it in the last decoded
    /// state.
    pub(crate) fn finish(mut self, version: ResourceVersion) -> Replacement<T> {
        let mut undecodable = std::mem::take(&mut self.undecodable);
        undecodable.retain(|key| !self.has(key.as_key()));
        Replacement::new(self.objects.into_iter().flatten().collect(), version)
            .undelivered(undecodable)
            .unidentified(self.unidentified)
    }
}

fn key_at<'a, T: Object>(objects: &'a [Option<Arc<T>>], place: &Place) -> Option<KeyRef<'a>> {
    Some(objects.get(place.index)?.as_ref()?.key())
}
