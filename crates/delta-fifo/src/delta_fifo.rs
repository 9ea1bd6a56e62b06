//! DeltaFIFO: one place per key, with everything that happened to it since.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use kinformer_core::{Delta, Deltas, KeyRef, Object, ObjectKey, PartId, Parts, Tombstone, VersionUpdates};

use crate::backlog::{Backlog, Entry, Garbage, Queued};
use crate::in_flight::{InFlight, Newest};
use crate::key_map::{KEPT, KeyMap, Lookup, shrink};
use crate::known;
use crate::popped::Taken;
use crate::{DeltaQueue, DeltaQueueBuilder};

/// What a replace queues for each object of its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnReplace {
    /// [`Delta::Replaced`]: a consumer can tell a list from a resync.
    #[default]
    Replaced,
    /// [`Delta::Sync`], as client-go does unless told otherwise.
    Sync,
}

/// A queue in which each key has one place, and deltas for a key gather there until it is popped.
///
/// So a slow consumer sees everything that happened to an object, but pops the object only once. Two
/// deletions in a row are one: the later one if it was observed, else the one that carries more; but not those of two parts. A key that is written
/// while it is queued keeps its place; after its pop it goes to the tail again.
///
/// With [known objects](DeltaQueueBuilder::known_objects) a replace finds out what is gone, also of what the
/// queue itself does not hold, and a resync has something to queue; without them only the queued keys are
/// compared. The known objects are asked while no lock is held.
///
/// A deletion of a key that neither the queue nor the known objects have is dropped: it has been reported already. A
/// resync queues a [`Delta::Sync`] for each known object that is neither queued nor being processed: those have newer
/// states on their way. Without known objects it queues nothing.
///
/// A clone is another handle to the same queue. Follows client-go 1.37 (`DeltaFIFO`), which has no bookmarks; here they
/// are no deltas, and move the [version](crate::Popped::versions) of what is popped.
pub type DeltaFifo<T> = DeltaQueue<T, PerKey<T>>;

/// Builds a [`DeltaFifo`].
pub type DeltaFifoBuilder<T> = DeltaQueueBuilder<T, PerKey<T>>;

/// Settings of a [`DeltaFifo`] only.
impl<T: Object> DeltaQueueBuilder<T, PerKey<T>> {
    /// What a replace queues for each object.
    pub fn on_replace(mut self, on_replace: OnReplace) -> Self {
        self.backlog.on_replace = on_replace;
        self
    }
}

/// What is queued in a [`DeltaFifo`], by key.
impl<T: Object> DeltaQueue<T, PerKey<T>> {
    /// How many keys are queued.
    pub fn len(&self) -> usize {
        self.shared.lock().backlog.queue.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queued keys, in the order of their pops.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.lock().backlog.queue.iter().map(|place| place.key.clone()).collect()
    }

    /// What is queued for a key, in order; empty if it is not queued.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Vec<Delta<T>> {
        let key = Lookup(key.into());
        self.shared.lock().backlog.deltas.get(&key).map(|deltas| deltas.to_vec()).unwrap_or_default()
    }
}

/// The deltas of each key, and the keys in the order of their pops. A key is in both or in neither.
pub struct PerKey<T> {
    pub(crate) on_replace: OnReplace,
    deltas: KeyMap<Deltas<T>>,
    queue: VecDeque<Place>,
    depth: usize,
    parts: Parts<T>,
}

struct Place {
    key: ObjectKey,
    /// What is reached when this key, and so all before it, has been popped.
    versions: VersionUpdates,
}

impl<T> Default for PerKey<T> {
    fn default() -> Self {
        Self {
            on_replace: OnReplace::default(),
            deltas: KeyMap::default(),
            queue: VecDeque::new(),
            depth: 0,
            parts: Parts::one(),
        }
    }
}

/// An observed deletion carries the final state; a missed one a state, or nothing.
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

    fn push(&mut self, entry: Entry<T>, garbage: &mut Garbage<T>) {
        let Entry { delta, key: Some(key), .. } = entry else { return };
        let Some(deltas) = self.deltas.get_mut(&key) else {
            self.deltas.insert(key.clone(), delta.into());
            self.queue.push_back(Place { key, versions: VersionUpdates::NONE });
            self.depth += 1;
            return;
        };
        let parts = &self.parts;
        // Deletions of two parts each remove a state of their own.
        let same_part = |earlier: &Delta<T>| {
            !parts.is_divided() || known::concerned(parts, earlier) == known::concerned(parts, &delta)
        };
        if let (Some(last @ Delta::Deleted(_)), Delta::Deleted(later)) = (deltas.last_mut(), &delta)
            && same_part(last)
            && let Delta::Deleted(earlier) = last
        {
            // Of two deletions the one that carries more stays. Of two that were observed that is the newer one.
            if !later.is_final_state_unknown() || weight(later) > weight(earlier) {
                let dropped = std::mem::replace(earlier, later.clone());
                garbage.push(Newest::State(dropped.into_object()));
            }
            garbage.push(Newest::State(delta.object().cloned()));
            return;
        }
        deltas.push(delta);
        self.depth += 1;
    }

    fn wants_deletion(
        &self,
        key: &ObjectKey,
        flight: &InFlight<T>,
        part: Option<PartId>,
        known: bool,
    ) -> bool {
        match flight.exists(key, part) {
            _ if self.deltas.contains_key(key) => true,
            _ if flight.is_processing(key) => true,
            Some(exists) => exists,
            None => known,
        }
    }

    fn newest(&self, keys: &dyn Fn(&ObjectKey) -> bool, deltas: &dyn Fn(&Delta<T>) -> bool) -> Queued<T> {
        let mut queued = Queued::new();
        for Place { key, .. } in self.queue.iter().filter(|place| keys(&place.key)) {
            let of_key = self.deltas.get(key);
            if let Some(newest) = of_key.and_then(|of_key| of_key.iter().rev().find(|delta| deltas(delta))) {
                queued.note(key, newest);
            }
        }
        queued
    }

    fn places(&self, keys: &dyn Fn(&ObjectKey) -> bool) -> Vec<Range<usize>> {
        let of_keys = self.queue.iter().enumerate().filter(|(_, place)| keys(&place.key));
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (at, _) in of_keys {
            match ranges.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => ranges.push(at..at + 1),
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

    fn reaches(&mut self, versions: VersionUpdates) -> Option<VersionUpdates> {
        match self.queue.back_mut() {
            Some(last) => last.versions.append_all(versions),
            None => return Some(versions),
        }
        None
    }

    fn take(&mut self, max: usize, flight: &mut InFlight<T>, garbage: &mut Garbage<T>) -> (usize, Taken<T>) {
        let mut taken = Taken::only(VersionUpdates::NONE);
        let mut entries = 0;
        while entries < max
            && let Some(Place { key, versions }) = self.queue.pop_front()
        {
            entries += 1;
            taken.versions.append_all(versions);
            let Some(mut deltas) = self.deltas.remove(&key) else { continue };
            self.depth -= deltas.len();
            flight.popped(key.clone(), &deltas, garbage);
            taken.ticket.keys.push(key);
            match taken.deltas.is_empty() {
                true => taken.deltas = deltas,
                false => taken.deltas.append(&mut deltas),
            }
        }
        if self.queue.is_empty() {
            shrink(&mut self.deltas);
            self.queue.shrink_to(KEPT);
        }
        (entries, taken)
    }
}
