//! From the deltas of one operation to entries of a queue: what needs user code first, then what needs the lock.

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

use crate::backlog::{Backlog, Entry, Garbage, Queued};
use crate::in_flight::Newest;
use crate::incoming::{self, Deletion, Incoming, Keyed};
use crate::key_map::KeyMap;
use crate::known::{self, Known, LastKnown};
use crate::state::State;

/// What is set of a queue, and needs no lock.
pub(crate) struct Settings<T> {
    pub(crate) known: Option<Known<T>>,
    pub(crate) transform: Option<Transform<T>>,
    pub(crate) parts: Parts<T>,
    /// Whether entries have keys.
    pub(crate) keyed: bool,
    /// Whether keys are hashed as well, for a queue in which they may be missing.
    pub(crate) hashed: bool,
    /// Whether a deletion is queued only of what is known.
    pub(crate) checks_deletions: bool,
    pub(crate) seed: RandomState,
}

/// The writes of one operation.
pub(crate) type Writes<T> = SmallVec<[Write<T>; 1]>;

/// A delta that has asked user code everything and only needs the lock.
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
    Replace(Box<Apart<T>>),
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

/// A list that is taken apart.
pub(crate) struct Apart<T> {
    part: PartId,
    objects: Vec<Entry<T>>,
    /// All keys that there are, delivered or not.
    all: KeyMap<()>,
    is_complete: bool,
    version: VersionUpdate,
    /// Known objects of the part that are not in the list.
    missing: Vec<LastKnown<T>>,
}

impl<T: Object> Settings<T> {
    /// Checks and transforms deltas. What cannot be queued is left out and reported.
    pub(crate) fn prepare(&self, deltas: Deltas<T>) -> (Writes<T>, Report) {
        let (mut writes, mut report) = (Writes::new(), Report::default());
        let mut position = 0;
        for delta in deltas {
            let at = position;
            position += delta.positions();
            match self.write(delta, at, &mut report) {
                Ok(write) => writes.extend(write),
                Err(error) => report.push(at, error),
            }
        }
        (writes, report)
    }

    fn write(&self, delta: Delta<T>, at: usize, report: &mut Report) -> Result<Option<Write<T>>, Error> {
        Ok(Some(match delta {
            Delta::Added(object) => self.object(Delta::Added, object)?,
            Delta::Updated(object) => self.object(Delta::Updated, object)?,
            Delta::Replaced(object) => self.object(Delta::Replaced, object)?,
            // It is known, and so has passed the transform.
            Delta::Sync(object) => {
                incoming::object((None, &self.parts), object.clone())?;
                let part = self.part_of(&object)?;
                Write::One { entry: self.entry(Delta::Sync(object))?, part, version: VersionUpdate::NONE }
            }
            Delta::Deleted(tombstone) => self.deletion(tombstone, at, report)?,
            Delta::ReplacedAll(list) => self.list(*list, at, report),
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
        at: usize,
        report: &mut Report,
    ) -> Result<Write<T>, Error> {
        let Deletion { version, mut tombstone, mut problem } =
            incoming::deletion(self.transformed(), tombstone)?;
        let named = matches!(&tombstone, Tombstone::FinalStateUnknown(missed) if missed.part.is_some());
        let state = tombstone.object().filter(|_| !named);
        let part = match state.map(|object| self.part_of(object)) {
            Some(Ok(part)) => part,
            // A deletion is never left out: its state is.
            Some(Err(error)) => {
                let key = incoming::key(|| tombstone.key())?;
                tombstone = Tombstone::final_state_unknown(key, None);
                problem = Some(error);
                None
            }
            None => ask(|| self.parts.of_deletion(&tombstone)).ok().flatten(),
        };
        let entry = self.entry(Delta::Deleted(tombstone))?;
        problem.into_iter().for_each(|problem| report.push_applied(at, problem));
        Ok(match self.checks_deletions {
            true => Write::Delete { entry, part, version, known: false },
            false => Write::One { entry, part, version },
        })
    }

    /// What an object passes on its way in.
    fn transformed(&self) -> (Option<&Transform<T>>, &Parts<T>) {
        (self.transform.as_ref(), &self.parts)
    }

    fn part_of(&self, object: &Arc<T>) -> Result<Option<PartId>, Error> {
        if !self.parts.is_divided() {
            return Ok(Some(PartId::ONLY));
        }
        match incoming::asked(|| object.key(), || self.parts.of(object))? {
            None => Err(Error::OtherPart { key: readable_key(|| object.key()), part: None }),
            part => Ok(part),
        }
    }

    fn list(&self, list: Replacement<T>, at: usize, report: &mut Report) -> Write<T> {
        let (part, epoch, version) = (list.part, list.epoch, VersionUpdate::of_list(&list));
        let incoming = Incoming::new(self.transformed(), list);
        if !self.keyed {
            let Incoming { objects, undelivered, unreadable, resource_version, report: problems } = incoming;
            report.extend_at(at, problems);
            let list = Replacement::new(objects, resource_version).part(part).epoch(epoch);
            let list = list.undelivered(undelivered).unreadable(unreadable);
            return Write::All { list: Box::new(list), version };
        }
        let Keyed { objects, all, is_complete, report: problems } = incoming.keyed();
        report.extend_at(at, problems);
        let entry = |(key, object)| self.keyed_entry(key, Delta::Replaced(object));
        let objects = objects.into_iter().map(entry).collect();
        Write::Replace(Box::new(Apart { part, objects, all, is_complete, version, missing: Vec::new() }))
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

    /// An entry whose key is known already, so that the object need not be asked.
    fn keyed_entry(&self, key: ObjectKey, delta: Delta<T>) -> Entry<T> {
        let hash = if self.hashed { self.seed.hash_one(key.as_key()) } else { 0 };
        Entry { delta, key: Some(key), hash }
    }

    /// Queues one write, with the lock. Says whether the queue has synced by it.
    pub(crate) fn queue<B: Backlog<T>>(
        &self,
        state: &mut State<T, B>,
        write: Write<T>,
        limit: usize,
        garbage: &mut Garbage<T>,
    ) -> bool {
        match write {
            Write::One { entry, part, version } => {
                let synced = part.is_some_and(|part| state.initial.written(part));
                state.backlog.push(entry, garbage);
                state.reaches(part, version);
                synced
            }
            Write::Delete { entry, part, version, known } => {
                let synced = part.is_some_and(|part| state.initial.written(part));
                let wanted = entry.key.as_ref();
                let wanted =
                    wanted.is_none_or(|key| state.backlog.wants_deletion(key, &state.flight, part, known));
                match wanted {
                    true => state.backlog.push(entry, garbage),
                    false => garbage.push(Newest::State(entry.delta.object().cloned())),
                }
                state.reaches(part, version);
                synced
            }
            Write::All { list, version } => {
                let (part, before) = (list.part, state.backlog.entries());
                state.backlog.push(Entry::of_all(Delta::ReplacedAll(list)), garbage);
                state.reaches(Some(part), version);
                state.initial.replaced(part, iter::once(before..before + 1))
            }
            Write::Replace(list) => self.queue_apart(state, *list, garbage),
            Write::SyncAll => {
                state.backlog.push(Entry::of_all(Delta::SyncAll), garbage);
                false
            }
            Write::Resync { known } => {
                let queued = state.backlog.newest(&|_| true, &|_| true);
                for (key, object) in known {
                    match queued.has(&key) || state.flight.has(&key) {
                        true => garbage.push(Newest::State(Some(object))),
                        false => {
                            let entry = self.keyed_entry(key, Delta::Sync(object));
                            state.backlog.push(entry, garbage);
                        }
                    }
                }
                false
            }
            Write::Bookmark { part, version, as_entry } => {
                if as_entry && state.backlog.depth() < limit {
                    let bookmark = Delta::Bookmark { part, resource_version: version.clone() };
                    state.backlog.push(Entry::of_all(bookmark), garbage);
                }
                state.reaches(Some(part), VersionUpdate::Advance(version));
                false
            }
        }
    }

    /// A list as single deltas. A queue in order has what is gone first; where the list merges into what is queued, it
    /// comes last.
    fn queue_apart<B: Backlog<T>>(
        &self,
        state: &mut State<T, B>,
        list: Apart<T>,
        garbage: &mut Garbage<T>,
    ) -> bool {
        let Apart { part, objects, all, is_complete, version, missing } = list;
        // What is missing in an incomplete list may exist: as if it were listed.
        let listed = |key: &ObjectKey| !is_complete || all.contains_key(key);
        let before = state.backlog.entries();
        // What is said of other parts says nothing of this one. A deletion by the key alone is one from all of them.
        let concerns = |delta: &Delta<T>| {
            !self.parts.is_divided()
                || match known::concerned(&self.parts, delta) {
                    Some(concerned) => concerned == part,
                    None => delta.object().is_none(),
                }
        };
        let Queued { newest, places } = state.backlog.newest(&|key| !listed(key), &concerns);
        let mut gone: Vec<LastKnown<T>> = Vec::new();
        for (key, newest) in newest {
            match newest {
                Newest::State(object) => gone.push((key, object)),
                newest => garbage.push(newest),
            }
        }
        gone.extend(state.flight.existing(part, |key| !listed(key) && !places.contains_key(key)));
        for (key, object) in missing {
            match places.contains_key(&key) || state.flight.exists(&key, Some(part)).is_some() {
                true => garbage.push(Newest::State(object)),
                false => gone.push((key, object)),
            }
        }
        // What it joins of what is queued by key.
        let mut initial = match B::KEYED && before > 0 && state.initial.is_first(part) {
            // What is in front of the only first list counts as a part of it.
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
            tombstones.for_each(|entry| state.backlog.push(entry, garbage));
            objects.into_iter().for_each(|entry| state.backlog.push(entry, garbage));
        } else {
            for Entry { delta, key, hash } in objects {
                let delta = state.backlog.listed(delta);
                state.backlog.push(Entry { delta, key, hash }, garbage);
            }
            tombstones.for_each(|entry| state.backlog.push(entry, garbage));
        }
        state.reaches(Some(part), version);
        let after = state.backlog.entries();
        match initial.last_mut() {
            Some(last) if last.end == before => last.end = after,
            _ => initial.push(before..after),
        }
        state.initial.replaced(part, initial)
    }
}

impl<T: Object> Write<T> {
    /// Whether the known objects have to be asked first.
    pub(crate) fn asks(&self) -> bool {
        match self {
            Self::Delete { .. } | Self::Resync { .. } => true,
            Self::Replace(list) => list.is_complete,
            Self::One { .. } | Self::All { .. } | Self::SyncAll | Self::Bookmark { .. } => false,
        }
    }

    /// Asks the known objects, without the lock.
    pub(crate) fn ask(&mut self, objects: &Known<T>, parts: &Parts<T>) -> Result<(), Error> {
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

    /// Whether it needs room in the queue.
    pub(crate) fn needs_room(&self) -> bool {
        !matches!(self, Self::Bookmark { .. })
    }

    /// The key of the object that it is about, if it is about one that gives its key.
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        let (Self::One { entry, .. } | Self::Delete { entry, .. }) = self else { return None };
        let key = || ObjectKey::try_from(entry.delta.key()?).ok();
        entry.key.clone().or_else(|| ask(key).ok().flatten())
    }
}
