//! In which two kinds of delta queues differ: what they keep, and in which order.

use std::ops::Range;

use kinformer_core::{Delta, ObjectKey, PartId, Parts, VersionUpdates};

use crate::in_flight::{InFlight, Newest};
use crate::key_map::KeyMap;
use crate::popped::Taken;

/// The entries of a queue, in the order of their pops.
pub trait Backlog<T>: Default + Send + 'static {
    /// The name of the queue.
    const NAME: &'static str;
    /// Whether every entry has its key, also without known objects: a list is then always taken apart.
    const KEYED: bool;

    /// The parts of what is queued. Called before anything is.
    fn set_parts(&mut self, _parts: Parts<T>) {}

    /// How many deltas there are.
    fn depth(&self) -> usize;

    /// How many entries there are: what a pop takes at least one of.
    fn entries(&self) -> usize;

    /// Adds a delta. What it displaces goes into the garbage.
    fn push(&mut self, entry: Entry<T>, garbage: &mut Garbage<T>);

    /// Whether a deletion is to be queued; `known` says whether the known objects have the key.
    fn wants_deletion(
        &self,
        _key: &ObjectKey,
        _flight: &InFlight<T>,
        _part: Option<PartId>,
        _known: bool,
    ) -> bool {
        true
    }

    /// The newest queued delta that is wanted of each key that is, in the order of the keys' first deltas.
    fn newest(&self, keys: &dyn Fn(&ObjectKey) -> bool, deltas: &dyn Fn(&Delta<T>) -> bool) -> Queued<T>;

    /// Where in the queue the entries of these keys are, in a queue in which deltas join those of their keys.
    fn places(&self, _keys: &dyn Fn(&ObjectKey) -> bool) -> Vec<Range<usize>> {
        Vec::new()
    }

    /// What a list queues in place of the `Replaced` of an object.
    fn listed(&self, delta: Delta<T>) -> Delta<T> {
        delta
    }

    /// Notes that everything that was queued up to now leads to these versions. Gives them back if nothing is queued.
    fn reaches(&mut self, versions: VersionUpdates) -> Option<VersionUpdates>;

    /// Takes entries of distinct keys, at least one and at most `max`, from the front; says how many.
    fn take(&mut self, max: usize, flight: &mut InFlight<T>, garbage: &mut Garbage<T>) -> (usize, Taken<T>);
}

/// What is to be dropped once the lock is released, because dropping may run user code.
pub(crate) type Garbage<T> = Vec<Newest<T>>;

/// A delta that is ready to be queued.
pub struct Entry<T> {
    pub(crate) delta: Delta<T>,
    /// The key, where keys are tracked beyond their pop.
    pub(crate) key: Option<ObjectKey>,
    /// The hash of the key in a queue without keys, made before the lock is taken; else 0.
    pub(crate) hash: u64,
}

impl<T> Entry<T> {
    /// A delta without a key.
    pub(crate) fn of_all(delta: Delta<T>) -> Self {
        Self { delta, key: None, hash: 0 }
    }
}

/// The newest queued deltas of some keys.
pub struct Queued<T> {
    pub(crate) newest: Vec<(ObjectKey, Newest<T>)>,
    /// Where each key is among them.
    pub(crate) places: KeyMap<usize>,
}

impl<T> Queued<T> {
    pub(crate) fn new() -> Self {
        Self { newest: Vec::new(), places: KeyMap::default() }
    }

    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.places.contains_key(key)
    }

    /// Notes a delta that is newer than those noted before.
    pub(crate) fn note(&mut self, key: &ObjectKey, delta: &Delta<T>) {
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
