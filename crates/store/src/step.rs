//! One write on its way: prepared without a lock, applied under it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinformer_core::{Error, Object, ObjectKey, Report, ResourceVersion, Tombstone};

use crate::Change;
use crate::hash::hash_key;
use crate::index::{Index, Places};
use crate::index_function::IndexValues;
use crate::roots::{Functions, Prepared, Roots, Writer};

/// A write that has been checked and transformed.
pub(crate) enum Step<T> {
    Put(Prepared<T>, ResourceVersion),
    Remove(Tombstone<T>),
}

/// What applying a write leaves to be dropped once the locks are released, because dropping may run user code.
pub(crate) type Leftover<T> = Option<Tombstone<T>>;

impl<T: Object> Step<T> {
    /// Asks each index function for the object's values: one set for each, also for a removal, so that the
    /// sets of a batch can be counted off.
    pub(crate) fn collect(
        &self,
        position: usize,
        functions: &Functions<T>,
        values: &mut IndexValues,
        report: &mut Report,
    ) {
        for (name, function) in functions {
            match self {
                Self::Put(prepared, _) => {
                    if let Err(error) = function.collect(name, &prepared.object, values) {
                        report.push(position, error);
                    }
                }
                Self::Remove(_) => values.close_set(),
            }
        }
    }

    pub(crate) fn apply(
        self,
        writer: &mut Writer,
        roots: &mut Roots<T>,
        values: &IndexValues,
        first_set: usize,
    ) -> (Change<T>, Leftover<T>) {
        match self {
            Self::Put(prepared, version) => {
                let new = Some(prepared.object.clone());
                let (_, old) = writer.put(roots, prepared, values, first_set);
                roots.advance(version);
                (Change { old, new }, None)
            }
            Self::Remove(tombstone) => {
                let old = writer.remove(roots, tombstone.key());
                if let Tombstone::FinalState(object) = &tombstone {
                    roots.advance(object.resource_version());
                }
                (Change { old, new: None }, Some(tombstone))
            }
        }
    }
}

/// The values of a batch, in pieces.
pub(crate) struct BatchValues {
    pieces: Vec<IndexValues>,
    sets_per_step: usize,
}

/// Steps whose values share a piece: bounds how far one allocation grows.
const PIECE: usize = 4096;

impl BatchValues {
    pub(crate) fn collect<T: Object>(
        steps: &[(usize, Step<T>)],
        functions: &Functions<T>,
        report: &mut Report,
    ) -> Self {
        let piece = |steps: &[(usize, Step<T>)]| {
            let mut values = IndexValues::default();
            steps.iter().for_each(|(position, step)| step.collect(*position, functions, &mut values, report));
            values
        };
        Self { pieces: steps.chunks(PIECE).map(piece).collect(), sets_per_step: functions.len() }
    }

    /// The piece with the values of a step, and the number of its first set there.
    pub(crate) fn of(&self, step: usize) -> (&IndexValues, usize) {
        static NONE: IndexValues = IndexValues::EMPTY;
        (self.pieces.get(step / PIECE).unwrap_or(&NONE), step % PIECE * self.sets_per_step)
    }
}

/// Makes `roots` hold exactly what `steps` put there, and what is known of the `undelivered`. Gives the
/// changes, and what is to be dropped without locks.
pub(crate) fn replace<T: Object>(
    writer: &mut Writer,
    roots: &mut Roots<T>,
    steps: Vec<(usize, Step<T>)>,
    undelivered: &[ObjectKey],
    values: &BatchValues,
    report: &mut Report,
) -> (Vec<Change<T>>, Vec<Arc<T>>) {
    /// By slot: where in `changes` its object is.
    const ABSENT: u32 = u32::MAX;
    const UNDELIVERED: u32 = u32::MAX - 1;
    let mut listed: Vec<u32> = Vec::new();
    let mut mark = |slot: u32, as_what: u32| {
        let slot = slot as usize;
        listed.resize(listed.len().max(slot + 1), ABSENT);
        listed.get_mut(slot).map_or(ABSENT, |place| std::mem::replace(place, as_what))
    };
    for slot in undelivered.iter().filter_map(|key| roots.slot(key.as_key())) {
        mark(slot, UNDELIVERED);
    }
    let mut changes: Vec<Change<T>> = Vec::with_capacity(steps.len());
    let mut positions: Vec<usize> = Vec::with_capacity(steps.len());
    let mut leftover = Vec::new();
    for (i, (position, step)) in steps.into_iter().enumerate() {
        let Step::Put(prepared, _) = step else { continue };
        let new = prepared.object.clone();
        let (values, first_set) = values.of(i);
        let (slot, old) = writer.put(roots, prepared, values, first_set);
        let earlier = mark(slot, changes.len() as u32) as usize;
        match changes.get_mut(earlier) {
            Some(change) => {
                // The same key once more: what was put there first was never seen by anyone.
                mark(slot, earlier as u32);
                leftover.extend(old);
                if let Ok(key) = ObjectKey::try_from(new.key()) {
                    let at = positions.get_mut(earlier).map(|at| std::mem::replace(at, position));
                    report.push(at.unwrap_or(position), Error::Duplicate { key });
                }
                leftover.extend(change.new.replace(new));
            }
            None => {
                changes.push(Change { old, new: Some(new) });
                positions.push(position);
            }
        }
    }
    let mut gone = Vec::new();
    for (first, leaf) in roots.objects.leaves(0) {
        for (slot, object) in leaf.iter().enumerate().map(|(i, object)| (first + i, object)) {
            if let Some(object) = object
                && listed.get(slot).is_none_or(|place| *place == ABSENT)
            {
                gone.push((slot as u32, hash_key(&roots.seed, object.key())));
            }
        }
    }
    for (slot, hash) in gone {
        changes.push(Change { old: writer.remove_slot(roots, hash, slot), new: None });
    }
    (changes, leftover)
}

/// Indexes that are being built beside the store.
pub(crate) struct Building<T> {
    functions: Functions<T>,
    built: Vec<(Index, Places)>,
    /// By object and index: what the function has reported of the newest state.
    failures: BTreeMap<(u32, usize), Error>,
    /// What has been indexed.
    seen: Roots<T>,
}

impl<T: Object> Building<T> {
    pub(crate) fn new(functions: Functions<T>) -> Self {
        let built = functions.iter().map(|_| Default::default()).collect();
        Self { functions, built, failures: BTreeMap::new(), seen: Roots::new(Vec::new()) }
    }

    /// Whether the indexes are those of this state.
    pub(crate) fn is_up_to_date(&self, roots: &Roots<T>) -> bool {
        roots.objects.changed_leaves(&self.seen.objects).is_empty()
    }

    /// Asks the functions about every object that is not the one seen before.
    pub(crate) fn bring_up_to(&mut self, roots: Roots<T>) {
        let changed = roots.objects.changed_leaves(&self.seen.objects);
        for slot in
            changed.into_iter().flat_map(|first| first..first + crate::cow::LEAF).map(|slot| slot as u32)
        {
            let (old, new) = (self.seen.object(slot), roots.object(slot));
            if old.map(Arc::as_ptr) == new.map(Arc::as_ptr) {
                continue;
            }
            for (number, (name, function)) in self.functions.iter().enumerate() {
                let mut values = IndexValues::default();
                self.failures.remove(&(slot, number));
                if let Some(object) = new
                    && let Err(error) = function.collect(name, object, &mut values)
                {
                    self.failures.insert((slot, number), error);
                }
                if let Some((index, places)) = self.built.get_mut(number) {
                    places.update(index, &roots.seed, slot, &values.set(0));
                }
            }
        }
        self.seen = roots;
    }

    /// Hands the indexes over to the store; they are [up to date](Self::is_up_to_date).
    pub(crate) fn install(self, writer: &mut Writer, roots: &mut Roots<T>) -> Report {
        let indexes = Arc::make_mut(&mut roots.indexes);
        for (index, places) in self.built {
            indexes.push(index);
            writer.add_index(places);
        }
        Arc::make_mut(&mut roots.functions).extend(self.functions);
        let mut report = Report::default();
        for (position, error) in self.failures.into_values().enumerate() {
            report.push(position, error);
        }
        report
    }

    pub(crate) fn functions(&self) -> &Functions<T> {
        &self.functions
    }
}
