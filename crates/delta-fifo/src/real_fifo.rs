//! RealFIFO: everything in the order in which it arrived.

use std::collections::VecDeque;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use kinformer_core::internal::ask;
use kinformer_core::{Delta, KeyError, KeyProblem, Object, ObjectKey, VersionUpdates};

use crate::backlog::{Backlog, Entry, Garbage, Queued};
use crate::in_flight::InFlight;
use crate::key_map::KEPT;
use crate::popped::Taken;
use crate::{DeltaQueue, DeltaQueueBuilder};

/// A queue that gives out everything that happened, across all keys, in the order of its arrival.
///
/// * **Atomic** (the default): a replace is one [`Delta::ReplacedAll`], a resync one [`Delta::SyncAll`], and
///   bookmarks come in order with everything else. It needs no known objects: what is missing in a list is
///   for the consumer to find out, when it applies the list.
/// * **With [known objects](DeltaQueueBuilder::known_objects)**: a replace is a [`Delta::Deleted`] for each
///   key that is missing, then a [`Delta::Replaced`] for each object; a resync is a [`Delta::Sync`] for each
///   known object. Bookmarks are no deltas, and only move the [version](crate::Popped::versions). The known objects are asked while no lock is held.
///
/// A clone is another handle to the same queue. Follows client-go 1.37 (`RealFIFO`).
pub type RealFifo<T> = DeltaQueue<T, InOrder<T>>;

/// Builds a [`RealFifo`].
pub type RealFifoBuilder<T> = DeltaQueueBuilder<T, InOrder<T>>;

/// Of a [`RealFifo`] only.
impl<T: Object> DeltaQueue<T, InOrder<T>> {
    /// Whether a replace and a resync are one delta each.
    pub fn is_atomic(&self) -> bool {
        !self.settings.keyed
    }
}

/// What a [`RealFifo`] keeps: every delta in the order of its arrival.
pub struct InOrder<T> {
    items: VecDeque<Item<T>>,
    /// The hashes of the keys of one batch; kept between batches for its memory only.
    in_batch: HashTable<u64>,
}

struct Item<T> {
    delta: Delta<T>,
    /// Two keys with one hash only end a batch early.
    hash: u64,
    /// The key, where there are known objects.
    key: Option<ObjectKey>,
    /// What is reached when this, and so all before it, has been popped.
    versions: VersionUpdates,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), in_batch: HashTable::new() }
    }
}

impl<T: Object> InOrder<T> {
    /// The key of an item, if it still is one; an object may have changed inside since it was queued.
    fn check(item: &Item<T>) -> Option<KeyError> {
        let checked = ask(|| item.delta.key().map_or(Ok(()), |key| key.check()));
        let panicked = |_| Err(KeyError::new("", KeyProblem::Panicked));
        checked.unwrap_or_else(panicked).err()
    }

    /// How many items at the front make a batch, and what is wrong with the key of the last one.
    fn batch(&mut self, max: usize) -> (usize, Option<KeyError>) {
        let Self { items, in_batch, .. } = self;
        let mut size = 0;
        let mut key_error = None;
        for item in items.iter().take(max) {
            let alone = matches!(item.delta, Delta::ReplacedAll(_) | Delta::SyncAll | Delta::Bookmark { .. });
            if alone && size > 0 {
                break;
            }
            if max > 1 && !alone {
                match in_batch.entry(item.hash, |other| *other == item.hash, |other| *other) {
                    Place::Occupied(_) => break,
                    Place::Vacant(entry) => drop(entry.insert(item.hash)),
                }
            }
            size += 1;
            key_error = Self::check(item);
            if alone || key_error.is_some() {
                break;
            }
        }
        in_batch.clear();
        in_batch.shrink_to(KEPT, |hash| *hash);
        (size, key_error)
    }
}

impl<T: Object> Backlog<T> for InOrder<T> {
    const NAME: &'static str = "RealFifo";
    const KEYED: bool = false;

    fn push(&mut self, entry: Entry<T>, _garbage: &mut Garbage<T>) {
        let Entry { delta, key, hash } = entry;
        self.items.push_back(Item { delta, hash, key, versions: VersionUpdates::NONE });
    }

    fn newest(&self, keys: &dyn Fn(&ObjectKey) -> bool, deltas: &dyn Fn(&Delta<T>) -> bool) -> Queued<T> {
        let mut queued = Queued::new();
        for Item { delta, key, .. } in &self.items {
            if let Some(key) = key.as_ref().filter(|key| keys(key) && deltas(delta)) {
                queued.note(key, delta);
            }
        }
        queued
    }

    fn depth(&self) -> usize {
        self.items.len()
    }

    fn entries(&self) -> usize {
        self.items.len()
    }

    fn reaches(&mut self, versions: VersionUpdates) -> Option<VersionUpdates> {
        match self.items.back_mut() {
            Some(last) => last.versions.append_all(versions),
            None => return Some(versions),
        }
        None
    }

    fn take(&mut self, max: usize, flight: &mut InFlight<T>, garbage: &mut Garbage<T>) -> (usize, Taken<T>) {
        let (size, key_error) = self.batch(max);
        let mut taken = Taken::only(VersionUpdates::NONE);
        taken.deltas.reserve(size);
        taken.key_error = key_error;
        for Item { delta, key, versions, .. } in self.items.drain(..size) {
            taken.versions.append_all(versions);
            if let Some(key) = key {
                flight.popped(key.clone(), std::slice::from_ref(&delta), garbage);
                taken.ticket.keys.push(key);
            }
            taken.deltas.push(delta);
        }
        if self.items.is_empty() {
            self.items.shrink_to(KEPT);
        }
        (size, taken)
    }
}
