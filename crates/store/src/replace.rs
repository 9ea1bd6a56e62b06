//! Replacing all objects by those of a list.

use std::mem;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{
    BoxError, Change, Delta, Error, Object, ObjectKey, ObjectName, PartId, PartialErrors, Parts, Replacement,
    Tombstone, VersionUpdate, VersionUpdates,
};

use crate::evaluated::Evaluated;
use crate::indexer::Indexer;
use crate::points::{MAX_NUMBER, Points};
use crate::roots::{Edit, Functions, Roots, SLOT_LEAF, full, hash_key};
use crate::snapshot::discard;
use crate::write::{Changes, in_no_part, index_error, is_stale, panicked};

/// The list, with the results of all user code.
struct List<T> {
    part: PartId,
    /// By position; `None` if the object is left out.
    objects: Vec<Option<Arc<T>>>,
    /// By position: first the hash of the key; once planned, the slot of the stored object, or `NO_SLOT`.
    numbers: Vec<u32>,
    undelivered: Vec<ObjectKey>,
    /// Whether every missing object is deleted.
    is_complete: bool,
    /// Objects that are not stored, to be dropped without a lock.
    left_over: Vec<Arc<T>>,
    values: Evaluated,
    /// Number of index functions called for each object.
    function_count: usize,
    /// Errors of objects that are left out, and of stored objects that cannot be deleted.
    errors: PartialErrors,
    /// Errors of objects that are stored but missing from an index, with their index in the list.
    unindexed: Vec<(usize, Error)>,
    /// Such errors of objects that are not stored, to be dropped without a lock.
    not_stored: Vec<(usize, Error)>,
}

/// The number of an object without a slot: one that is new or not stored.
const NO_SLOT: u32 = u32::MAX;

/// The modifications to make, determined without changing anything.
struct Plan<T> {
    /// The key hashes of the new objects, in the order of the list. An object is new if it is not left out and has
    /// `NO_SLOT`.
    new_hashes: Vec<u32>,
    deleted: Vec<Deleted<T>>,
}

/// The slot and the key hash of a deleted object, with its tombstone.
type Deleted<T> = (u32, u32, Tombstone<Arc<T>>);

/// The positions of the objects that a list leaves out.
#[derive(Default)]
struct LeftOut {
    /// Those whose key a later object has.
    repeated: Vec<usize>,
    /// Those that are older than the stored state.
    stale: Vec<usize>,
    /// Those whose accessors panicked.
    panicked: Vec<(usize, BoxError)>,
}

impl<T: Object> Indexer<T> {
    /// Replaces all objects with those of the list, and the version with the list's, which may be lower or unset. In a
    /// store that is [divided into parts](crate::IndexerBuilder::parts), only objects of the list's part are removed.
    ///
    /// Objects that the list names as undelivered are kept unchanged, as are all missing objects if the list is not
    /// [complete](Replacement::is_complete). If a key is repeated, the last object without an error is used
    /// and the others are reported. A state older than one already delivered by another part is left out without an
    /// error. An object whose transform or accessor fails keeps its stored state. If not even its key can be read,
    /// nothing is deleted, because the object may be any of the missing ones. An object without a valid key, or of no
    /// part, is left out.
    ///
    /// Returns the errors of individual objects.
    ///
    /// The new state is built aside while readers use the old one. It shares all unchanged nodes with the old state and
    /// is published in O(1). Building takes about 25 bytes per object and 20 more per index, in addition to the list
    /// and the two states.
    ///
    /// ```
    /// # use kinformer_core::Keyed;
    /// # use kinformer_store::*;
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// use kinformer_core::Replacement;
    ///
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// let list = vec![pod("default/web-1", 1).into()];
    /// assert!(pods.replace(Replacement::new(list, "7"))?.is_empty());
    /// assert!(!pods.contains(("default", "web-0")) && pods.contains(("default", "web-1")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The stored and the new objects together need more than 2^32 - 2 slots. Nothing has changed.
    pub fn replace(&self, replacement: Replacement<T>) -> Result<PartialErrors, crate::Error> {
        let version = VersionUpdate::of_list(&replacement);
        let versions = VersionUpdates::of(replacement.part, version);
        let (errors, _) = self.replace_with(replacement, &versions, None)?;
        Ok(errors)
    }

    /// Replaces the objects and applies these version updates. Changes of deleted objects come first, then those of the
    /// list, in its order. Returns the errors of individual objects and the revision.
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
            function_count: 0,
            errors: PartialErrors::default(),
            unindexed: Vec::new(),
            not_stored: Vec::new(),
        };
        self.transform_list(&mut list);
        let mut functions = self.functions();
        loop {
            list.evaluate(self, &functions);
            let mut writer = self.writer.lock();
            let before = self.shared.roots.read().clone();
            // Functions are only ever added, so their number shows whether all of them were called.
            if before.functions.all.len() != list.function_count {
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
            let revision = after.revision;
            let mut roots = self.shared.roots.write();
            let replaced = mem::replace(&mut *roots, Arc::new(after));
            let reached = self.shared.waiters.reached(&roots.versions);
            drop(roots);
            self.release(writer, sparse);
            // The objects of the old state are in `changes` or `displaced`, so only nodes are dropped here.
            drop((before, replaced));
            self.shared.waiters.published(reached);
            displaced.into_iter().for_each(discard);
            return Ok((list.into_errors(), revision));
        }
    }

    /// Transforms and hashes the objects, and checks their keys and parts.
    fn transform_list(&self, list: &mut List<T>) {
        for (index, entry) in list.objects.iter_mut().enumerate() {
            let Some(object) = entry.take() else { continue };
            let hashed = self.transformed(object).and_then(|object| {
                match contain(|| (hash_key(&self.hasher, object.key()), self.shared.parts.of(&object))) {
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
                Err(error) if self.is_removed(&error) => 0,
                Err(error) => {
                    let error = error.with_index(index);
                    record_left_out(&error, &mut list.undelivered, &mut list.is_complete);
                    list.errors.push(error);
                    0
                }
            });
        }
    }
}

/// Records that an object of the list is not stored.
fn record_left_out(error: &Error, undelivered: &mut Vec<ObjectKey>, is_complete: &mut bool) {
    match error {
        // The key is known, so the stored state is kept.
        Error::OtherPart { object: ObjectName::Key(key), part: Some(_) }
        | Error::Transform { key, .. }
        | Error::Accessor { object: ObjectName::Key(key), .. } => undelivered.push(key.clone()),
        Error::Accessor { .. } => *is_complete = false,
        _ => {}
    }
}

/// The destination of a listed object.
enum Destination {
    /// Its current slot.
    Slot(u32),
    New,
    /// None: a later object of the list has the same key.
    Repeated,
    /// None: another part has delivered a newer state, stored in this slot.
    Stale(u32),
}

impl<T: Object> List<T> {
    /// Determines the destination of an object. Calls key accessors; changes nothing.
    fn destination(
        &self,
        object: &T,
        hash: u32,
        (before, parts): (&Roots<T>, &Parts<T>),
        listed: &Bits,
        new: &Points,
    ) -> Destination {
        // The key is read only if another object has its hash.
        match before.find(hash, || object.key()) {
            Some(slot) if listed.has(slot) => Destination::Repeated,
            Some(slot) if before.object(slot).is_some_and(|stored| is_stale(parts, object, stored)) => {
                Destination::Stale(slot)
            }
            Some(slot) => Destination::Slot(slot),
            None => {
                let same = |other: u32| {
                    let other = self.objects.get(other as usize);
                    other.is_some_and(|other| other.as_ref().is_some_and(|other| other.key() == object.key()))
                };
                if new.find(hash, same).is_some() { Destination::Repeated } else { Destination::New }
            }
        }
    }

    /// Calls all index functions for all objects, without a lock. Called again if functions were added meanwhile, which
    /// is rare.
    fn evaluate(&mut self, indexer: &Indexer<T>, functions: &Functions<T>) {
        self.unindexed.clear();
        self.values = Evaluated::for_list(indexer.hasher.clone());
        self.function_count = functions.all.len();
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
        let (new_hashes, left_out) = self.place(before, parts, &mut listed);
        self.leave_out(left_out);
        for key in &self.undelivered {
            let key = key.as_key();
            if let Ok(Some(slot)) = contain(|| before.find(hash_key(&before.hasher, key), || key)) {
                listed.set(slot);
            }
        }
        let deleted = if self.is_complete { self.deleted(before, parts, &listed) } else { Vec::new() };
        Plan { new_hashes, deleted }
    }

    /// Replaces the hash of each object by its slot, and adds the slot to `listed`. Returns the hashes of new objects.
    fn place(&mut self, before: &Roots<T>, parts: &Parts<T>, listed: &mut Bits) -> (Vec<u32>, LeftOut) {
        let mut new = Points::default();
        let mut new_hashes = Vec::new();
        let mut left_out = LeftOut::default();
        for position in (0..self.objects.len()).rev() {
            let object = self.objects.get(position).and_then(Option::as_ref);
            let (Some(object), Some(hash)) = (object, self.numbers.get(position).copied()) else { continue };
            let place = contain(|| self.destination(object, hash, (before, parts), listed, &new));
            let number = match place {
                Ok(Destination::Slot(slot)) => {
                    listed.set(slot);
                    slot
                }
                Ok(Destination::New) => {
                    new.insert(hash, position as u32);
                    new_hashes.push(hash);
                    NO_SLOT
                }
                Ok(Destination::Repeated) => {
                    left_out.repeated.push(position);
                    NO_SLOT
                }
                Ok(Destination::Stale(slot)) => {
                    listed.set(slot);
                    left_out.stale.push(position);
                    NO_SLOT
                }
                Err(source) => {
                    left_out.panicked.push((position, source));
                    NO_SLOT
                }
            };
            if let Some(to) = self.numbers.get_mut(position) {
                *to = number;
            }
        }
        new_hashes.reverse();
        (new_hashes, left_out)
    }

    fn leave_out(&mut self, LeftOut { repeated, stale, panicked: unplaced }: LeftOut) {
        let Self { objects, errors, unindexed, not_stored, left_over, undelivered, is_complete, .. } = self;
        for position in repeated {
            let object = objects.get_mut(position).and_then(Option::take);
            let name = object.as_ref().map(|object| ObjectName::of(|| object.key()));
            if let Some(ObjectName::Key(key)) = name {
                errors.push(Error::Duplicate { key });
            }
            left_over.extend(object);
        }
        for position in stale {
            left_over.extend(objects.get_mut(position).and_then(Option::take));
        }
        for (position, source) in unplaced {
            let Some(object) = objects.get_mut(position).and_then(Option::take) else { continue };
            // Keeps the object alive, to be dropped without the lock.
            left_over.push(object.clone());
            let error = panicked(object, source).with_index(position);
            record_left_out(&error, undelivered, is_complete);
            errors.push(error);
        }
        // An object that is not stored cannot be missing from an index.
        let is_stored = |(position, _): &(usize, _)| objects.get(*position).is_some_and(Option::is_some);
        (*unindexed, *not_stored) = mem::take(unindexed).into_iter().partition(is_stored);
    }

    /// Returns the stored objects of the part that are not listed.
    fn deleted(&mut self, before: &Roots<T>, parts: &Parts<T>, listed: &Bits) -> Vec<Deleted<T>> {
        let mut deleted = Vec::new();
        for leaf in 0..before.slots.leaves() {
            let leaf_objects = before.slots.leaf(leaf).into_iter().flat_map(|leaf| leaf.iter());
            for (offset, object) in leaf_objects.enumerate() {
                let slot = (leaf * SLOT_LEAF + offset) as u32;
                let Some(object) = object.as_ref().filter(|_| !listed.has(slot)) else { continue };
                let result = contain(|| {
                    let in_part = parts.contains(self.part, object);
                    in_part
                        .then(|| (hash_key(&before.hasher, object.key()), ObjectKey::try_from(object.key())))
                });
                match result {
                    Ok(None) => {}
                    Ok(Some((hash, Ok(key)))) => {
                        let tombstone = Tombstone::final_state_unknown(key, Some(object.clone()));
                        deleted.push((slot, hash, tombstone.from_part(self.part)));
                    }
                    // The object's key has become invalid, so the tombstone carries the object itself.
                    Ok(Some((hash, Err(_)))) => {
                        deleted.push((slot, hash, Tombstone::FinalState(object.clone())))
                    }
                    // Without a key, its entry in the point table cannot be removed, so the object stays.
                    Err(source) => {
                        self.errors.push(Error::Accessor { object: ObjectName::Index(slot as usize), source })
                    }
                }
            }
        }
        deleted
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
                NO_SLOT => {
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
            edit.set_values(0..self.function_count, slot, &self.values, position * self.function_count);
        }
        // Only later writes reuse the slots, so that no slot changes from one key to another within one replace.
        edit.writer.free.extend(freed);
        displaced
    }

    fn into_errors(mut self) -> PartialErrors {
        self.unindexed.into_iter().for_each(|(_, error)| self.errors.push_applied(error));
        self.left_over.into_iter().for_each(discard);
        self.errors
    }
}

/// A set of slots.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn has(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }

    fn set(&mut self, slot: u32) {
        let word = slot as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= 1 << (slot % 64);
        }
    }
}
