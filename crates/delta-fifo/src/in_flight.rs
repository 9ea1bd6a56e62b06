//! What has been popped and not been processed yet.

use std::sync::Arc;

use kinformer_core::{Delta, Object, ObjectKey, PartId, Parts};
use smallvec::SmallVec;

use crate::key_map::{KeyMap, shrink};
use crate::known::{self, LastKnown};

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
    parts: Parts<T>,
}

struct Entry<T> {
    /// How many pops of this key are being processed.
    pops: usize,
    /// Of each part in which it was.
    newest: SmallVec<[(PartId, Newest<T>); 1]>,
}

impl<T> Entry<T> {
    fn newest_in(&self, part: PartId) -> Option<&Newest<T>> {
        self.newest.iter().find(|(other, _)| *other == part).map(|(_, newest)| newest)
    }

    fn garbage(self) -> impl Iterator<Item = Newest<T>> {
        self.newest.into_iter().map(|(_, newest)| newest)
    }
}

impl<T: Object> InFlight<T> {
    pub(crate) fn new(parts: Parts<T>) -> Self {
        Self { keys: KeyMap::default(), asking: 0, parts }
    }

    /// Whether anything is known of a key that was popped.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.keys.contains_key(key)
    }

    /// Whether the newest delta of a key that was popped, if it was, is not a deletion; of a part, or of any.
    pub(crate) fn exists(&self, key: &ObjectKey, part: Option<PartId>) -> Option<bool> {
        let entry = self.keys.get(key)?;
        let exists = |newest: &Newest<T>| matches!(newest, Newest::State(_));
        match part {
            Some(part) => entry.newest_in(part).map(exists),
            None => Some(entry.newest.iter().any(|(_, newest)| exists(newest))),
        }
    }

    /// Whether the key is being processed.
    pub(crate) fn is_processing(&self, key: &ObjectKey) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.pops > 0)
    }

    /// The objects whose keys are `wanted` and whose newest delta of this part is not a deletion; by key, so that the
    /// same history always gives the same deltas.
    pub(crate) fn existing(&self, part: PartId, wanted: impl Fn(&ObjectKey) -> bool) -> Vec<LastKnown<T>> {
        let mut existing: Vec<_> = self
            .keys
            .iter()
            .filter(|(key, _)| wanted(key))
            .filter_map(|(key, entry)| match entry.newest_in(part)? {
                Newest::State(object) => Some((key.clone(), object.clone())),
                Newest::Deleted => None,
            })
            .collect();
        existing.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        existing
    }

    /// Notes that deltas of a key were popped. What is to be dropped without the lock goes into the garbage.
    pub(crate) fn popped(&mut self, key: ObjectKey, deltas: &[Delta<T>], garbage: &mut Vec<Newest<T>>) {
        let Self { keys, parts, .. } = self;
        let entry = keys.entry(key).or_insert(Entry { pops: 0, newest: SmallVec::new() });
        entry.pops += 1;
        let mut note = |part: PartId, delta: &Delta<T>| {
            let newest = Newest::of(delta);
            match entry.newest.iter_mut().find(|(other, _)| *other == part) {
                Some((_, known)) => garbage.push(std::mem::replace(known, newest)),
                None => entry.newest.push((part, newest)),
            }
        };
        if !parts.is_divided() {
            deltas.last().into_iter().for_each(|delta| note(PartId::ONLY, delta));
            return;
        }
        for delta in deltas {
            match known::concerned(parts, delta) {
                Some(part) => note(part, delta),
                // Of no part, as far as is known; a deletion by the key alone is one from all of them.
                None if matches!(delta, Delta::Deleted(_)) => parts.ids().for_each(|part| note(part, delta)),
                None => {}
            }
        }
    }

    /// Notes that a pop of a key has been processed. Gives back what is to be dropped without the lock.
    pub(crate) fn processed(&mut self, key: &ObjectKey) -> Option<impl Iterator<Item = Newest<T>> + use<T>> {
        let entry = self.keys.get_mut(key)?;
        entry.pops = entry.pops.saturating_sub(1);
        if entry.pops > 0 || self.asking > 0 {
            return None;
        }
        let gone = self.keys.remove(key).map(Entry::garbage);
        shrink(&mut self.keys);
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
        let gone = self.keys.extract_if(|_, entry| entry.pops == 0);
        let gone = gone.flat_map(|(_, entry)| entry.garbage()).collect();
        shrink(&mut self.keys);
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
