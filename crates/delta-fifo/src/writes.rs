//! Conversion of an operation's deltas to queue entries: first the steps that run user code, then those under the lock.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::{iter, mem};

use foldhash::fast::RandomState;
use kinformer_core::internal::contain;
use kinformer_core::{
    BoxError, Delta, Error, KeyError, KeyRef, Object, ObjectKey, ObjectName, PartId, PartialErrors, Parts,
    Replacement, ResourceVersion, Tombstone, Transform, VersionUpdate,
};

use crate::backlog::{Backlog, Entry, Queued};
use crate::in_flight::{DeferredDrops, Newest};
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
    /// Whether deletions are queued only for known objects.
    pub(crate) checks_deletions: bool,
    pub(crate) seed: RandomState,
}

/// A prepared write: all user code has run, only the lock is still needed.
pub(crate) enum Write<T> {
    One {
        entry: Entry<T>,
        part: Option<PartId>,
        version: VersionUpdate,
        /// For a deletion that is queued only if the object is known: whether the known objects have the key.
        known: Option<bool>,
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
    /// Checks and transforms a delta of an operation. Returns `None` for a delta without an effect on
    /// the queue.
    ///
    /// # Errors
    /// The delta cannot be queued.
    #[inline]
    pub(crate) fn prepare(
        &self,
        delta: Delta<T>,
        errors: &mut PartialErrors,
    ) -> Result<Option<Write<T>>, Error> {
        let object = match &delta {
            Delta::Added(object)
            | Delta::Updated(object)
            | Delta::Replaced(object)
            | Delta::Sync(object)
            | Delta::Left(object) => object,
            _ => return self.prepare_other(delta, errors),
        };
        // A transform changes neither the key nor the part.
        let result = contain(|| {
            let key = object.key();
            key.check()?;
            let (key, hash) = self.key(key)?;
            Ok::<_, KeyError>((self.parts.of(object), object.resource_version(), key, hash))
        });
        let (part, version, key, hash) = match result {
            Ok(checked) => checked?,
            Err(source) => return Err(panicked(object, source)),
        };
        if part.is_none() {
            return Err(Error::OtherPart { object: ObjectName::of(|| object.key()), part: None });
        }
        let version = match delta {
            Delta::Sync(_) | Delta::Left(_) => VersionUpdate::NONE,
            _ => VersionUpdate::Advance(version),
        };
        let delta = match &self.transform {
            Some(transform) => transformed(delta, |object| transform.apply_in(&self.parts, object))?,
            None => delta,
        };
        Ok(Some(Write::One { entry: Entry { delta, key, hash }, part, version, known: None }))
    }

    /// Like [`Self::prepare`], for a delta without the state of an object, and for deletions.
    fn prepare_other(&self, delta: Delta<T>, errors: &mut PartialErrors) -> Result<Option<Write<T>>, Error> {
        Ok(Some(match delta {
            Delta::Deleted(tombstone) => self.deletion(tombstone, errors)?,
            Delta::ReplacedAll(list) => self.list(*list, errors),
            Delta::SyncAll if !self.keyed => Write::SyncAll,
            Delta::SyncAll if self.known.is_some() => Write::Resync { known: Vec::new() },
            Delta::Bookmark { part, resource_version: version } => {
                Write::Bookmark { part, version, as_entry: !self.keyed }
            }
            _ => return Ok(None),
        }))
    }

    /// The key of an entry, if entries have keys, and its hash.
    #[inline]
    fn key(&self, key: KeyRef<'_>) -> Result<(Option<ObjectKey>, u64), KeyError> {
        let owned = if self.keyed { Some(ObjectKey::try_from(key)?) } else { None };
        Ok((owned, self.seed.hash_one(key)))
    }

    fn deletion(&self, tombstone: Tombstone<Arc<T>>, errors: &mut PartialErrors) -> Result<Write<T>, Error> {
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
            None => contain(|| self.parts.of_deletion(&tombstone)).ok().flatten(),
        };
        let entry = self.entry(Delta::Deleted(tombstone))?;
        problem.into_iter().for_each(|problem| errors.push_applied(problem));
        let known = self.checks_deletions.then_some(false);
        Ok(Write::One { entry, part, version, known })
    }

    /// Returns the transform and the parts that apply to incoming objects.
    fn transformed(&self) -> (Option<&Transform<T>>, &Parts<T>) {
        (self.transform.as_ref(), &self.parts)
    }

    fn part_of(&self, object: &Arc<T>) -> Result<Option<PartId>, Error> {
        if let Some(only) = self.parts.only() {
            return Ok(Some(only));
        }
        match incoming::call_accessors(|| object.key(), || self.parts.of(object))? {
            None => Err(Error::OtherPart { object: ObjectName::of(|| object.key()), part: None }),
            part => Ok(part),
        }
    }

    fn list(&self, list: Replacement<T>, errors: &mut PartialErrors) -> Write<T> {
        let (part, version) = (list.part, VersionUpdate::of_list(&list));
        let incoming = Incoming::new(self.transformed(), list);
        if !self.keyed {
            let Incoming { objects, undelivered, unidentified, resource_version, errors: problems } =
                incoming;
            errors.extend(problems);
            let objects = objects.into_iter().flatten().collect();
            let list = Replacement::new(objects, resource_version).part(part);
            let list = list.undelivered(undelivered).unidentified(unidentified);
            return Write::All { list: Box::new(list), version };
        }
        let Keyed { objects, all, is_complete, errors: problems } = incoming.keyed();
        errors.extend(problems);
        let entry = |(key, object)| self.keyed_entry(key, Delta::Replaced(object));
        let objects = objects.into_iter().map(entry).collect();
        Write::Replace(Box::new(SplitList { part, objects, all, is_complete, version, missing: Vec::new() }))
    }

    fn entry(&self, delta: Delta<T>) -> Result<Entry<T>, Error> {
        let key_of = || delta.key().unwrap_or_else(|| KeyRef::named(""));
        let result = contain(|| self.key(key_of()));
        let (key, hash) =
            result.map_err(|source| Error::Accessor { object: ObjectName::Index(0), source })??;
        Ok(Entry { delta, key, hash })
    }

    /// Creates an entry with a key that was read before, so that the object's accessor is not called again.
    fn keyed_entry(&self, key: ObjectKey, delta: Delta<T>) -> Entry<T> {
        let hash = self.hash(&key);
        Entry { delta, key: Some(key), hash }
    }

    fn hash(&self, key: &ObjectKey) -> u64 {
        self.seed.hash_one(key.as_key())
    }

    /// Queues one write, under the lock. Returns whether this made the queue synced. The rest of the write is to be
    /// dropped without the lock.
    #[inline]
    pub(crate) fn queue<B: Backlog<T>>(
        &self,
        state: &mut State<T, B>,
        write: &mut Write<T>,
        limit: usize,
        drops: &mut DeferredDrops<T>,
    ) -> bool {
        let Write::One { entry, part, version, known } = write else {
            return self.queue_other(state, write, limit, drops);
        };
        let part = *part;
        let synced = part.is_some_and(|part| state.initial.written(part));
        let wanted = match (&entry.key, *known) {
            (Some(key), Some(known)) => {
                state.backlog.wants_deletion(key, entry.hash, &state.flight, part, known)
            }
            _ => true,
        };
        if wanted {
            state.backlog.push(mem::take(entry), drops);
        }
        state.attach_version(part, mem::take(version));
        synced
    }

    /// Like [`Self::queue`], for a write that does not concern one object.
    fn queue_other<B: Backlog<T>>(
        &self,
        state: &mut State<T, B>,
        write: &mut Write<T>,
        limit: usize,
        drops: &mut DeferredDrops<T>,
    ) -> bool {
        match mem::replace(write, Write::SyncAll) {
            Write::One { .. } => false,
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
                    let hash = self.hash(&key);
                    match queued.has(&key) || state.flight.has(&key, hash) {
                        true => drops.push(Newest::State(Some(object))),
                        false => {
                            let entry = Entry { delta: Delta::Sync(object), key: Some(key), hash };
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

    /// Returns the objects that a list of this part deletes, by the keys that it lists: from the backlog, in flight, and those
    /// that the known objects have and the list does not (`missing`).
    fn deleted_by_list<B: Backlog<T>>(
        &self,
        state: &mut State<T, B>,
        part: PartId,
        listed: &dyn Fn(&ObjectKey) -> bool,
        missing: Vec<LastKnown<T>>,
        drops: &mut DeferredDrops<T>,
    ) -> Vec<LastKnown<T>> {
        // Deltas of other parts do not concern this one. A deletion by key alone concerns all parts.
        let concerns = |delta: &Delta<T>| {
            !self.parts.is_divided()
                || match known::part_of(&self.parts, delta) {
                    Some(other) => other == part,
                    None => matches!(delta, Delta::Deleted(tombstone) if tombstone.is_of_all_parts()),
                }
        };
        let Queued { newest, places } = state.backlog.newest(&|key| !listed(key), &concerns);
        let mut deleted: Vec<LastKnown<T>> = Vec::new();
        for (key, newest) in newest {
            match newest {
                Newest::State(object) => deleted.push((key, object)),
                newest => drops.push(newest),
            }
        }
        deleted.extend(state.flight.existing(part, |key| !listed(key) && !places.contains_key(key)));
        for (key, object) in missing {
            let hash = self.hash(&key);
            match places.contains_key(&key) || state.flight.exists(&key, hash, Some(part)).is_some() {
                true => drops.push(Newest::State(object)),
                false => deleted.push((key, object)),
            }
        }
        deleted
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
        let deleted = self.deleted_by_list(state, part, &listed, missing, drops);
        // The queued entries that the list's deltas are merged into.
        let mut initial = match B::KEYED && before > 0 && state.initial.is_first(part) {
            // In an undivided queue, everything before the first list counts as part of it.
            true if !self.parts.is_divided() => iter::once(0..before).collect(),
            true => {
                let there = objects.iter().filter_map(|entry| entry.key.as_ref());
                let mut keys: Vec<_> = there.chain(deleted.iter().map(|(key, _)| key)).collect();
                keys.sort_unstable();
                state.backlog.places(&|key| keys.binary_search(&key).is_ok())
            }
            false => Vec::new(),
        };
        let tombstones = deleted.into_iter().map(|(key, last_known)| {
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
        if self.parts.is_divided() && after == before && initial.is_empty() {
            state.initial.replaced_by_nothing(part, before);
            return false;
        }
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
            Self::One { known, .. } => known.is_some(),
            Self::Resync { .. } => true,
            Self::Replace(list) => list.is_complete,
            Self::All { .. } | Self::SyncAll | Self::Bookmark { .. } => false,
        }
    }

    /// Reads the known objects, without the lock.
    pub(crate) fn read_known(&mut self, objects: &Known<T>, parts: &Parts<T>) -> Result<(), Error> {
        match self {
            Self::One { entry: Entry { key: Some(key), .. }, known: Some(known), .. } => {
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
        let Self::One { entry, .. } = self else { return None };
        let key = || ObjectName::of(|| entry.delta.key().unwrap_or(KeyRef::named(""))).key();
        entry.key.clone().or_else(key)
    }
}

#[cold]
fn panicked<T: Object>(object: &Arc<T>, source: BoxError) -> Error {
    Error::Accessor { object: ObjectName::of(|| object.key()), source }
}

/// Transforms the object of a delta. The object of a resync is known, so it has passed the transform already.
fn transformed<T>(
    delta: Delta<T>,
    transform: impl FnOnce(Arc<T>) -> Result<Arc<T>, Error>,
) -> Result<Delta<T>, Error> {
    Ok(match delta {
        Delta::Added(object) => Delta::Added(transform(object)?),
        Delta::Updated(object) => Delta::Updated(transform(object)?),
        Delta::Replaced(object) => Delta::Replaced(transform(object)?),
        known => known,
    })
}
