//! Conversion of an operation's deltas to queue entries: first the steps that run user code, then those under the lock.

use std::hash::BuildHasher;
use std::iter;
use std::sync::Arc;

use foldhash::fast::RandomState;
use kinformer_core::internal::{ask, readable_key};
use kinformer_core::{
    Delta, Deltas, Error, KeyRef, Object, ObjectKey, PartId, Parts, Replacement, Report, ResourceVersion,
    Tombstone, Transform, VersionUpdate,
};
use smallvec::SmallVec;

use crate::backlog::{Backlog, DeferredDrops, Entry, Queued};
use crate::in_flight::Newest;
use crate::incoming::{self, Deletion, Incoming, Keyed};
use crate::key_map::KeyMap;
use crate::known::{self, Known, LastKnown};
use crate::state::State;

/// Settings of a queue, which need no lock.
pub(crate) struct Settings<T> {
    pub(crate) known: Option<Known<T>>,
    pub(crate) transform: Option<Transform<T>>,
    pub(crate) parts: Parts<T>,
    /// Whether entries have keys.
    pub(crate) keyed: bool,
    /// Whether entries have a key hash, for a queue whose entries may have no key.
    pub(crate) hashed: bool,
    /// Whether deletions are queued only for known objects.
    pub(crate) checks_deletions: bool,
    pub(crate) seed: RandomState,
}

/// The prepared writes of one operation.
pub(crate) type Writes<T> = SmallVec<[Write<T>; 1]>;

/// A prepared write: all user code has run, only the lock is still needed.
pub(crate) enum Write<T> {
    One {
        entry: Entry<T>,
        part: Option<PartId>,
        version: VersionUpdate,
    },
    Delete {
        entry: Entry<T>,
        part: Option<PartId>,
        version: VersionUpdate,
        known: bool,
    },
    /// A whole list as one entry.
    All {
        list: Box<Replacement<T>>,
        version: VersionUpdate,
    },
    Replace(Box<SplitList<T>>),
    SyncAll,
    Resync {
        known: Vec<(ObjectKey, Arc<T>)>,
    },
    Bookmark {
        part: PartId,
        version: ResourceVersion,
        as_entry: bool,
    },
}

/// A list that is split into single deltas.
pub(crate) struct SplitList<T> {
    part: PartId,
    objects: Vec<Entry<T>>,
    /// The keys of all existing objects, delivered or not.
    all: KeyMap<()>,
    is_complete: bool,
    version: VersionUpdate,
    /// Known objects of the part that are missing from the list.
    missing: Vec<LastKnown<T>>,
}

impl<T: Object> Settings<T> {
    /// Checks and transforms deltas. Objects that cannot be queued are left out and reported.
    pub(crate) fn prepare(&self, deltas: Deltas<T>) -> (Writes<T>, Report) {
        let (mut writes, mut report) = (Writes::new(), Report::default());
        let mut position = 0;
        for delta in deltas {
            let first = position;
            position += delta.positions();
            match self.write(delta, first, &mut report) {
                Ok(write) => writes.extend(write),
                Err(error) => report.push(first, error),
            }
        }
        (writes, report)
    }

    fn write(
        &self,
        delta: Delta<T>,
        position: usize,
        report: &mut Report,
    ) -> Result<Option<Write<T>>, Error> {
        Ok(Some(match delta {
            Delta::Added(object) => self.object(Delta::Added, object)?,
            Delta::Updated(object) => self.object(Delta::Updated, object)?,
            Delta::Replaced(object) => self.object(Delta::Replaced, object)?,
            // A resynced object is known, so it has passed the transform already.
            Delta::Sync(object) => {
                incoming::object((None, &self.parts), object.clone())?;
                let part = self.part_of(&object)?;
                Write::One { entry: self.entry(Delta::Sync(object))?, part, version: VersionUpdate::NONE }
            }
            Delta::Deleted(tombstone) => self.deletion(tombstone, position, report)?,
            Delta::ReplacedAll(list) => self.list(*list, position, report),
            Delta::SyncAll if !self.keyed => Write::SyncAll,
            Delta::SyncAll if self.known.is_some() => Write::Resync { known: Vec::new() },
            Delta::Bookmark { part, resource_version: version } => {
                Write::Bookmark { part, version, as_entry: !self.keyed }
            }
            _ => return Ok(None),
        }))
    }

    fn object(&self, kind: fn(Arc<T>) -> Delta<T>, object: Arc<T>) -> Result<Write<T>, Error> {
        let (version, object) = incoming::object(self.transformed(), object)?;
        let part = self.part_of(&object)?;
        Ok(Write::One { entry: self.entry(kind(object))?, part, version })
    }

    fn deletion(
        &self,
        tombstone: Tombstone<Arc<T>>,
        position: usize,
        report: &mut Report,
    ) -> Result<Write<T>, Error> {
        let Deletion { version, mut tombstone, mut problem } =
            incoming::deletion(self.transformed(), tombstone)?;
        let named = matches!(&tombstone, Tombstone::FinalStateUnknown(missed) if missed.part.is_some());
        let state = tombstone.object().filter(|_| !named);
        let part = match state.map(|object| self.part_of(object)) {
            Some(Ok(part)) => part,
            // A deletion is never left out; only its state is.
            Some(Err(error)) => {
                let key = incoming::key(|| tombstone.key())?;
                tombstone = Tombstone::final_state_unknown(key, None);
                problem = Some(error);
                None
            }
            None => ask(|| self.parts.of_deletion(&tombstone)).ok().flatten(),
        };
        let entry = self.entry(Delta::Deleted(tombstone))?;
        problem.into_iter().for_each(|problem| report.push_applied(position, problem));
        Ok(match self.checks_deletions {
            true => Write::Delete { entry, part, version, known: false },
            false => Write::One { entry, part, version },
        })
    }

    /// Returns the transform and the parts that apply to incoming objects.
    fn transformed(&self) -> (Option<&Transform<T>>, &Parts<T>) {
        (self.transform.as_ref(), &self.parts)
    }

    fn part_of(&self, object: &Arc<T>) -> Result<Option<PartId>, Error> {
        if !self.parts.is_divided() {
            return Ok(Some(PartId::ONLY));
        }
        match incoming::call_accessors(|| object.key(), || self.parts.of(object))? {
            None => Err(Error::OtherPart { key: readable_key(|| object.key()), part: None }),
            part => Ok(part),
        }
    }

    fn list(&self, list: Replacement<T>, position: usize, report: &mut Report) -> Write<T> {
        let (part, epoch, version) = (list.part, list.epoch, VersionUpdate::of_list(&list));
        let incoming = Incoming::new(self.transformed(), list);
        if !self.keyed {
            let Incoming { objects, undelivered, unreadable, resource_version, report: problems } = incoming;
            report.extend_at(position, problems);
            let list = Replacement::new(objects, resource_version).part(part).epoch(epoch);
            let list = list.undelivered(undelivered).unreadable(unreadable);
            return Write::All { list: Box::new(list), version };
        }
        let Keyed { objects, all, is_complete, report: problems } = incoming.keyed();
        report.extend_at(position, problems);
        let entry = |(key, object)| self.keyed_entry(key, Delta::Replaced(object));
        let objects = objects.into_iter().map(entry).collect();
        Write::Replace(Box::new(SplitList { part, objects, all, is_complete, version, missing: Vec::new() }))
    }

    fn entry(&self, delta: Delta<T>) -> Result<Entry<T>, Error> {
        let key_of = || delta.key().unwrap_or_else(|| KeyRef::named(""));
        if self.keyed {
            let key = incoming::key(key_of)?;
            return Ok(self.keyed_entry(key, delta));
        }
        let hash = ask(|| self.seed.hash_one(key_of()));
        let hash = hash.map_err(|source| Error::Accessor { key: None, source })?;
        Ok(Entry { delta, key: None, hash })
    }

    /// Creates an entry with a key that was read before, so that the object's accessor is not called again.
    fn keyed_entry(&self, key: ObjectKey, delta: Delta<T>) -> Entry<T> {
        let hash = if self.hashed { self.seed.hash_one(key.as_key()) } else { 0 };
        Entry { delta, key: Some(key), hash }
    }

    /// Queues one write, under the lock. Returns whether this made the queue synced.
    pub(crate) fn queue<B: Backlog<T>>(
        &self,
        state: &mut State<T, B>,
        write: Write<T>,
        limit: usize,
        drops: &mut DeferredDrops<T>,
    ) -> bool {
        match write {
            Write::One { entry, part, version } => {
                let synced = part.is_some_and(|part| state.initial.written(part));
                state.backlog.push(entry, drops);
                state.attach_version(part, version);
                synced
            }
            Write::Delete { entry, part, version, known } => {
                let synced = part.is_some_and(|part| state.initial.written(part));
                let wanted = entry.key.as_ref();
                let wanted =
                    wanted.is_none_or(|key| state.backlog.wants_deletion(key, &state.flight, part, known));
                match wanted {
                    true => state.backlog.push(entry, drops),
                    false => drops.push(Newest::State(entry.delta.object().cloned())),
                }
                state.attach_version(part, version);
                synced
            }
            Write::All { list, version } => {
                let (part, before) = (list.part, state.backlog.entries());
                state.backlog.push(Entry::of_all(Delta::ReplacedAll(list)), drops);
                state.attach_version(Some(part), version);
                state.initial.replaced(part, iter::once(before..before + 1))
            }
            Write::Replace(list) => self.queue_split_list(state, *list, drops),
            Write::SyncAll => {
                state.backlog.push(Entry::of_all(Delta::SyncAll), drops);
                false
            }
            Write::Resync { known } => {
                let queued = state.backlog.newest(&|_| true, &|_| true);
                for (key, object) in known {
                    match queued.has(&key) || state.flight.has(&key) {
                        true => drops.push(Newest::State(Some(object))),
                        false => {
                            let entry = self.keyed_entry(key, Delta::Sync(object));
                            state.backlog.push(entry, drops);
                        }
                    }
                }
                false
            }
            Write::Bookmark { part, version, as_entry } => {
                if as_entry && state.backlog.depth() < limit {
                    let bookmark = Delta::Bookmark { part, resource_version: version.clone() };
                    state.backlog.push(Entry::of_all(bookmark), drops);
                }
                state.attach_version(Some(part), VersionUpdate::Advance(version));
                false
            }
        }
    }

    /// Queues a list as single deltas. In an ordered queue the deletions come first; in a queue that merges by key, the
    /// objects come first.
    fn queue_split_list<B: Backlog<T>>(
        &self,
        state: &mut State<T, B>,
        list: SplitList<T>,
        drops: &mut DeferredDrops<T>,
    ) -> bool {
        let SplitList { part, objects, all, is_complete, version, missing } = list;
        // An object missing from an incomplete list may exist, so it is treated as listed.
        let listed = |key: &ObjectKey| !is_complete || all.contains_key(key);
        let before = state.backlog.entries();
        // Deltas of other parts do not concern this one. A deletion by key alone concerns all parts.
        let concerns = |delta: &Delta<T>| {
            !self.parts.is_divided()
                || match known::part_of(&self.parts, delta) {
                    Some(other) => other == part,
                    None => delta.object().is_none(),
                }
        };
        let Queued { newest, places } = state.backlog.newest(&|key| !listed(key), &concerns);
        let mut gone: Vec<LastKnown<T>> = Vec::new();
        for (key, newest) in newest {
            match newest {
                Newest::State(object) => gone.push((key, object)),
                newest => drops.push(newest),
            }
        }
        gone.extend(state.flight.existing(part, |key| !listed(key) && !places.contains_key(key)));
        for (key, object) in missing {
            match places.contains_key(&key) || state.flight.exists(&key, Some(part)).is_some() {
                true => drops.push(Newest::State(object)),
                false => gone.push((key, object)),
            }
        }
        // The queued entries that the list's deltas are merged into.
        let mut initial = match B::KEYED && before > 0 && state.initial.is_first(part) {
            // In an undivided queue, everything before the first list counts as part of it.
            true if !self.parts.is_divided() => iter::once(0..before).collect(),
            true => {
                let there = objects.iter().filter_map(|entry| entry.key.as_ref());
                let mut keys: Vec<_> = there.chain(gone.iter().map(|(key, _)| key)).collect();
                keys.sort_unstable();
                state.backlog.places(&|key| keys.binary_search(&key).is_ok())
            }
            false => Vec::new(),
        };
        let tombstones = gone.into_iter().map(|(key, last_known)| {
            let tombstone = Tombstone::final_state_unknown(key.clone(), last_known).from_part(part);
            self.keyed_entry(key, Delta::Deleted(tombstone))
        });
        if !B::KEYED {
            tombstones.for_each(|entry| state.backlog.push(entry, drops));
            objects.into_iter().for_each(|entry| state.backlog.push(entry, drops));
        } else {
            for Entry { delta, key, hash } in objects {
                let delta = state.backlog.listed(delta);
                state.backlog.push(Entry { delta, key, hash }, drops);
            }
            tombstones.for_each(|entry| state.backlog.push(entry, drops));
        }
        state.attach_version(Some(part), version);
        let after = state.backlog.entries();
        match initial.last_mut() {
            Some(last) if last.end == before => last.end = after,
            _ => initial.push(before..after),
        }
        state.initial.replaced(part, initial)
    }
}

impl<T: Object> Write<T> {
    /// Returns whether the known objects must be read first.
    pub(crate) fn needs_known(&self) -> bool {
        match self {
            Self::Delete { .. } | Self::Resync { .. } => true,
            Self::Replace(list) => list.is_complete,
            Self::One { .. } | Self::All { .. } | Self::SyncAll | Self::Bookmark { .. } => false,
        }
    }

    /// Reads the known objects, without the lock.
    pub(crate) fn read_known(&mut self, objects: &Known<T>, parts: &Parts<T>) -> Result<(), Error> {
        match self {
            Self::Delete { entry: Entry { key: Some(key), .. }, known, .. } => {
                *known = known::is_known(objects, key)?;
            }
            Self::Replace(list) if list.is_complete => {
                list.missing = known::missing(objects, &list.all, (parts, list.part))?;
            }
            Self::Resync { known } => *known = known::all(objects)?,
            _ => {}
        }
        Ok(())
    }

    /// Returns whether this write needs room in the queue.
    pub(crate) fn needs_room(&self) -> bool {
        !matches!(self, Self::Bookmark { .. })
    }

    /// Returns the object's key, if this write concerns one object and its accessor returns a key.
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        let (Self::One { entry, .. } | Self::Delete { entry, .. }) = self else { return None };
        let key = || ObjectKey::try_from(entry.delta.key()?).ok();
        entry.key.clone().or_else(|| ask(key).ok().flatten())
    }
}
