//! The indexer: a store with indexes and snapshots.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use event_listener::{Event, IntoNotification};
use foldhash::fast::RandomState;
use kinformer_core::{
    Error as ObjectError, KeyRef, KnownObjects, Object, ObjectKey, Replacement, Report, ResourceVersion,
    Sink, Tombstone, Transform,
};

use crate::hash::hash_key;
use crate::index_function::{IndexFunction, IndexValues};
use crate::roots::{Functions, Prepared, Roots, Writer};
use crate::step::{self, BatchValues, Building, Step};
use crate::sync::{Mutex, MutexGuard, RwLock};
use crate::{Applied, Change, Error, Snapshot, Store, Transaction};

/// A store with any number of indexes. Without one it is the plain store.
///
/// Readers take [snapshots](Self::snapshot) or single objects and never hold the writer up for longer than
/// O(1), however much they read. Writers are serialized among themselves. User code (index functions, the
/// transform) runs while no lock is held.
///
/// Follows client-go 1.37 (`Indexer`, `ThreadSafeStore`), except where the documentation of a method says
/// otherwise.
pub struct Indexer<T> {
    /// What readers take; locked for O(1) by readers, and by a writer while it publishes.
    roots: RwLock<Roots<T>>,
    seed: RandomState,
    /// Whoever holds it is the only writer. Taken before `roots`, never while holding it.
    writer: Mutex<Writer>,
    transform: Option<Transform<T>>,
    /// Rings after each publication that moved the version, and on stop.
    pub(crate) changed: Event,
    pub(crate) stopped: AtomicBool,
}

/// Builds an [`Indexer`].
#[must_use]
pub struct IndexerBuilder<T> {
    functions: Functions<T>,
    transform: Option<Transform<T>>,
}

impl<T: Object> IndexerBuilder<T> {
    /// Adds an index.
    pub fn index(mut self, name: impl Into<Arc<str>>, function: IndexFunction<T>) -> Self {
        self.functions.push((name.into(), function));
        self
    }

    /// Every object passes this once before it is stored. In a pipeline with a queue, the queue does that.
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// The indexer, empty.
    ///
    /// # Errors
    /// [`Error::IndexerConflict`] when two indexes have one name.
    pub fn build(self) -> Result<Indexer<T>, Error> {
        no_conflict(&[], &self.functions)?;
        Ok(Indexer::with(self.functions, self.transform))
    }
}

fn no_conflict<T>(
    present: &[(Arc<str>, IndexFunction<T>)],
    new: &[(Arc<str>, IndexFunction<T>)],
) -> Result<(), Error> {
    for (i, (name, _)) in new.iter().enumerate() {
        if present.iter().chain(new.iter().take(i)).any(|(known, _)| known == name) {
            return Err(Error::IndexerConflict { name: name.clone() });
        }
    }
    Ok(())
}

impl<T: Object> Default for Indexer<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Reading.
impl<T: Object> Indexer<T> {
    /// A store without indexes; some can be [added](Self::add_indexers) at any time.
    pub fn new() -> Self {
        Self::with(Vec::new(), None)
    }

    fn with(functions: Functions<T>, transform: Option<Transform<T>>) -> Self {
        let writer = Mutex::new(Writer::new(functions.len()));
        let roots = Roots::new(functions);
        Self {
            seed: roots.seed.clone(),
            roots: RwLock::new(roots),
            writer,
            transform,
            changed: Event::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// A store with indexes.
    pub fn builder() -> IndexerBuilder<T> {
        IndexerBuilder { functions: Vec::new(), transform: None }
    }

    /// The whole state at this moment. O(1).
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot::new(self.roots.read().clone())
    }

    /// The object with this key. O(1).
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.roots.read().get(key.into()).cloned()
    }

    /// The stored state of the object with the key of this one. O(1).
    pub fn get(&self, object: &T) -> Option<Arc<T>> {
        self.get_by_key(object.key())
    }

    /// Whether there is an object with this key. O(1).
    pub fn contains<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.roots.read().slot(key.into()).is_some()
    }

    /// All objects, in no particular order. O(n); see [`Snapshot`] for walks by reference.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.snapshot().list()
    }

    /// All keys. O(n).
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot().keys()
    }

    /// How many objects there are. O(1).
    pub fn len(&self) -> usize {
        self.roots.read().len
    }

    /// Whether there are no objects. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that an index has under a value.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, Error> {
        Ok(self.snapshot().by_index(index, value)?.cloned().collect())
    }

    /// The objects that share a value of an index with this one; see [`Snapshot::index_of`].
    ///
    /// # Errors
    /// [`Error::UnknownIndex`], or what the index function reports for this object.
    pub fn index_of(&self, index: &str, object: &T) -> Result<Vec<Arc<T>>, Error> {
        Ok(self.snapshot().index_of(index, object)?.into_iter().cloned().collect())
    }

    /// The keys that an index has under a value.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Error> {
        self.snapshot().index_keys(index, value)
    }

    /// All values of an index under which there is at least one object.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, Error> {
        Ok(self.snapshot().index_values(index)?.cloned().collect())
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> Vec<Arc<str>> {
        self.snapshot().index_names().cloned().collect()
    }

    /// The function of an index, to be asked about objects that are not stored.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn index_function(&self, index: &str) -> Result<IndexFunction<T>, Error> {
        self.snapshot().index_function(index)
    }

    /// The newest resource version that the store reflects.
    ///
    /// A replace sets it to the version of the list. Everything else (add, update, a deletion with an
    /// object, bookmark) only moves it forward, or, where versions do not compare, to the last one seen.
    pub fn resource_version(&self) -> ResourceVersion {
        self.roots.read().version.clone()
    }
}

/// Writing.
impl<T: Object> Indexer<T> {
    /// Stores an object.
    ///
    /// # Errors
    /// The object has no valid key, or its transform failed; nothing has changed.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<Report, Error> {
        Ok(Sink::add(self, object.into())?)
    }

    /// Stores an object; the same as [`Self::add`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<Report, Error> {
        Ok(Sink::update(self, object.into())?)
    }

    /// Removes an object; removing what is not there is no error. The version moves to that of the
    /// tombstone's final state.
    ///
    /// # Errors
    /// The object has no valid key.
    pub fn delete(&self, tombstone: impl Into<Tombstone<T>>) -> Result<Report, Error> {
        Ok(Sink::delete(self, tombstone.into())?)
    }

    /// Removes the object with this key and gives it back. The version does not move.
    pub fn delete_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = key.into();
        let mut writer = self.writer();
        let mut roots = self.roots.write();
        writer.remove(&mut roots, key)
    }

    /// Makes the store hold exactly this list, at its version, in one publication: a reader sees all of it
    /// or nothing. Reading goes on meanwhile. Objects that are the very same `Arc` as before cost nothing.
    ///
    /// # Errors
    /// None at present.
    pub fn replace(&self, replacement: Replacement<T>) -> Result<Report, Error> {
        Ok(Sink::replace(self, replacement)?)
    }

    /// The source has reached this version without a change.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        let version = version.into();
        let writer = self.writer();
        self.roots.write().advance(version);
        drop(writer);
        self.publish();
    }

    /// Applies one write and says what it changed.
    ///
    /// # Errors
    /// The object has no valid key, or its transform failed; nothing has changed.
    pub fn apply(&self, transaction: Transaction<T>) -> Result<(Change<T>, Report), ObjectError> {
        let step = self.prepare(transaction)?;
        let mut functions = self.roots.read().functions.clone();
        let (change, leftover, report) = loop {
            let (mut values, mut report) = (IndexValues::default(), Report::default());
            step.collect(0, &functions, &mut values, &mut report);
            let mut writer = self.writer();
            let mut roots = self.roots.write();
            if Arc::ptr_eq(&functions, &roots.functions) {
                let (change, leftover) = step.apply(&mut writer, &mut roots, &values, 0);
                break (change, leftover, report);
            }
            // Indexes were added meanwhile: the functions have to be asked again, without the locks.
            functions = roots.functions.clone();
        };
        drop(leftover);
        self.publish();
        Ok((change, report))
    }

    /// Applies writes in one publication: a reader sees all of them or none. Those that are invalid are
    /// reported by their position and the others are applied. The changes are those of the valid ones.
    pub fn apply_all(&self, transactions: impl IntoIterator<Item = Transaction<T>>) -> Applied<T> {
        let mut refused = Report::default();
        let mut steps = Vec::new();
        for (position, transaction) in transactions.into_iter().enumerate() {
            match self.prepare(transaction) {
                Ok(step) => steps.push((position, step)),
                Err(error) => refused.push(position, error),
            }
        }
        let mut functions = self.roots.read().functions.clone();
        let (changes, leftover, report): (Vec<_>, Vec<_>, _) = loop {
            let mut report = Report::default();
            let values = BatchValues::collect(&steps, &functions, &mut report);
            let mut writer = self.writer();
            let mut roots = self.roots.write();
            if !Arc::ptr_eq(&functions, &roots.functions) {
                functions = roots.functions.clone();
                continue;
            }
            let numbered = steps.into_iter().enumerate();
            let (changes, leftover) = numbered
                .map(|(i, (_, step))| {
                    let (values, first_set) = values.of(i);
                    step.apply(&mut writer, &mut roots, values, first_set)
                })
                .unzip();
            break (changes, leftover, report);
        };
        drop(leftover);
        self.publish();
        refused.extend(report);
        Applied { changes, report: refused }
    }

    /// As [`Self::apply_all`], for callers who do not need to know what changed.
    pub fn transaction(&self, transactions: impl IntoIterator<Item = Transaction<T>>) -> Report {
        self.apply_all(transactions).report
    }

    /// As [`Self::replace`], and says what changed: for each object of the list the state before and since,
    /// then each object that is gone. An object that is the very same `Arc` as before is among them.
    pub fn replace_all(&self, replacement: Replacement<T>) -> Applied<T> {
        let Replacement { objects, resource_version, mut undelivered, .. } = replacement;
        let mut refused = Report::default();
        let mut steps = Vec::with_capacity(objects.len());
        for (position, object) in objects.into_iter().enumerate() {
            match self.prepare(Transaction::Add(object)) {
                Ok(step) => steps.push((position, step)),
                Err(error) => {
                    if let ObjectError::Transform { key, .. } = &error {
                        undelivered.push(key.clone());
                    }
                    refused.push(position, error);
                }
            }
        }
        let mut functions = self.roots.read().functions.clone();
        let (changes, leftover, old, report) = loop {
            let mut report = Report::default();
            let values = BatchValues::collect(&steps, &functions, &mut report);
            let mut writer = self.writer();
            // Readers go on with the old state while the new one is made beside it; the two share what is
            // the same.
            let mut roots = self.roots.read().clone();
            if !Arc::ptr_eq(&functions, &roots.functions) {
                functions = roots.functions;
                continue;
            }
            let (changes, leftover) = writer.guarded(|writer| {
                step::replace(writer, &mut roots, steps, &undelivered, &values, &mut report)
            });
            if !resource_version.is_unset() {
                roots.version = resource_version;
            }
            let old = std::mem::replace(&mut *self.roots.write(), roots);
            break (changes, leftover, old, report);
        };
        drop((leftover, old));
        self.publish();
        refused.extend(report);
        Applied { changes, report: refused }
    }

    /// Adds indexes, also to a store that holds objects; those are indexed before the call returns, and no
    /// reader sees an index that is not complete. Writing and reading go on meanwhile. O(n).
    ///
    /// # Errors
    /// [`Error::IndexerConflict`]: an index of one of these names is there already, or twice in the call.
    /// Nothing has changed.
    pub fn add_indexers(
        &self,
        indexers: impl IntoIterator<Item = (impl Into<Arc<str>>, IndexFunction<T>)>,
    ) -> Result<Report, Error> {
        let mut building = Building::new(indexers.into_iter().map(|(name, f)| (name.into(), f)).collect());
        loop {
            // The functions are user code, so they are asked without a lock, and then again about what has
            // been written meanwhile, until nothing has.
            let roots = self.roots.read().clone();
            no_conflict(&roots.functions, building.functions())?;
            building.bring_up_to(roots);
            let mut writer = self.writer();
            let mut roots = self.roots.write();
            if building.is_up_to_date(&roots) {
                no_conflict(&roots.functions, building.functions())?;
                return Ok(building.install(&mut writer, &mut roots));
            }
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        writer.recover(|| self.roots.read().clone());
        writer
    }

    fn publish(&self) {
        // Relaxed is enough: a waiter registers before it looks at the version, both under the lock's order.
        self.changed.notify(usize::MAX.relaxed());
    }

    fn prepare(&self, transaction: Transaction<T>) -> Result<Step<T>, ObjectError> {
        let object = match transaction {
            Transaction::Add(object) | Transaction::Update(object) => object,
            Transaction::Delete(tombstone) => {
                tombstone.key().check()?;
                return Ok(Step::Remove(tombstone));
            }
        };
        object.key().check()?;
        let object = match &self.transform {
            Some(transform) => transform.apply(object)?,
            None => object,
        };
        let (hash, version) = (hash_key(&self.seed, object.key()), object.resource_version());
        Ok(Step::Put(Prepared { object, hash }, version))
    }
}

impl<T: Object> Sink<T> for Indexer<T> {
    fn add(&self, object: Arc<T>) -> Result<Report, ObjectError> {
        self.apply(Transaction::Add(object)).map(|(_, report)| report)
    }

    fn update(&self, object: Arc<T>) -> Result<Report, ObjectError> {
        self.apply(Transaction::Update(object)).map(|(_, report)| report)
    }

    fn delete(&self, tombstone: Tombstone<T>) -> Result<Report, ObjectError> {
        self.apply(Transaction::Delete(tombstone)).map(|(_, report)| report)
    }

    fn replace(&self, replacement: Replacement<T>) -> Result<Report, ObjectError> {
        Ok(self.replace_all(replacement).report)
    }

    fn bookmark(&self, version: ResourceVersion) -> Result<(), ObjectError> {
        self.bookmark(version);
        Ok(())
    }
}

impl<T: Object> KnownObjects<T> for Indexer<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        self.keys()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        self.get_by_key(key)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        self.snapshot().for_each(visit);
    }
}

impl<T: Object> Store<T> for Indexer<T> {
    fn list(&self) -> Vec<Arc<T>> {
        self.list()
    }

    fn resource_version(&self) -> ResourceVersion {
        self.resource_version()
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl<T: Object> std::fmt::Debug for Indexer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Indexer").field(&self.snapshot()).finish()
    }
}
