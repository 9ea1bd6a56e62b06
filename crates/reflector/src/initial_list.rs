//! The objects of a watch-list, gathered aside until the list is whole.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kinformer_core::{Object, ObjectKey, Replacement, ResourceVersion};

use crate::{DecodeError, EventType, WatchEvent};

/// Costs no more than the objects' pointers as long as there are only additions: the table of keys is made
/// with the first change of an object that is there already.
pub(crate) struct InitialList<T> {
    objects: Vec<Option<Arc<T>>>,
    places: Option<HashMap<ObjectKey, usize>>,
    undecodable: HashSet<ObjectKey>,
}

impl<T: Object> InitialList<T> {
    pub(crate) fn new() -> Self {
        Self { objects: Vec::new(), places: None, undecodable: HashSet::new() }
    }

    /// Takes an event that is about an object.
    pub(crate) fn apply(&mut self, event: WatchEvent<T>) {
        match event {
            WatchEvent::Added(object) if self.places.is_none() => self.objects.push(Some(object)),
            WatchEvent::Added(object) | WatchEvent::Modified(object) => self.set(object),
            WatchEvent::Deleted(object) => {
                if let Ok(key) = ObjectKey::try_from(object.key()) {
                    self.remove(&key);
                }
            }
            WatchEvent::Undecodable(DecodeError { key: Some(key), event_type, .. }) => match event_type {
                Some(EventType::Deleted) => self.remove(&key),
                _ => {
                    self.undecodable.insert(key);
                }
            },
            WatchEvent::Undecodable(_) | WatchEvent::Bookmark { .. } | WatchEvent::Unexpected(_) => {}
        }
    }

    fn set(&mut self, object: Arc<T>) {
        let Ok(key) = ObjectKey::try_from(object.key()) else {
            // The sink says what is wrong with it.
            self.objects.push(Some(object));
            return;
        };
        let places = places(&mut self.places, &self.objects);
        let place = *places.entry(key).or_insert(self.objects.len());
        match self.objects.get_mut(place) {
            Some(slot) => *slot = Some(object),
            None => self.objects.push(Some(object)),
        }
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.undecodable.remove(key);
        let place = places(&mut self.places, &self.objects).remove(key);
        if let Some(slot) = place.and_then(|place| self.objects.get_mut(place)) {
            *slot = None;
        }
    }

    /// The whole list. An object that came in one state and not in a later one is delivered in the state it
    /// came in.
    pub(crate) fn finish(self, version: ResourceVersion) -> Replacement<T> {
        let objects: Vec<_> = self.objects.into_iter().flatten().collect();
        let mut undecodable = self.undecodable;
        if !undecodable.is_empty() {
            for object in &objects {
                if let Ok(key) = ObjectKey::try_from(object.key()) {
                    undecodable.remove(&key);
                }
            }
        }
        Replacement::new(objects, version).undelivered(undecodable)
    }
}

fn places<'a, T: Object>(
    places: &'a mut Option<HashMap<ObjectKey, usize>>,
    objects: &[Option<Arc<T>>],
) -> &'a mut HashMap<ObjectKey, usize> {
    places.get_or_insert_with(|| {
        let keyed = objects
            .iter()
            .enumerate()
            .filter_map(|(place, object)| Some((ObjectKey::try_from(object.as_ref()?.key()).ok()?, place)));
        keyed.collect()
    })
}
