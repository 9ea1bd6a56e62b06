//! Gathers the objects of a watch-list until the list is complete.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use kinformer_core::internal::try_accessors;
use kinformer_core::{BoxError, KeyError, KeyRef, Object, ObjectKey, Replacement, ResourceVersion};

use crate::{DecodeError, EventType, WatchEvent};

/// Holds the newest object of each key. Stores no keys: they are read from the objects.
pub(crate) struct InitialList<T> {
    /// In the order of the first event of each key; `None` for deleted objects.
    objects: Vec<Option<Arc<T>>>,
    /// The free places in `objects`, to be reused.
    free: Vec<usize>,
    /// The place in `objects` of each key.
    places: HashTable<usize>,
    seed: RandomState,
    undecodable: BTreeSet<ObjectKey>,
    /// The number of objects left out because their accessor of the key panicked.
    unidentified: usize,
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

    /// Leaves out an object whose accessor of the key panics, and returns the panic.
    pub(crate) fn leave_out(&mut self, event: &WatchEvent<T>) -> Option<BoxError> {
        let (WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) = event
        else {
            return None;
        };
        let panic = try_accessors(|| _ = object.key().check()).err()?;
        self.unidentified += 1;
        Some(panic)
    }

    /// Applies an event about an object.
    ///
    /// # Errors
    /// The object has no valid key. Nothing has changed.
    pub(crate) fn apply(&mut self, event: WatchEvent<T>) -> Result<(), KeyError> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => self.set(object)?,
            WatchEvent::Deleted(object) => {
                object.key().check()?;
                self.remove(object.key());
            }
            WatchEvent::Undecodable(DecodeError { key: Some(key), event_type, .. }) => match event_type {
                Some(EventType::Deleted) => self.remove(key.as_key()),
                _ => drop(self.undecodable.insert(key)),
            },
            WatchEvent::Undecodable(_) | WatchEvent::Bookmark { .. } | WatchEvent::Unexpected { .. } => {}
        }
        Ok(())
    }

    fn set(&mut self, object: Arc<T>) -> Result<(), KeyError> {
        let Self { objects, free, places, seed, .. } = self;
        let key = object.key();
        key.check()?;
        let key_at = |place: &usize| key_at(objects, *place);
        let entry = places.entry(
            seed.hash_one(Some(key)),
            |place| key_at(place) == Some(key),
            |place| seed.hash_one(key_at(place)),
        );
        let place = match entry {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => *entry.insert(free.pop().unwrap_or(objects.len())).get(),
        };
        match objects.get_mut(place) {
            Some(slot) => *slot = Some(object),
            None => objects.push(Some(object)),
        }
        Ok(())
    }

    fn remove(&mut self, key: KeyRef<'_>) {
        let Self { objects, free, places, seed, undecodable, .. } = self;
        if !undecodable.is_empty() {
            undecodable.retain(|other| other.as_key() != key);
        }
        let found = places.find_entry(seed.hash_one(Some(key)), |place| key_at(objects, *place) == Some(key));
        let Ok(entry) = found else { return };
        let (place, _) = entry.remove();
        if let Some(slot) = objects.get_mut(place) {
            *slot = None;
            free.push(place);
        }
    }

    fn has(&self, key: KeyRef<'_>) -> bool {
        let same = |place: &usize| key_at(&self.objects, *place) == Some(key);
        self.places.find(self.seed.hash_one(Some(key)), same).is_some()
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

fn key_at<T: Object>(objects: &[Option<Arc<T>>], place: usize) -> Option<KeyRef<'_>> {
    Some(objects.get(place)?.as_ref()?.key())
}
