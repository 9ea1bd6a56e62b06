//! What has been popped and not been processed yet.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};
use kinformer_core::{Delta, KeyRef, ObjectKey};

use crate::known::LastKnown;

pub(crate) type KeyMap<V> = HashMap<ObjectKey, V, RandomState>;

/// A key to be looked up in a [`KeyMap`]: a borrowed key has the hash of an owned one.
#[derive(Hash)]
pub(crate) struct Lookup<'a>(pub(crate) KeyRef<'a>);

impl Equivalent<ObjectKey> for Lookup<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        key.as_key() == self.0
    }
}

/// The newest that is known of an object: its state, or that it was deleted.
pub enum Newest<T> {
    State(Option<Arc<T>>),
    Deleted,
}

impl<T> Newest<T> {
    pub(crate) fn of(delta: &Delta<T>) -> Self {
        match delta {
            Delta::Deleted(_) => Self::Deleted,
            other => Self::State(other.object().cloned()),
        }
    }
}

/// Keys that have been popped: those being processed, and for a while those that have been.
///
/// The queue asks the known objects without holding its lock, because they are user code. While it does, a
/// consumer may finish an object: what the known objects said of that one is out of date, and the queue has
/// forgotten it. So as long as anyone is asking, what is finished is kept here, and it counts more than what
/// was said.
pub struct InFlight<T> {
    keys: KeyMap<Entry<T>>,
    asking: usize,
}

struct Entry<T> {
    /// How many pops of this key are being processed.
    pops: usize,
    newest: Newest<T>,
}

impl<T> InFlight<T> {
    pub(crate) fn new() -> Self {
        Self { keys: KeyMap::default(), asking: 0 }
    }

    /// The newest that is known of a key that was popped.
    pub(crate) fn newest(&self, key: &ObjectKey) -> Option<&Newest<T>> {
        self.keys.get(key).map(|entry| &entry.newest)
    }

    /// Whether the key is being processed.
    pub(crate) fn is_processing(&self, key: &ObjectKey) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.pops > 0)
    }

    /// The objects whose keys are `wanted` and whose newest delta is not a deletion; by key, so that the same
    /// history always gives the same deltas.
    pub(crate) fn existing(&self, wanted: impl Fn(&ObjectKey) -> bool) -> Vec<LastKnown<T>> {
        let mut existing: Vec<_> = self
            .keys
            .iter()
            .filter(|(key, _)| wanted(key))
            .filter_map(|(key, entry)| match &entry.newest {
                Newest::State(object) => Some((key.clone(), object.clone())),
                Newest::Deleted => None,
            })
            .collect();
        existing.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        existing
    }

    /// Notes that a key was popped. Gives back what is to be dropped without the lock.
    pub(crate) fn popped(&mut self, key: ObjectKey, newest: Newest<T>) -> Newest<T> {
        let entry = self.keys.entry(key).or_insert(Entry { pops: 0, newest: Newest::Deleted });
        entry.pops += 1;
        std::mem::replace(&mut entry.newest, newest)
    }

    /// Notes that a pop of a key has been processed. Gives back what is to be dropped without the lock.
    pub(crate) fn processed(&mut self, key: &ObjectKey) -> Option<Newest<T>> {
        let entry = self.keys.get_mut(key)?;
        entry.pops = entry.pops.saturating_sub(1);
        if entry.pops > 0 || self.asking > 0 {
            return None;
        }
        let gone = self.keys.remove(key).map(|entry| entry.newest);
        crate::shrink(&mut self.keys);
        gone
    }

    pub(crate) fn begin_asking(&mut self) {
        self.asking += 1;
    }

    /// Gives back what is to be dropped without the lock.
    pub(crate) fn end_asking(&mut self) -> Vec<Newest<T>> {
        self.asking -= 1;
        if self.asking > 0 {
            return Vec::new();
        }
        let gone = self.keys.extract_if(|_, entry| entry.pops == 0).map(|(_, entry)| entry.newest).collect();
        crate::shrink(&mut self.keys);
        gone
    }

    /// How many keys are being processed.
    pub(crate) fn processing(&self) -> usize {
        // What has been processed is kept only while somebody asks, so that counting is rare.
        match self.asking {
            0 => self.keys.len(),
            _ => self.keys.values().filter(|entry| entry.pops > 0).count(),
        }
    }
}
