//! Taking over a whole list.

use std::mem;
use std::sync::Arc;

use kinformer_core::internal::ask;
use kinformer_core::{
    Change, Delta, Error, Object, ObjectKey, PartId, Parts, Replacement, Report, Tombstone, VersionUpdate,
    VersionUpdates,
};

use crate::evaluated::Evaluated;
use crate::indexer::Indexer;
use crate::points::{MAX_NUMBER, Points};
use crate::roots::{Edit, Functions, Roots, SLOT_LEAF, full, hash_key};
use crate::snapshot::discard;
use crate::write::{Changes, in_no_part, index_error, is_late, panicked};

/// The list, and what user code said about it.
struct List<T> {
    part: PartId,
    /// By position; `None` for what is left out.
    objects: Vec<Option<Arc<T>>>,
    /// By position: first the hash of the key, then the slot of the object that is there already, or `NEW`.
    numbers: Vec<u32>,
    undelivered: Vec<ObjectKey>,
    /// Whether what is missing is gone.
    is_complete: bool,
    /// Objects that are not stored, to be dropped without a lock.
    left_over: Vec<Arc<T>>,
    values: Evaluated,
    /// How many functions have been asked.
    asked: usize,
    /// What was wrong with objects that are left out.
    problems: Vec<(usize, Error)>,
    /// What was wrong with objects that are stored, but are not in an index.
    unindexed: Vec<(usize, Error)>,
}

/// No slot has this number.
const NEW: u32 = u32::MAX;

/// What is to be done, found without changing anything.
struct Plan<T> {
    /// The hashes of the new objects, in the order of their positions.
    new_hashes: Vec<u32>,
    /// Slots, and hashes, of the objects that are gone, with their tombstones.
    gone: Vec<(u32, u32, Tombstone<Arc<T>>)>,
}

impl<T: Object> Indexer<T> {
    /// From now on there is exactly what the list holds, at its version, which may be lower than before or
    /// unset. In a store that is [divided](crate::IndexerBuilder::parts) only objects of the list's part are removed.
    ///
    /// What the list names as undelivered stays as it is, and what is missing in a list that is not
    /// [complete](Replacement::is_complete) as well. Where a key occurs more than once the last object
    /// counts, and the earlier ones are reported. A state older than the one that another part has brought is left out
    /// without a report. An object that is left out because of its transform stays
    /// in its old state; one without a valid key is only reported.
    ///
    /// The new state is built aside, while readers read the old one, and shares with it everything that is
    /// the same; it is published in O(1). Meanwhile this takes about 25 bytes per object and 20 more per
    /// index, beside the list and the two states.
    ///
    /// # Errors
    /// There are more than 2^32 - 2 objects; nothing has changed.
    pub fn replace(&self, replacement: Replacement<T>) -> Result<Report, crate::Error> {
        let version = VersionUpdate::of_list(&replacement);
        let versions = VersionUpdates::of(replacement.part, version);
        let (report, _) = self.replace_with(replacement, &versions, None)?;
        Ok(report)
    }

    /// Moves versions as they are named. First come the changes of the objects that are gone, then those of the list,
    /// in its order.
    pub(crate) fn replace_with(
        &self,
        replacement: Replacement<T>,
        at: &VersionUpdates,
        mut changes: Changes<'_, T>,
    ) -> Result<(Report, u64), Error> {
        if replacement.objects.len() >= MAX_NUMBER as usize {
            return Err(full(None));
        }
        let is_complete = replacement.is_complete();
        let mut list = List {
            part: replacement.part,
            numbers: Vec::with_capacity(replacement.objects.len()),
            objects: replacement.objects.into_iter().map(Some).collect(),
            undelivered: replacement.undelivered,
            is_complete,
            left_over: Vec::new(),
            values: Evaluated::for_list(self.hasher.clone()),
            asked: 0,
            problems: Vec::new(),
            unindexed: Vec::new(),
        };
        self.transform_list(&mut list);
        let mut functions = self.functions();
        loop {
            list.ask(self, &functions);
            let mut writer = self.writer.lock();
            let before = self.shared.roots.read().clone();
            if before.functions.all.len() != list.asked {
                functions = before.functions.clone();
                continue;
            }
            let plan = list.plan(&before, &self.shared.parts);
            let mut after = Roots::clone(&before);
            let mut edit = Edit { roots: &mut after, writer: &mut writer };
            if !edit.has_room(plan.new_hashes.len()) {
                drop(writer);
                return Err(full(None));
            }
            edit.roots.revision += 1;
            at.apply_to(&mut edit.roots.versions);
            let displaced = list.execute(plan, &mut edit, changes.as_deref_mut());
            let sparse = edit.is_sparse();
            let (versions, revision) = (after.versions.clone(), after.revision);
            let replaced = mem::replace(&mut *self.shared.roots.write(), Arc::new(after));
            self.release(writer, sparse);
            // What only the old state held is with the caller, or is dropped there one by one.
            drop((before, replaced));
            self.shared.waiters.published(&versions);
            displaced.into_iter().for_each(discard);
            return Ok((list.into_report(), revision));
        }
    }

    fn transform_list(&self, list: &mut List<T>) {
        for (position, entry) in list.objects.iter_mut().enumerate() {
            let Some(object) = entry.take() else { continue };
            let hashed = self.transformed(object).and_then(|object| {
                match ask(|| (hash_key(&self.hasher, object.key()), self.shared.parts.of(&object))) {
                    Ok((_, None)) => Err(in_no_part(object)),
                    Ok((hash, Some(_))) => Ok((hash, object)),
                    Err(source) => Err(panicked(object, source)),
                }
            });
            list.numbers.push(match hashed {
                Ok((hash, object)) => {
                    *entry = Some(object);
                    hash
                }
                Err(error) => {
                    left_out(
                        position,
                        error,
                        &mut list.undelivered,
                        &mut list.is_complete,
                        &mut list.problems,
                    );
                    0
                }
            });
        }
    }
}

/// Notes that an object of the list is not stored.
fn left_out(
    position: usize,
    error: Error,
    undelivered: &mut Vec<ObjectKey>,
    is_complete: &mut bool,
    problems: &mut Vec<(usize, Error)>,
) {
    match &error {
        // A transform has given it another part.
        Error::OtherPart { key: Some(key), part: Some(_) }
        | Error::Transform { key, .. }
        | Error::Accessor { key: Some(key), .. } => undelivered.push(key.clone()),
        Error::Accessor { key: None, .. } => *is_complete = false,
        _ => {}
    }
    problems.push((position, error));
}

/// Where an object of a list goes.
enum Place {
    /// Where it is already.
    Slot(u32),
    New,
    /// Nowhere: a later object of the list has its key.
    Repeated,
    /// Nowhere: another part has brought a newer state, which is in this slot.
    Late(u32),
}

impl<T: Object> List<T> {
    /// Asks objects for their keys, and changes nothing.
    fn place(
        &self,
        object: &T,
        hash: u32,
        (before, parts): (&Roots<T>, &Parts<T>),
        listed: &Bits,
        new: &Points,
    ) -> Place {
        let key = object.key();
        match before.find(hash, key) {
            Some(slot) if listed.has(slot) => Place::Repeated,
            Some(slot) if before.at(slot).is_some_and(|stored| is_late(parts, object, stored)) => {
                Place::Late(slot)
            }
            Some(slot) => Place::Slot(slot),
            None => {
                let same = |other: u32| {
                    let other = self.objects.get(other as usize);
                    other.is_some_and(|other| other.as_ref().is_some_and(|other| other.key() == key))
                };
                if new.find(hash, same).is_some() { Place::Repeated } else { Place::New }
            }
        }
    }

    /// Asks all functions, again if there are more of them now, which hardly ever happens.
    fn ask(&mut self, indexer: &Indexer<T>, functions: &Functions<T>) {
        self.unindexed.clear();
        self.values = Evaluated::for_list(indexer.hasher.clone());
        self.asked = functions.all.len();
        let Self { objects, values, unindexed, .. } = self;
        for (position, object) in objects.iter().enumerate() {
            match object {
                Some(object) => values.ask(&functions.all, object, |index, source| {
                    unindexed.push((position, index_error(&**object, index, source)));
                }),
                None => values.skip(functions.all.len()),
            }
        }
    }

    /// Finds out what is to be done. Turns the hashes of known objects into their slots; leaves out all but
    /// the last of the objects with one key, and those whose accessors panic.
    fn plan(&mut self, before: &Roots<T>, parts: &Parts<T>) -> Plan<T> {
        let mut listed = Bits::default();
        let mut new = Points::default();
        let mut new_hashes = Vec::new();
        let (mut duplicates, mut late) = (Vec::new(), Vec::new());
        let mut unplaced = Vec::new();
        for position in (0..self.objects.len()).rev() {
            let object = self.objects.get(position).and_then(Option::as_ref);
            let (Some(object), Some(hash)) = (object, self.numbers.get(position).copied()) else { continue };
            let place = ask(|| self.place(object, hash, (before, parts), &listed, &new));
            let number = match place {
                Ok(Place::Slot(slot)) => {
                    listed.set(slot);
                    slot
                }
                Ok(Place::New) => {
                    new.insert(hash, position as u32);
                    new_hashes.push(hash);
                    NEW
                }
                Ok(Place::Repeated) => {
                    duplicates.push(position);
                    NEW
                }
                Ok(Place::Late(slot)) => {
                    listed.set(slot);
                    late.push(position);
                    NEW
                }
                Err(source) => {
                    unplaced.push((position, source));
                    NEW
                }
            };
            if let Some(to) = self.numbers.get_mut(position) {
                *to = number;
            }
        }
        new_hashes.reverse();
        for position in duplicates {
            let object = self.objects.get_mut(position).and_then(Option::take);
            // An object that is not stored has no place in an index to be missing from.
            self.unindexed.retain(|(other, _)| *other != position);
            let key = ask(|| ObjectKey::try_from(object.as_ref()?.key()).ok());
            if let Ok(Some(key)) = key {
                self.problems.push((position, Error::Duplicate { key }));
            }
            self.left_over.extend(object);
        }
        for position in late {
            self.unindexed.retain(|(other, _)| *other != position);
            self.left_over.extend(self.objects.get_mut(position).and_then(Option::take));
        }
        let Self { objects, problems, unindexed, left_over, undelivered, is_complete, .. } = self;
        for (position, source) in unplaced {
            let Some(object) = objects.get_mut(position).and_then(Option::take) else { continue };
            unindexed.retain(|(other, _)| *other != position);
            // Dropped without the lock.
            left_over.push(object.clone());
            left_out(position, panicked(object, source), undelivered, is_complete, problems);
        }
        for key in undelivered.iter() {
            let key = key.as_key();
            if let Ok(Some(slot)) = ask(|| before.find(hash_key(&before.hasher, key), key)) {
                listed.set(slot);
            }
        }
        let mut gone = Vec::new();
        let leaves = if *is_complete { before.slots.leaves() } else { 0 };
        for leaf in 0..leaves {
            let leaf_objects = before.slots.leaf(leaf).into_iter().flat_map(|leaf| leaf.iter());
            for (at, object) in leaf_objects.enumerate() {
                let slot = (leaf * SLOT_LEAF + at) as u32;
                let Some(object) = object.as_ref().filter(|_| !listed.has(slot)) else { continue };
                let asked = ask(|| {
                    let listed = parts.contains(self.part, object);
                    listed
                        .then(|| (hash_key(&before.hasher, object.key()), ObjectKey::try_from(object.key())))
                });
                match asked {
                    Ok(None) => {}
                    Ok(Some((hash, Ok(key)))) => {
                        let last_known = Some(object.clone());
                        gone.push((
                            slot,
                            hash,
                            Tombstone::final_state_unknown(key, last_known).from_part(self.part),
                        ));
                    }
                    // It does not give its key any more: so it has to stand for itself.
                    Ok(Some((hash, Err(_)))) => {
                        gone.push((slot, hash, Tombstone::FinalState(object.clone())))
                    }
                    // It cannot be found any more, and stays.
                    Err(source) => problems.push((objects.len(), Error::Accessor { key: None, source })),
                }
            }
        }
        Plan { new_hashes, gone }
    }

    /// Does it. Asks objects nothing, and drops none: gives back what is to be dropped without the lock.
    fn execute(&mut self, plan: Plan<T>, edit: &mut Edit<'_, T>, mut changes: Changes<'_, T>) -> Vec<Arc<T>> {
        let revision = edit.roots.revision;
        let mut displaced = Vec::new();
        let mut changed = |delta: Delta<T>, old: Option<Arc<T>>| match &mut changes {
            Some(changes) => changes.push(Change::new(delta, old).at_revision(revision)),
            // The delta's object is stored, or is the old one.
            None => displaced.extend(old),
        };
        let mut given_back = Vec::with_capacity(plan.gone.len());
        for (slot, hash, tombstone) in plan.gone {
            changed(Delta::Deleted(tombstone), edit.remove_slot(hash, slot));
            given_back.push(slot);
        }
        let mut hashes = plan.new_hashes.into_iter();
        for (position, entry) in self.objects.iter_mut().enumerate() {
            let (Some(object), Some(number)) = (entry.take(), self.numbers.get(position)) else { continue };
            let new = Delta::Replaced(object.clone());
            let (slot, old) = match *number {
                NEW => {
                    let hash = hashes.next().unwrap_or_default();
                    // That there is room has been checked.
                    let Ok(slot) = edit.insert(hash, object) else { continue };
                    (slot, None)
                }
                slot if edit.roots.at(slot).is_some_and(|old| Arc::ptr_eq(old, &object)) => {
                    changed(new, Some(object));
                    continue;
                }
                slot => (slot, edit.roots.slots.get_mut(slot).replace(object)),
            };
            changed(new, old);
            edit.set_values(0..self.asked, slot, &self.values, position * self.asked);
        }
        // Only now: so that within one replace no slot passes from one key to another.
        edit.writer.free.extend(given_back);
        displaced
    }

    fn into_report(self) -> Report {
        let left_out = self.problems.into_iter().map(|problem| (true, problem));
        let mut problems: Vec<_> =
            left_out.chain(self.unindexed.into_iter().map(|problem| (false, problem))).collect();
        problems.sort_by_key(|(_, (position, _))| *position);
        let mut report = Report::default();
        for (left_out, (position, error)) in problems {
            match left_out {
                true => report.push(position, error),
                false => report.push_applied(position, error),
            }
        }
        self.left_over.into_iter().for_each(discard);
        report
    }
}

/// A set of slots.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn has(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }

    /// Adds a slot; returns whether it was there already.
    fn set(&mut self, slot: u32) -> bool {
        let at = slot as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let had = self.has(slot);
        if let Some(bits) = self.0.get_mut(at) {
            *bits |= 1 << (slot % 64);
        }
        had
    }
}
