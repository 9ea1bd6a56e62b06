//! DeltaFIFO: one place in the queue per key, with all of the key's deltas.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as NumberEntry;
use kinformer_core::{Delta, Deltas, KeyRef, Object, ObjectKey, PartId, Parts, Tombstone, VersionUpdates};

use crate::backlog::{Backlog, Entry, Queued};
use crate::in_flight::{DeferredDrops, InFlight, Newest};
use crate::key_map::{HashedKey, RETAINED};
use crate::known;
use crate::popped::Taken;
use crate::{DeltaQueue, DeltaQueueBuilder};

/// The type of delta that a replace queues for each object of its list.
#[doc(alias = "EmitDeltaTypeReplaced")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnReplace {
    /// [`Delta::Replaced`]: consumers can distinguish a list from a resync.
    #[default]
    Replaced,
    /// [`Delta::Sync`], the default in client-go.
    Sync,
}

/// A queue with one place per key, which accumulates the deltas of the key until it is popped.
///
/// A slow consumer thus receives every change of an object, but pops the object only once. Two consecutive deletions of
/// the same part are merged: the later one is kept if it was observed, otherwise the one with more information. A key
/// written while it is queued keeps its place; after its pop it goes to the tail again.
///
/// With [known objects](DeltaQueueBuilder::known_objects), a replace also detects deletions of objects that the queue
/// does not contain, and a resync re-delivers the known objects. Without them, a replace compares only the queued keys.
/// Known objects are looked up while no lock is held.
///
/// A deletion of a key that is neither queued nor known is dropped, because it has been delivered before. A resync
/// queues a [`Delta::Sync`] for each known object that is neither queued nor being processed; such objects have newer
/// states on their way. Without known objects a resync queues nothing.
///
/// A clone is another handle to the same queue. Follows client-go 0.37 (`DeltaFIFO`), which has no bookmarks. Here a
/// bookmark is not queued as a delta; it updates the [versions](crate::Popped::versions) of the next pop.
#[doc(alias = "NewDeltaFIFO")]
pub type DeltaFifo<T> = DeltaQueue<T, PerKey<T>>;

/// Builds a [`DeltaFifo`].
#[doc(alias = "DeltaFIFOOptions")]
pub type DeltaFifoBuilder<T> = DeltaQueueBuilder<T, PerKey<T>>;

/// Settings specific to a [`DeltaFifo`].
impl<T: Object> DeltaQueueBuilder<T, PerKey<T>> {
    /// Sets the type of delta that a replace queues for each object.
    pub fn on_replace(mut self, on_replace: OnReplace) -> Self {
        self.backlog.on_replace = on_replace;
        self
    }
}

/// Look-ups by key in a [`DeltaFifo`].
impl<T: Object> DeltaQueue<T, PerKey<T>> {
    /// Returns the number of queued keys.
    pub fn len(&self) -> usize {
        self.shared.lock().backlog.queue.len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the queued keys, in pop order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.lock().backlog.queue.iter().map(|place| place.key.key.clone()).collect()
    }

    /// Returns the queued deltas of a key, in order; empty if the key is not queued.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Vec<Delta<T>> {
        let key = key.into();
        let hash = self.settings.seed.hash_one(key);
        self.shared.lock().backlog.get(key, hash).map(|place| place.deltas.to_vec()).unwrap_or_default()
    }
}

/// The keys in pop order, with their deltas.
///
/// Places are numbered consecutively, so that a key is found without a second copy of it.
pub struct PerKey<T> {
    pub(crate) on_replace: OnReplace,
    queue: VecDeque<Place<T>>,
    /// The number of the place at the front.
    first: u64,
    /// The numbers of all places, by the hash of the key.
    numbers: HashTable<u64>,
    depth: usize,
    parts: Parts<T>,
}

struct Place<T> {
    key: HashedKey,
    /// At least one.
    deltas: Deltas<T>,
    /// The versions reached once this key, and so every key before it, has been popped.
    versions: VersionUpdates,
}

impl<T> Default for PerKey<T> {
    fn default() -> Self {
        Self {
            on_replace: OnReplace::default(),
            queue: VecDeque::new(),
            first: 0,
            numbers: HashTable::new(),
            depth: 0,
            parts: Parts::one(),
        }
    }
}

impl<T> PerKey<T> {
    fn get(&self, key: KeyRef<'_>, hash: u64) -> Option<&Place<T>> {
        let is_it = |number: &u64| {
            place(&self.queue, self.first, *number).is_some_and(|place| place.key.key.as_key() == key)
        };
        place(&self.queue, self.first, *self.numbers.find(hash, is_it)?)
    }
}

/// Returns the place with this number in a queue whose front has the number `first`.
#[inline]
fn place<T>(queue: &VecDeque<Place<T>>, first: u64, number: u64) -> Option<&Place<T>> {
    queue.get((number - first) as usize)
}

/// Ranks how much a tombstone knows: an observed deletion has the final state, a missed one has an older state or none.
fn weight<T>(tombstone: &Tombstone<Arc<T>>) -> u8 {
    match tombstone {
        Tombstone::FinalState(_) => 2,
        unknown => u8::from(unknown.object().is_some()),
    }
}

impl<T: Object> Backlog<T> for PerKey<T> {
    const NAME: &'static str = "DeltaFifo";
    const KEYED: bool = true;

    fn set_parts(&mut self, parts: Parts<T>) {
        self.parts = parts;
    }

    fn push(&mut self, entry: Entry<T>, drops: &mut DeferredDrops<T>) {
        let Entry { delta, key: Some(key), hash } = entry else { return };
        let Self { queue, first, numbers, parts, .. } = self;
        let is_it =
            |number: &u64| place(queue, *first, *number).is_some_and(|place| place.key.is(&key, hash));
        let hash_of = |number: &u64| place(queue, *first, *number).map_or(0, |place| place.key.hash);
        let number = match numbers.entry(hash, is_it, hash_of) {
            NumberEntry::Occupied(number) => *number.get(),
            NumberEntry::Vacant(number) => {
                number.insert(*first + queue.len() as u64);
                let (key, deltas) = (HashedKey { key, hash }, delta.into());
                queue.push_back(Place { key, deltas, versions: VersionUpdates::NONE });
                self.depth += 1;
                return;
            }
        };
        let Some(Place { deltas, .. }) = queue.get_mut((number - *first) as usize) else { return };
        // Deletions from two parts each remove a state of their own part.
        let same_part = |earlier: &Delta<T>| {
            !parts.is_divided() || known::part_of(parts, earlier) == known::part_of(parts, &delta)
        };
        if let (Some(last @ Delta::Deleted(_)), Delta::Deleted(later)) = (deltas.last_mut(), &delta)
            && same_part(last)
            && let Delta::Deleted(earlier) = last
        {
            // Keeps the tombstone that knows more; the newer one if both were observed.
            if !later.is_final_state_unknown() || weight(later) > weight(earlier) {
                let dropped = std::mem::replace(earlier, later.clone());
                drops.push(Newest::State(dropped.into_object()));
            }
            drops.push(Newest::State(delta.object().cloned()));
            return;
        }
        deltas.push(delta);
        self.depth += 1;
    }

    fn wants_deletion(
        &self,
        key: &ObjectKey,
        hash: u64,
        flight: &InFlight<T>,
        part: Option<PartId>,
        known: bool,
    ) -> bool {
        match flight.exists(key, hash, part) {
            _ if self.get(key.as_key(), hash).is_some() => true,
            _ if flight.is_processing(key, hash) => true,
            Some(exists) => exists,
            None => known,
        }
    }

    fn newest(&self, keys: &dyn Fn(&ObjectKey) -> bool, deltas: &dyn Fn(&Delta<T>) -> bool) -> Queued<T> {
        let mut queued = Queued::new();
        for Place { key, deltas: of_key, .. } in self.queue.iter().filter(|place| keys(&place.key.key)) {
            if let Some(newest) = of_key.iter().rev().find(|delta| deltas(delta)) {
                queued.record(&key.key, newest);
            }
        }
        queued
    }

    fn places(&self, keys: &dyn Fn(&ObjectKey) -> bool) -> Vec<Range<usize>> {
        let of_keys = self.queue.iter().enumerate().filter(|(_, place)| keys(&place.key.key));
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (index, _) in of_keys {
            match ranges.last_mut() {
                Some(last) if last.end == index => last.end += 1,
                _ => ranges.push(index..index + 1),
            }
        }
        ranges
    }

    fn listed(&self, delta: Delta<T>) -> Delta<T> {
        match (self.on_replace, delta) {
            (OnReplace::Sync, Delta::Replaced(object)) => Delta::Sync(object),
            (_, delta) => delta,
        }
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn entries(&self) -> usize {
        self.queue.len()
    }

    fn reached(&mut self) -> Option<&mut VersionUpdates> {
        self.queue.back_mut().map(|last| &mut last.versions)
    }

    fn take(
        &mut self,
        max: usize,
        flight: &mut InFlight<T>,
        drops: &mut DeferredDrops<T>,
        taken: &mut Taken<T>,
    ) -> usize {
        let mut entries = 0;
        while entries < max
            && let Some(Place { key, mut deltas, versions }) = self.queue.pop_front()
        {
            entries += 1;
            if let Ok(number) = self.numbers.find_entry(key.hash, |number| *number == self.first) {
                number.remove();
            }
            self.first += 1;
            taken.versions.append_all(versions);
            self.depth -= deltas.len();
            flight.popped(&key, &deltas, drops);
            taken.ticket.keys.push(key);
            match taken.deltas.is_empty() {
                true => taken.deltas = deltas,
                false => taken.deltas.append(&mut deltas),
            }
        }
        if self.queue.is_empty() {
            if self.numbers.capacity() > RETAINED {
                self.numbers.shrink_to(RETAINED, |_| 0);
            }
            self.queue.shrink_to(RETAINED);
        }
        entries
    }
}
