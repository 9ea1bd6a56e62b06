//! Replacing all objects by those of a list.

use std::mem;
use std::sync::Arc;

use kinformer_core::internal::try_accessors;
use kinformer_core::{
    Change, Delta, Error, Object, ObjectKey, PartId, PartialErrors, Parts, Replacement, Tombstone,
    VersionUpdate, VersionUpdates,
};

use crate::evaluated::Evaluated;
use crate::indexer::Indexer;
use crate::points::{MAX_NUMBER, Points};
use crate::roots::{Edit, Functions, Roots, SLOT_LEAF, full, hash_key};
use crate::snapshot::discard;
use crate::write::{Changes, in_no_part, index_error, is_late, panicked};

/// The list, with the results of all user code.
struct List<T> {
    part: PartId,
    /// By position; `None` if the object is left out.
    objects: Vec<Option<Arc<T>>>,
    /// By position: first the hash of the key, then the slot of the stored object, or `NEW`.
    numbers: Vec<u32>,
    undelivered: Vec<ObjectKey>,
    /// Whether every missing object is deleted.
    is_complete: bool,
    /// Objects that are not stored, to be dropped without a lock.
    left_over: Vec<Arc<T>>,
    values: Evaluated,
    /// Number of index functions called for each object.
    functions: usize,
    /// Errors of objects that are left out.
    problems: Vec<(usize, Error)>,
    /// Errors of objects that are stored but missing from an index.
    unindexed: Vec<(usize, Error)>,
}

/// Marks a new object: no slot has this number.
const NEW: u32 = u32::MAX;

/// The modifications to make, determined without changing anything.
struct Plan<T> {
    /// The key hashes of the new objects, by position.
    new_hashes: Vec<u32>,
    /// The slots and key hashes of the deleted objects, with their tombstones.
    deleted: Vec<(u32, u32, Tombstone<Arc<T>>)>,
}

impl<T: Object> Indexer<T> {
    /// Replaces all objects with those of the list, and the version with the list's, which may be lower or unset. In a
    /// store that is [divided into parts](crate::IndexerBuilder::parts), only objects of the list's part are removed.
    ///
    /// Objects that the list names as undelivered are kept unchanged, as are all missing objects if the list is not
    /// [complete](Replacement::is_complete). If a key is repeated, the last object is used and the earlier ones are
    /// reported. A state older than one already delivered by another part is left out without an error. An object with
    /// a failed transform keeps its stored state; one without a valid key is only reported.
    ///
    /// The new state is built aside while readers use the old one. It shares all unchanged nodes with the old state and
    /// is published in O(1). Building takes about 25 bytes per object and 20 more per index, in addition to the list
    /// and the two states.
    ///
    /// # Errors
    /// There are more than 2^32 - 2 objects. Nothing has changed.
    pub fn replace(&self, replacement: Replacement<T>) -> Result<PartialErrors, crate::Error> {
        let version = VersionUpdate::of_list(&replacement);
        let versions = VersionUpdates::of(replacement.part, version);
        let (errors, _) = self.replace_with(replacement, &versions, None)?;
        Ok(errors)
    }

    /// Replaces the objects and applies these version updates. Changes of deleted objects come first, then those of the
    /// list, in its order.
    pub(crate) fn replace_with(
        &self,
        replacement: Replacement<T>,
        version_updates: &VersionUpdates,
        mut changes: Changes<'_, T>,
    ) -> Result<(PartialErrors, u64), Error> {
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
            functions: 0,
            problems: Vec::new(),
            unindexed: Vec::new(),
        };
        self.transform_list(&mut list);
        let mut functions = self.functions();
        loop {
            list.evaluate(self, &functions);
            let mut writer = self.writer.lock();
            let before = self.shared.roots.read().clone();
            if before.functions.all.len() != list.functions {
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
            version_updates.apply_to(&mut edit.roots.versions);
            let displaced = list.execute(plan, &mut edit, changes.as_deref_mut());
            let sparse = edit.is_sparse();
            let (versions, revision) = (after.versions.clone(), after.revision);
            let replaced = mem::replace(&mut *self.shared.roots.write(), Arc::new(after));
            self.release(writer, sparse);
            // Objects held only by the old state have been moved to the caller, or are dropped there one by one.
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
                match try_accessors(|| (hash_key(&self.hasher, object.key()), self.shared.parts.of(&object)))
                {
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

/// Records that an object of the list is not stored.
fn left_out(
    position: usize,
    error: Error,
    undelivered: &mut Vec<ObjectKey>,
    is_complete: &mut bool,
    problems: &mut Vec<(usize, Error)>,
) {
    match &error {
        // The transform moved the object to another part.
        Error::OtherPart { key: Some(key), part: Some(_) }
        | Error::Transform { key, .. }
        | Error::Accessor { key: Some(key), .. } => undelivered.push(key.clone()),
        Error::Accessor { key: None, .. } => *is_complete = false,
        _ => {}
    }
    problems.push((position, error));
}

/// The destination of a listed object.
enum Place {
    /// Its current slot.
    Slot(u32),
    New,
    /// None: a later object of the list has the same key.
    Repeated,
    /// None: another part has delivered a newer state, stored in this slot.
    Late(u32),
}

impl<T: Object> List<T> {
    /// Determines the destination of an object. Calls key accessors; changes nothing.
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
            Some(slot) if before.object(slot).is_some_and(|stored| is_late(parts, object, stored)) => {
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

    /// Calls all index functions. Repeated if functions were added meanwhile, which is rare.
    fn evaluate(&mut self, indexer: &Indexer<T>, functions: &Functions<T>) {
        self.unindexed.clear();
        self.values = Evaluated::for_list(indexer.hasher.clone());
        self.functions = functions.all.len();
        let Self { objects, values, unindexed, .. } = self;
        for (position, object) in objects.iter().enumerate() {
            match object {
                Some(object) => values.evaluate(&functions.all, object, |index, source| {
                    unindexed.push((position, index_error(&**object, index, source)));
                }),
                None => values.skip(functions.all.len()),
            }
        }
    }

    /// Determines the modifications to make. Replaces the hashes of stored objects by their slots; leaves out all but
    /// the last of the objects with the same key, and objects whose accessors panic.
    fn plan(&mut self, before: &Roots<T>, parts: &Parts<T>) -> Plan<T> {
        let mut listed = Bits::default();
        let mut new = Points::default();
        let mut new_hashes = Vec::new();
        let (mut duplicates, mut late) = (Vec::new(), Vec::new());
        let mut unplaced = Vec::new();
        for position in (0..self.objects.len()).rev() {
            let object = self.objects.get(position).and_then(Option::as_ref);
            let (Some(object), Some(hash)) = (object, self.numbers.get(position).copied()) else { continue };
            let place = try_accessors(|| self.place(object, hash, (before, parts), &listed, &new));
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
            // An object that is not stored cannot be missing from an index.
            self.unindexed.retain(|(other, _)| *other != position);
            let key = try_accessors(|| ObjectKey::try_from(object.as_ref()?.key()).ok());
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
            // Keeps the object alive, to be dropped without the lock.
            left_over.push(object.clone());
            left_out(position, panicked(object, source), undelivered, is_complete, problems);
        }
        for key in undelivered.iter() {
            let key = key.as_key();
            if let Ok(Some(slot)) = try_accessors(|| before.find(hash_key(&before.hasher, key), key)) {
                listed.set(slot);
            }
        }
        let mut deleted = Vec::new();
        let leaves = if *is_complete { before.slots.leaves() } else { 0 };
        for leaf in 0..leaves {
            let leaf_objects = before.slots.leaf(leaf).into_iter().flat_map(|leaf| leaf.iter());
            for (offset, object) in leaf_objects.enumerate() {
                let slot = (leaf * SLOT_LEAF + offset) as u32;
                let Some(object) = object.as_ref().filter(|_| !listed.has(slot)) else { continue };
                let result = try_accessors(|| {
                    let listed = parts.contains(self.part, object);
                    listed
                        .then(|| (hash_key(&before.hasher, object.key()), ObjectKey::try_from(object.key())))
                });
                match result {
                    Ok(None) => {}
                    Ok(Some((hash, Ok(key)))) => {
                        let last_known = Some(object.clone());
                        deleted.push((
                            slot,
                            hash,
                            Tombstone::final_state_unknown(key, last_known).from_part(self.part),
                        ));
                    }
                    // The object's key has become invalid, so the tombstone carries the object itself.
                    Ok(Some((hash, Err(_)))) => {
                        deleted.push((slot, hash, Tombstone::FinalState(object.clone())))
                    }
                    // The object cannot be found by key any more, so it stays.
                    Err(source) => problems.push((objects.len(), Error::Accessor { key: None, source })),
                }
            }
        }
        Plan { new_hashes, deleted }
    }

    /// Applies the plan. Calls no accessor and drops no object: returns the objects to be dropped without the lock.
    fn execute(&mut self, plan: Plan<T>, edit: &mut Edit<'_, T>, mut changes: Changes<'_, T>) -> Vec<Arc<T>> {
        let revision = edit.roots.revision;
        let mut displaced = Vec::new();
        let mut changed = |delta: Delta<T>, old: Option<Arc<T>>| match &mut changes {
            Some(changes) => changes.push(Change::new(delta, old).at_revision(revision)),
            // The delta's object is stored, or is the old one.
            None => displaced.extend(old),
        };
        let mut freed = Vec::with_capacity(plan.deleted.len());
        for (slot, hash, tombstone) in plan.deleted {
            changed(Delta::Deleted(tombstone), edit.remove_slot(hash, slot));
            freed.push(slot);
        }
        let mut hashes = plan.new_hashes.into_iter();
        for (position, entry) in self.objects.iter_mut().enumerate() {
            let (Some(object), Some(number)) = (entry.take(), self.numbers.get(position)) else { continue };
            let new = Delta::Replaced(object.clone());
            let (slot, old) = match *number {
                NEW => {
                    let hash = hashes.next().unwrap_or_default();
                    // The plan has checked that there is room.
                    let Ok(slot) = edit.insert(hash, object) else { continue };
                    (slot, None)
                }
                slot if edit.roots.object(slot).is_some_and(|old| Arc::ptr_eq(old, &object)) => {
                    changed(new, Some(object));
                    continue;
                }
                slot => (slot, edit.roots.slots.get_mut(slot).replace(object)),
            };
            changed(new, old);
            edit.set_values(0..self.functions, slot, &self.values, position * self.functions);
        }
        // Only now, so that no slot changes from one key to another within one replace.
        edit.writer.free.extend(freed);
        displaced
    }

    fn into_report(self) -> PartialErrors {
        let left_out = self.problems.into_iter().map(|problem| (true, problem));
        let mut problems: Vec<_> =
            left_out.chain(self.unindexed.into_iter().map(|problem| (false, problem))).collect();
        problems.sort_by_key(|(_, (position, _))| *position);
        let mut errors = PartialErrors::default();
        for (left_out, (position, error)) in problems {
            match left_out {
                true => errors.push(position, error),
                false => errors.push_applied(position, error),
            }
        }
        self.left_over.into_iter().for_each(discard);
        errors
    }
}

/// A set of slots.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn has(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }

    /// Adds a slot. Returns whether it was present already.
    fn set(&mut self, slot: u32) -> bool {
        let word = slot as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let had = self.has(slot);
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= 1 << (slot % 64);
        }
        had
    }
}
