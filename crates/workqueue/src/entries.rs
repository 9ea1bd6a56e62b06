//! The keys of a queue, each in a numbered slot, and the lists that link these slots.

use std::num::NonZeroU64;
use std::sync::Arc;

use slab::Slab;

/// All entries.
pub(crate) struct Entries<K, C>(Slab<Entry<K, C>>);

/// Every slot in a list, in the table, in a delay and in the guard of a run is that of an entry: an entry is removed
/// only when it is in none of them.
#[allow(clippy::indexing_slicing, reason = "the slot is that of an entry")]
impl<K, C> Entries<K, C> {
    pub(crate) fn entry(&self, slot: Slot) -> &Entry<K, C> {
        &self.0[slot]
    }

    pub(crate) fn entry_mut(&mut self, slot: Slot) -> &mut Entry<K, C> {
        &mut self.0[slot]
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Entry<K, C> {
        self.0.remove(slot)
    }
}

impl<K, C> Entries<K, C> {
    pub(crate) fn new() -> Self {
        Self(Slab::new())
    }

    /// The entry of a slot that may have been removed.
    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry<K, C>> {
        self.0.get(slot)
    }

    pub(crate) fn insert(&mut self, entry: Entry<K, C>) -> Slot {
        self.0.insert(entry)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// No slot is this high.
    pub(crate) fn end(&self) -> Slot {
        self.0.capacity()
    }
}

/// The number of an entry.
pub(crate) type Slot = usize;

/// No entry.
const NONE: Slot = usize::MAX;

/// A key that is queued, delayed or in flight.
pub(crate) struct Entry<K, C> {
    pub(crate) key: Arc<K>,
    pub(crate) hash: u64,
    pub(crate) pending: Pending,
    /// The marks of the additions that led to the pending run.
    pub(crate) marks: u32,
    /// The newest cause of the pending run.
    pub(crate) cause: Option<C>,
    /// The priority of the pending run.
    pub(crate) priority: i64,
    /// The end of a delay, or the time at which the pending run was queued, if durations are recorded.
    pub(crate) time: Time,
    /// Distinguishes delays with equal ends.
    pub(crate) delay: u64,
    /// The number of the current run, which is unique in the queue, while the key is in flight.
    pub(crate) run: Option<NonZeroU64>,
    /// When that run was started, if durations are recorded.
    pub(crate) started: Time,
    links: [Links; 2],
}

/// A time, since the queue was created: smaller than an instant.
pub(crate) type Time = u64;

/// The next run of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// None was requested.
    None,
    /// The key waits for a worker.
    Ready,
    /// The key is in flight, and is queued when that run has finished.
    AfterRun,
    /// The key is queued later.
    Delayed,
}

impl<K, C> Entry<K, C> {
    pub(crate) fn new(key: K, hash: u64) -> Self {
        Self {
            key: Arc::new(key),
            hash,
            pending: Pending::None,
            marks: 0,
            cause: None,
            priority: 0,
            time: 0,
            delay: 0,
            run: None,
            started: 0,
            links: [Links::NONE; 2],
        }
    }
}

/// The neighbours of an entry in a list.
#[derive(Clone, Copy)]
struct Links {
    previous: Slot,
    next: Slot,
}

impl Links {
    const NONE: Self = Self { previous: NONE, next: NONE };
}

/// A list of entries, linked through them. `L` selects the links that it uses: an entry is in at most one list of each
/// number.
#[derive(Clone, Copy)]
pub(crate) struct List<const L: usize> {
    first: Slot,
    last: Slot,
}

impl<const L: usize> List<L> {
    pub(crate) const fn new() -> Self {
        Self { first: NONE, last: NONE }
    }

    pub(crate) fn first(&self) -> Option<Slot> {
        (self.first != NONE).then_some(self.first)
    }

    pub(crate) fn push<K, C>(&mut self, entries: &mut Entries<K, C>, slot: Slot) {
        *links::<K, C, L>(entries, slot) = Links { previous: self.last, next: NONE };
        match self.last {
            NONE => self.first = slot,
            last => links::<K, C, L>(entries, last).next = slot,
        }
        self.last = slot;
    }

    /// Removes an entry of this list.
    pub(crate) fn remove<K, C>(&mut self, entries: &mut Entries<K, C>, slot: Slot) {
        let Links { previous, next } = std::mem::replace(links::<K, C, L>(entries, slot), Links::NONE);
        match previous {
            NONE => self.first = next,
            previous => links::<K, C, L>(entries, previous).next = next,
        }
        match next {
            NONE => self.last = previous,
            next => links::<K, C, L>(entries, next).previous = previous,
        }
    }

    pub(crate) fn iter<'a, K, C>(
        &self,
        entries: &'a Entries<K, C>,
    ) -> impl Iterator<Item = (Slot, &'a Entry<K, C>)> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let slot = next;
            let entry = entries.get(slot)?;
            next = entry.links.get(L)?.next;
            Some((slot, entry))
        })
    }
}

fn links<K, C, const L: usize>(entries: &mut Entries<K, C>, slot: Slot) -> &mut Links {
    const { assert!(L < 2) };
    let [first, second] = &mut entries.entry_mut(slot).links;
    if L == 0 { first } else { second }
}
