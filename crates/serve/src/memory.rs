//! The bounded memory of changes: what the informers saw.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use kinformer::{Event, ObjectKey, PackedObject, PackedRef, ResourceVersion, Tombstone};
use kinformer_core::Object as _;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The bytes of a change beside its objects: its key, and its place.
const OVERHEAD: usize = 256;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Updated,
    Deleted,
    /// It left the scope of the informer.
    Left,
    /// The same state again.
    Resync,
}

impl ChangeKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Left => "left",
            Self::Resync => "resync",
        }
    }
}

/// A recorded change. The objects are those of the store, shared.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Unique and increasing among all informers of the server.
    pub(crate) id: u64,
    /// The number of the informer.
    pub(crate) informer: usize,
    pub(crate) kind: ChangeKind,
    pub(crate) key: ObjectKey,
    pub(crate) old: Option<Arc<PackedObject>>,
    /// For a deletion, the final state, if it is known.
    pub(crate) new: Option<Arc<PackedObject>>,
    pub(crate) final_state_unknown: bool,
    pub(crate) time: Timestamp,
    bytes: usize,
}

/// The last deletion of an object.
#[derive(Clone, Debug)]
pub(crate) struct Deletion {
    pub(crate) version: ResourceVersion,
    pub(crate) time: Timestamp,
    pub(crate) final_state_unknown: bool,
    /// The identifier of the change.
    id: u64,
}

/// The bounds of the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) changes: usize,
    pub(crate) bytes: usize,
}

/// The changes of all informers, oldest first.
#[derive(Debug)]
pub(crate) struct Memory {
    bounds: Bounds,
    first: u64,
    inner: Mutex<Inner>,
    /// The identifier of the last change.
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    changes: VecDeque<Arc<Recorded>>,
    bytes: usize,
    /// By informer: how many changes were dropped.
    dropped: HashMap<usize, u64>,
    deletions: HashMap<(usize, ObjectKey), Deletion>,
    /// The identifiers and keys of deletions in their order, to drop the oldest. May have some that are gone.
    deleted: VecDeque<(u64, (usize, ObjectKey))>,
}

impl Memory {
    /// `first` is the identifier of the first change: higher than those of earlier servers, whose clients may resume.
    pub(crate) fn new(bounds: Bounds, first: u64) -> Self {
        Self { bounds, first, inner: Mutex::default(), last: watch::Sender::new(first.saturating_sub(1)) }
    }

    /// Records an event, unless it is of the initial list. Never blocks for longer than the removal of a few changes.
    pub(crate) fn record<K>(&self, informer: usize, event: &Event<PackedRef<'_, K>>, time: Timestamp) {
        let Ok(key) = ObjectKey::try_from(event.key()) else { return };
        let shared = |object: &PackedRef<'_, K>| object.object().clone();
        let (kind, old, new, final_state_unknown) = match event {
            Event::Added(added) if added.in_initial_list => return,
            Event::Added(added) => (ChangeKind::Added, None, Some(shared(&added.object)), false),
            Event::Updated(updated) => {
                let (old, new) = (shared(&updated.old), shared(&updated.new));
                // A server may return other content for one version.
                let same = Arc::ptr_eq(&old, &new)
                    || old.resource_version() == new.resource_version()
                        && old.has_same_content(&new) == Some(true);
                let kind = if same { ChangeKind::Resync } else { ChangeKind::Updated };
                (kind, Some(old), Some(new), false)
            }
            Event::Deleted(deleted) => {
                let unknown = matches!(deleted.tombstone, Tombstone::FinalStateUnknown(_));
                (ChangeKind::Deleted, None, deleted.tombstone.object().map(shared), unknown)
            }
            Event::Left(left) => (ChangeKind::Left, None, Some(shared(&left.object)), false),
        };
        let length =
            |object: &Option<Arc<PackedObject>>| object.as_ref().map_or(0, |object| object.encoded_len());
        let bytes = OVERHEAD + length(&old) + length(&new);
        self.push(Recorded { id: 0, informer, kind, key, old, new, final_state_unknown, time, bytes });
    }

    /// Adds a change, and gives it its identifier.
    fn push(&self, mut change: Recorded) {
        let mut evicted = Vec::new();
        let last = {
            let mut inner = self.inner.lock();
            let last = inner.changes.back().map_or(*self.last.borrow(), |change| change.id);
            change.id = last + 1;
            inner.note_deletion(&change, self.bounds.changes);
            inner.bytes += change.bytes;
            inner.changes.push_back(Arc::new(change));
            while inner.changes.len() > self.bounds.changes || inner.bytes > self.bounds.bytes {
                let Some(oldest) = inner.changes.pop_front() else { break };
                inner.bytes = inner.bytes.saturating_sub(oldest.bytes);
                *inner.dropped.entry(oldest.informer).or_default() += 1;
                evicted.push(oldest);
            }
            // Under the lock, so that identifiers are published in their order.
            self.last.send_replace(last + 1);
            last + 1
        };
        tracing::trace!(id = last, "change recorded");
        // Objects are dropped after the lock is released.
        drop(evicted);
    }

    /// Returns a receiver of the identifier of the last change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The identifier of the last change, or the one before the first.
    pub(crate) fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// The identifier before that of the first change.
    pub(crate) fn start(&self) -> u64 {
        self.first.saturating_sub(1)
    }

    /// Returns at most `most` changes after an identifier, oldest first, and how many changes between them and the
    /// identifier were dropped.
    pub(crate) fn after(&self, id: u64, most: usize) -> (Vec<Arc<Recorded>>, u64) {
        let next = id.max(self.start()).saturating_add(1);
        let inner = self.inner.lock();
        let oldest = inner.changes.front().map_or(*self.last.borrow() + 1, |change| change.id);
        // Identifiers have no holes.
        let skip = usize::try_from(next.saturating_sub(oldest)).unwrap_or(usize::MAX);
        (inner.changes.iter().skip(skip).take(most).cloned().collect(), oldest.saturating_sub(next))
    }

    /// Whether an identifier is of an earlier server, or of none.
    pub(crate) fn is_foreign(&self, id: u64) -> bool {
        id < self.start() || id > self.last()
    }

    /// Returns the changes of an object, oldest first, and whether no change of its informer was dropped.
    pub(crate) fn history(&self, informer: usize, key: &ObjectKey) -> (Vec<Arc<Recorded>>, bool) {
        let inner = self.inner.lock();
        let changes = inner.changes.iter().filter(|change| change.informer == informer && change.key == *key);
        (changes.cloned().collect(), !inner.dropped.contains_key(&informer))
    }

    /// Returns the last deletion of an object that was not added again since.
    pub(crate) fn deletion(&self, informer: usize, key: &ObjectKey) -> Option<Deletion> {
        self.inner.lock().deletions.get(&(informer, key.clone())).cloned()
    }

    /// The number of changes, their bytes, and the number of dropped changes.
    pub(crate) fn figures(&self) -> (usize, usize, u64) {
        let inner = self.inner.lock();
        (inner.changes.len(), inner.bytes, inner.dropped.values().sum())
    }
}

impl Inner {
    fn note_deletion(&mut self, change: &Recorded, most: usize) {
        let place = (change.informer, change.key.clone());
        if change.kind != ChangeKind::Deleted {
            self.deletions.remove(&place);
            return;
        }
        let version = change.new.as_ref().map(|object| object.resource_version()).unwrap_or_default();
        let deletion = Deletion {
            version,
            time: change.time,
            final_state_unknown: change.final_state_unknown,
            id: change.id,
        };
        self.deletions.insert(place.clone(), deletion);
        self.deleted.push_back((change.id, place));
        while self.deleted.len() > most {
            let Some((id, place)) = self.deleted.pop_front() else { break };
            // The object may have been added and deleted again since.
            if self.deletions.get(&place).is_some_and(|deletion| deletion.id == id) {
                self.deletions.remove(&place);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const FIRST: u64 = 1000;

    /// Records that an object was added.
    pub(crate) fn add(memory: &Memory, name: &str) {
        memory.push(change(0, ChangeKind::Added, name));
    }

    fn change(id: u64, kind: ChangeKind, name: &str) -> Recorded {
        Recorded {
            id,
            informer: 0,
            kind,
            key: ObjectKey::new("shop", name).unwrap(),
            old: None,
            new: None,
            final_state_unknown: false,
            time: Timestamp::UNIX_EPOCH,
            bytes: 0,
        }
    }

    #[test]
    fn any_identifier_can_be_resumed_from() {
        let memory = Memory::new(Bounds { changes: 2, bytes: 100 }, FIRST);
        for (id, is_foreign) in
            [(0, true), (FIRST - 2, true), (FIRST - 1, false), (FIRST, true), (u64::MAX, true)]
        {
            assert_eq!(memory.is_foreign(id), is_foreign, "{id}");
            assert_eq!((memory.after(id, 10).0.len(), memory.after(id, 10).1), (0, 0), "{id}");
        }
    }

    // contract: H-13a
    #[test]
    fn last_deletion_outlives_earlier_ones_of_its_object() {
        let mut inner = Inner::default();
        for id in 0..5 {
            inner.note_deletion(&change(2 * id, ChangeKind::Deleted, "again"), 3);
            inner.note_deletion(&change(2 * id + 1, ChangeKind::Added, "again"), 3);
        }
        inner.note_deletion(&change(10, ChangeKind::Deleted, "again"), 3);
        inner.note_deletion(&change(11, ChangeKind::Deleted, "other"), 3);
        assert_eq!((inner.deletions.len(), inner.deleted.len()), (2, 3));
        for id in 12..15 {
            inner.note_deletion(&change(id, ChangeKind::Deleted, &format!("later-{id}")), 3);
        }
        assert_eq!((inner.deletions.len(), inner.deleted.len()), (3, 3), "the oldest are dropped");
    }
}
