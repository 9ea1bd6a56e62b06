//! Keys that were popped and have not been processed yet.

use std::sync::Arc;

use hashbrown::HashTable;
use kinformer_core::{Delta, Object, ObjectKey, PartId, Parts};
use smallvec::SmallVec;

use crate::key_map::{HashedKey, RETAINED};
use crate::known::{self, LastKnown};

/// The newest known fact about an object: its state, or its deletion.
pub enum Newest<T> {
    State(Option<Arc<T>>),
    Deleted,
}

impl<T> Newest<T> {
    pub(crate) fn of(delta: &Delta<T>) -> Self {
        match delta {
            Delta::Deleted(_) | Delta::Left(_) => Self::Deleted,
            other => Self::State(other.object().cloned()),
        }
    }
}

/// States to be dropped after the lock is released, because dropping may run user code.
pub(crate) type DeferredDrops<T> = SmallVec<[Newest<T>; 1]>;

/// Keys that have been popped: those being processed and, during a query of the known objects, those processed since it
/// began.
///
/// The queue queries the known objects without holding its lock, because they are user code. Meanwhile a consumer may
/// finish processing an object, which makes the answer for it outdated. So while any query is running, processed keys
/// stay here and take precedence over the answer.
pub struct InFlight<T> {
    keys: HashTable<Entry<T>>,
    queries: usize,
    parts: Parts<T>,
}

struct Entry<T> {
    key: HashedKey,
    /// Number of pops of this key being processed.
    pops: usize,
    /// The newest fact in each part that the object was in.
    newest: SmallVec<[(PartId, Newest<T>); 1]>,
}

impl<T> Entry<T> {
    fn newest_in(&self, part: PartId) -> Option<&Newest<T>> {
        self.newest.iter().find(|(other, _)| *other == part).map(|(_, newest)| newest)
    }

    fn hash(&self) -> u64 {
        self.key.hash
    }

    fn into_states(self) -> impl Iterator<Item = Newest<T>> {
        self.newest.into_iter().map(|(_, newest)| newest)
    }
}

impl<T: Object> InFlight<T> {
    pub(crate) fn new(parts: Parts<T>) -> Self {
        Self { keys: HashTable::new(), queries: 0, parts }
    }

    fn get(&self, key: &ObjectKey, hash: u64) -> Option<&Entry<T>> {
        self.keys.find(hash, |entry| entry.key.is(key, hash))
    }

    /// Returns whether anything is known about a popped key.
    pub(crate) fn has(&self, key: &ObjectKey, hash: u64) -> bool {
        self.get(key, hash).is_some()
    }

    /// Returns whether the newest delta of a popped key, in a part or in any, is not a deletion; `None` if the key is
    /// not in flight there.
    pub(crate) fn exists(&self, key: &ObjectKey, hash: u64, part: Option<PartId>) -> Option<bool> {
        let entry = self.get(key, hash)?;
        let exists = |newest: &Newest<T>| matches!(newest, Newest::State(_));
        match part {
            Some(part) => entry.newest_in(part).map(exists),
            None => Some(entry.newest.iter().any(|(_, newest)| exists(newest))),
        }
    }

    /// Returns whether the key is being processed.
    pub(crate) fn is_processing(&self, key: &ObjectKey, hash: u64) -> bool {
        self.get(key, hash).is_some_and(|entry| entry.pops > 0)
    }

    /// Returns the objects whose keys are `wanted` and whose newest delta in this part is not a deletion. Sorted by
    /// key, so that the same history always produces the same deltas.
    pub(crate) fn existing(&self, part: PartId, wanted: impl Fn(&ObjectKey) -> bool) -> Vec<LastKnown<T>> {
        let mut existing: Vec<_> = self
            .keys
            .iter()
            .filter(|entry| wanted(&entry.key.key))
            .filter_map(|entry| match entry.newest_in(part)? {
                Newest::State(object) => Some((entry.key.key.clone(), object.clone())),
                Newest::Deleted => None,
            })
            .collect();
        existing.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        existing
    }

    /// Records that deltas of a key were popped. States to be dropped after the lock is released are added to `drops`.
    pub(crate) fn popped(&mut self, key: &HashedKey, deltas: &[Delta<T>], drops: &mut DeferredDrops<T>) {
        let Self { keys, parts, .. } = self;
        let place = keys.entry(key.hash, |entry| entry.key.is(&key.key, key.hash), Entry::hash);
        let none = || Entry { key: key.clone(), pops: 0, newest: SmallVec::new() };
        let entry = place.or_insert_with(none).into_mut();
        entry.pops += 1;
        let mut record = |part: PartId, delta: &Delta<T>| {
            let newest = Newest::of(delta);
            match entry.newest.iter_mut().find(|(other, _)| *other == part) {
                Some((_, known)) => drops.push(std::mem::replace(known, newest)),
                None => entry.newest.push((part, newest)),
            }
        };
        if let Some(only) = parts.only() {
            deltas.last().into_iter().for_each(|delta| record(only, delta));
            return;
        }
        for delta in deltas {
            match known::part_of(parts, delta) {
                Some(part) => record(part, delta),
                // The delta determines no part. A deletion by key alone is one in every part; one of a part that was removed is
                // none.
                None => {
                    if matches!(delta, Delta::Deleted(tombstone) if tombstone.is_of_all_parts()) {
                        parts.ids().into_iter().for_each(|part| record(part, delta));
                    }
                }
            }
        }
    }

    /// Records that a pop of a key has been processed. Returns states to be dropped after the lock is released.
    pub(crate) fn processed(&mut self, key: &HashedKey) -> Option<impl Iterator<Item = Newest<T>> + use<T>> {
        let mut place = self.keys.find_entry(key.hash, |entry| entry.key.is(&key.key, key.hash)).ok()?;
        let entry = place.get_mut();
        entry.pops = entry.pops.saturating_sub(1);
        if entry.pops > 0 || self.queries > 0 {
            return None;
        }
        let (removed, _) = place.remove();
        self.shrink();
        Some(removed.into_states())
    }

    /// Releases the memory of an empty table after a burst.
    fn shrink(&mut self) {
        if self.keys.is_empty() && self.keys.capacity() > RETAINED {
            self.keys.shrink_to(RETAINED, Entry::hash);
        }
    }

    pub(crate) fn begin_query(&mut self) {
        self.queries += 1;
    }

    /// Returns states to be dropped after the lock is released.
    pub(crate) fn end_query(&mut self) -> DeferredDrops<T> {
        self.queries -= 1;
        if self.queries > 0 {
            return DeferredDrops::new();
        }
        let removed = self.keys.extract_if(|entry| entry.pops == 0);
        let removed = removed.flat_map(Entry::into_states).collect();
        self.shrink();
        removed
    }

    /// Returns the number of keys being processed.
    pub(crate) fn processing(&self) -> usize {
        // Processed keys are retained only during a query, so counting is rarely needed.
        match self.queries {
            0 => self.keys.len(),
            _ => self.keys.iter().filter(|entry| entry.pops > 0).count(),
        }
    }
}
