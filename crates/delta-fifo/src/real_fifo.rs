//! RealFIFO: all deltas in order of arrival.

use std::collections::VecDeque;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use kinformer_core::internal::contain;
use kinformer_core::{Delta, KeyError, KeyProblem, Object, ObjectKey, VersionUpdates};

use crate::backlog::{Backlog, Entry, Queued};
use crate::in_flight::{DeferredDrops, InFlight};
use crate::key_map::{HashedKey, RETAINED};
use crate::popped::Taken;
use crate::{DeltaQueue, DeltaQueueBuilder};

/// A queue that delivers all deltas of all keys in order of arrival.
///
/// * **Atomic** (the default): a replace is queued as one [`Delta::ReplacedAll`], a resync as one [`Delta::SyncAll`],
///   and bookmarks are queued in order with all other deltas. It needs no known objects: the consumer detects missing
///   objects when it applies the list.
/// * **With [known objects](DeltaQueueBuilder::known_objects)**: a replace is queued as a [`Delta::Deleted`] for each
///   missing key, followed by a [`Delta::Replaced`] for each object; a resync as a [`Delta::Sync`] for each known
///   object. Bookmarks are not queued; they only update the [versions](crate::Popped::versions). Known objects are
///   looked up while no lock is held.
///
/// A clone is another handle to the same queue. Follows client-go 0.37 (`RealFIFO`).
#[doc(alias = "NewRealFIFO")]
pub type RealFifo<T> = DeltaQueue<T, InOrder<T>>;

/// Builds a [`RealFifo`].
#[doc(alias = "RealFIFOOptions")]
pub type RealFifoBuilder<T> = DeltaQueueBuilder<T, InOrder<T>>;

/// Methods specific to a [`RealFifo`].
impl<T: Object> DeltaQueue<T, InOrder<T>> {
    /// Returns whether a replace and a resync are one delta each.
    #[doc(alias = "AtomicEvents")]
    pub fn is_atomic(&self) -> bool {
        !self.settings.keyed
    }
}

/// The backlog of a [`RealFifo`]: all deltas in order of arrival.
pub struct InOrder<T> {
    /// Each with the versions reached once it, and so every entry before it, has been popped.
    entries: VecDeque<(Entry<T>, VersionUpdates)>,
    /// The key hashes of one batch. Retained between batches only to reuse the memory.
    in_batch: HashTable<u64>,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), in_batch: HashTable::new() }
    }
}

impl<T: Object> InOrder<T> {
    /// Returns the key error of an entry: an object may have changed internally since it was queued.
    fn check(entry: &Entry<T>) -> Option<KeyError> {
        let checked = contain(|| entry.delta.key().map_or(Ok(()), |key| key.check()));
        let panicked = |_| Err(KeyError::new("", KeyProblem::Panicked));
        checked.unwrap_or_else(panicked).err()
    }

    /// Returns the number of entries at the front that form a batch, and the key error of the last one.
    fn batch(&mut self, max: usize) -> (usize, Option<KeyError>) {
        let Self { entries, in_batch, .. } = self;
        let mut size = 0;
        let mut key_error = None;
        for (entry, _) in entries.iter().take(max) {
            let alone =
                matches!(entry.delta, Delta::ReplacedAll(_) | Delta::SyncAll | Delta::Bookmark { .. });
            if alone && size > 0 {
                break;
            }
            if max > 1 && !alone {
                // A collision of hashes only ends a batch early.
                match in_batch.entry(entry.hash, |other| *other == entry.hash, |other| *other) {
                    Place::Occupied(_) => break,
                    Place::Vacant(place) => drop(place.insert(entry.hash)),
                }
            }
            size += 1;
            key_error = Self::check(entry);
            if alone || key_error.is_some() {
                break;
            }
        }
        if !in_batch.is_empty() {
            in_batch.clear();
            in_batch.shrink_to(RETAINED, |hash| *hash);
        }
        (size, key_error)
    }
}

impl<T: Object> Backlog<T> for InOrder<T> {
    const NAME: &'static str = "RealFifo";
    const KEYED: bool = false;

    fn push(&mut self, entry: Entry<T>, _drops: &mut DeferredDrops<T>) {
        self.entries.push_back((entry, VersionUpdates::NONE));
    }

    fn newest(&self, keys: &dyn Fn(&ObjectKey) -> bool, deltas: &dyn Fn(&Delta<T>) -> bool) -> Queued<T> {
        let mut queued = Queued::new();
        for (Entry { delta, key, .. }, _) in &self.entries {
            if let Some(key) = key.as_ref().filter(|key| keys(key) && deltas(delta)) {
                queued.record(key, delta);
            }
        }
        queued
    }

    fn depth(&self) -> usize {
        self.entries.len()
    }

    fn entries(&self) -> usize {
        self.entries.len()
    }

    fn reached(&mut self) -> Option<&mut VersionUpdates> {
        self.entries.back_mut().map(|(_, versions)| versions)
    }

    fn take(
        &mut self,
        max: usize,
        flight: &mut InFlight<T>,
        drops: &mut DeferredDrops<T>,
        taken: &mut Taken<T>,
    ) -> usize {
        let (size, key_error) = self.batch(max);
        taken.deltas.reserve(size);
        taken.key_error = key_error;
        for _ in 0..size {
            let Some((Entry { delta, key, hash }, versions)) = self.entries.pop_front() else { break };
            taken.versions.append_all(versions);
            if let Some(key) = key {
                let key = HashedKey { key, hash };
                flight.popped(&key, std::slice::from_ref(&delta), drops);
                taken.ticket.keys.push(key);
            }
            taken.deltas.push(delta);
        }
        if self.entries.is_empty() {
            self.entries.shrink_to(RETAINED);
        }
        size
    }
}
