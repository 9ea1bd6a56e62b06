//! The backlog: how the two kinds of delta queues store and order their deltas.

use std::ops::Range;

use kinformer_core::{Delta, ObjectKey, PartId, Parts, VersionUpdates};

use crate::in_flight::{DeferredDrops, InFlight, Newest};
use crate::key_map::KeyMap;
use crate::popped::Taken;

/// The entries of a queue, in pop order.
pub trait Backlog<T>: Default + Send + 'static {
    /// The name of the queue.
    const NAME: &'static str;
    /// Whether every entry has its key even without known objects. If `true`, a list is always split into single
    /// deltas.
    const KEYED: bool;

    /// Sets the parts of the queued objects. Called before the first push.
    fn set_parts(&mut self, _parts: Parts<T>) {}

    /// Returns the number of deltas.
    fn depth(&self) -> usize;

    /// Returns the number of entries, the unit of a pop.
    fn entries(&self) -> usize;

    /// Adds a delta. A displaced state is added to `drops`.
    fn push(&mut self, entry: Entry<T>, drops: &mut DeferredDrops<T>);

    /// Returns whether a deletion must be queued; `known` says whether the known objects contain the key.
    fn wants_deletion(
        &self,
        _key: &ObjectKey,
        _hash: u64,
        _flight: &InFlight<T>,
        _part: Option<PartId>,
        _known: bool,
    ) -> bool {
        true
    }

    /// Returns the newest queued delta accepted by `deltas` for each key accepted by `keys`, in the order of the keys'
    /// first deltas.
    fn newest(&self, keys: &dyn Fn(&ObjectKey) -> bool, deltas: &dyn Fn(&Delta<T>) -> bool) -> Queued<T>;

    /// Returns the positions of these keys' entries, in a queue that merges the deltas of a key into one entry.
    fn places(&self, _keys: &dyn Fn(&ObjectKey) -> bool) -> Vec<Range<usize>> {
        Vec::new()
    }

    /// Converts the `Replaced` of a listed object to the delta that this queue uses.
    fn listed(&self, delta: Delta<T>) -> Delta<T> {
        delta
    }

    /// The versions that are reached once everything queued has been popped, attached to the last entry; `None` if
    /// nothing is queued.
    fn reached(&mut self) -> Option<&mut VersionUpdates>;

    /// Moves entries of distinct keys, at least one and at most `max`, from the front to `taken`. Returns their number.
    fn take(
        &mut self,
        max: usize,
        flight: &mut InFlight<T>,
        drops: &mut DeferredDrops<T>,
        taken: &mut Taken<T>,
    ) -> usize;
}

/// A delta ready to be queued.
pub struct Entry<T> {
    pub(crate) delta: Delta<T>,
    /// The key, if keys are tracked beyond their pop.
    pub(crate) key: Option<ObjectKey>,
    /// The hash of the key, computed before the lock is taken; 0 for a delta without a key.
    pub(crate) hash: u64,
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Self::of_all(Delta::SyncAll)
    }
}

impl<T> Entry<T> {
    /// Creates an entry without a key, for a delta that concerns all objects.
    #[inline]
    pub(crate) fn of_all(delta: Delta<T>) -> Self {
        Self { delta, key: None, hash: 0 }
    }
}

/// The newest queued deltas of selected keys.
pub struct Queued<T> {
    pub(crate) newest: Vec<(ObjectKey, Newest<T>)>,
    /// The index of each key in `newest`.
    pub(crate) places: KeyMap<usize>,
}

impl<T> Queued<T> {
    pub(crate) fn new() -> Self {
        Self { newest: Vec::new(), places: KeyMap::default() }
    }

    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.places.contains_key(key)
    }

    /// Records a delta that is newer than all recorded before.
    pub(crate) fn record(&mut self, key: &ObjectKey, delta: &Delta<T>) {
        let newest = Newest::of(delta);
        match self.places.get(key).and_then(|place| self.newest.get_mut(*place)) {
            Some((_, known)) => *known = newest,
            None => {
                self.places.insert(key.clone(), self.newest.len());
                self.newest.push((key.clone(), newest));
            }
        }
    }
}
