//! Applying deltas.

use std::cmp::Ordering;
use std::sync::Arc;
use std::{mem, slice};

use kinformer_core::internal::contain;
use kinformer_core::{
    BoxError, Change, Delta, Deltas, Error, KeyError, KeyRef, Object, ObjectKey, ObjectName, PartId,
    PartialErrors, Parts, Replacement, ResourceVersion, Tombstone, VersionUpdate, VersionUpdates,
};
use smallvec::SmallVec;

use crate::evaluated::Evaluated;
use crate::indexer::Indexer;
use crate::roots::{Edit, hash_key};
use crate::snapshot::discard;

/// The result of applying deltas to a store.
#[derive(Debug)]
#[must_use = "some of the objects may have been left out"]
#[non_exhaustive]
pub struct Applied<T> {
    /// The changes, each with its delta, in the order in which they were applied. A list yields first each deleted
    /// object, then each object of the list, including those whose `Arc` is unchanged.
    pub changes: Vec<Change<T>>,
    /// Errors of individual objects.
    pub errors: PartialErrors,
    /// The [revision](crate::Snapshot::revision) of the state after these changes.
    pub revision: u64,
}

/// Drops the states of a change, containing panics of their `Drop`.
pub(crate) fn discard_change<T>(change: Change<T>) {
    change.old.into_iter().for_each(discard);
    discard_delta(change.delta);
}

/// Drops the objects of a delta, containing panics of their `Drop`.
pub(crate) fn discard_delta<T>(delta: Delta<T>) {
    match delta {
        Delta::Added(object)
        | Delta::Updated(object)
        | Delta::Replaced(object)
        | Delta::Sync(object)
        | Delta::Left(object) => discard(object),
        Delta::Deleted(tombstone) => tombstone.into_object().into_iter().for_each(discard),
        Delta::ReplacedAll(list) => list.objects.into_iter().for_each(discard),
        _ => {}
    }
}

/// The result of an operation, apart from its changes.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) errors: PartialErrors,
    pub(crate) revision: u64,
    /// Whether a state with possibly changed objects was published.
    pub(crate) published: bool,
}

/// Collects the changes of an operation, if the caller needs them.
pub(crate) type Changes<'a, T> = Option<&'a mut Vec<Change<T>>>;

/// One delta of a batch. All user code that must not run under a lock has been called.
struct Entry<T> {
    /// A delta of one object, or a bookmark.
    delta: Delta<T>,
    hash: u32,
    part_version: PartVersion,
    /// Errors of index functions.
    errors: PartialErrors,
    outcome: Outcome<T>,
}

/// The outcome of one delta.
enum Outcome<T> {
    /// Not applied yet.
    Pending,
    /// Applied; holds the previously stored object.
    Applied(Option<Arc<T>>),
    /// Skipped, because a newer state of the object is stored.
    Stale,
    /// Rejected; nothing has changed.
    Rejected(Box<Error>),
}

/// The part of a delta and the version to which the delta advances it. The part is `None` if the object belongs to no
/// part.
type PartVersion = (Option<PartId>, ResourceVersion);

/// Deltas of single objects that are published together.
type Batch<T> = SmallVec<[Entry<T>; 1]>;

impl<T: Object> Indexer<T> {
    /// Applies deltas in order and returns their changes.
    ///
    /// Added, updated and replaced objects are stored, objects that are deleted or leave are removed, a list replaces all objects, and a
    /// bookmark advances the version. A resync has no effect, because its object is stored already. Consecutive deltas
    /// of single objects form one publication: a reader sees all of them or none. A list is a publication of its own.
    ///
    /// An object with an invalid key, a failed transform or a panicking accessor is left out and reported by its
    /// key, or by its index if it has none; all others are applied. A state that is older than the state from
    /// another [part](crate::IndexerBuilder::parts) is left out without an error, and so is an object of no part where the
    /// parts [can change](kinformer_core::Parts::changeable): its part may have been removed. An object whose index function fails
    /// is stored and reported. A list with more than 2^32 - 2 objects is left out.
    ///
    /// ```
    /// # use kinformer_core::{Delta, Keyed};
    /// # use std::sync::Arc;
    /// # let pod = |value| Ok::<_, kinformer_core::KeyError>(Arc::new(Keyed::new("default/web".parse()?, value)));
    /// # let indexer = kinformer_store::Indexer::new();
    /// let applied = indexer.apply([Delta::Added(pod(1)?), Delta::Deleted(pod(2)?.into())]);
    /// assert_eq!(applied.changes.len(), 2);
    /// assert!(applied.changes[0].old.is_none() && applied.changes[1].old.is_some());
    /// assert!(applied.errors.is_empty() && indexer.is_empty());
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    pub fn apply(&self, deltas: impl Into<Deltas<T>>) -> Applied<T> {
        self.applied(deltas.into(), None)
    }

    /// Like [`Self::apply`], but sets the versions from `versions` instead of those of objects, lists and bookmarks: for
    /// sources that know which versions are complete.
    pub fn apply_at(&self, deltas: impl Into<Deltas<T>>, versions: &VersionUpdates) -> Applied<T> {
        self.applied(deltas.into(), Some(versions))
    }

    fn applied(&self, deltas: Deltas<T>, at: Option<&VersionUpdates>) -> Applied<T> {
        let count = |delta: &Delta<T>| match delta {
            Delta::ReplacedAll(list) => list.objects.len(),
            _ => 1,
        };
        let mut changes = Vec::with_capacity(deltas.iter().map(count).sum());
        let Written { errors, revision, .. } = self.write(deltas.into_iter(), at, Some(&mut changes));
        Applied { changes, errors, revision }
    }

    /// Applies deltas for callers that do not need the changes.
    pub(crate) fn write_all(&self, deltas: Deltas<T>) -> Written {
        self.write(deltas.into_iter(), None, None)
    }

    fn write(
        &self,
        deltas: impl Iterator<Item = Delta<T>>,
        at: Option<&VersionUpdates>,
        mut changes: Changes<'_, T>,
    ) -> Written {
        let mut written = Written::default();
        let mut batch = Batch::new();
        // The given versions are set only with the last publication.
        let none = VersionUpdates::NONE;
        let early = at.map(|_| &none);
        let mut last_list = None;
        for (index, delta) in deltas.enumerate() {
            if let Some(list) = last_list.take() {
                self.replace_at(list, early, changes.as_deref_mut(), &mut written);
            }
            match delta {
                Delta::ReplacedAll(list) if self.is_list_of_removed(&list) => {
                    discard_delta(Delta::ReplacedAll(list));
                }
                Delta::ReplacedAll(list) => {
                    if !batch.is_empty() {
                        self.write_batch(&mut batch, early, changes.as_deref_mut(), &mut written);
                        batch.clear();
                    }
                    last_list = Some(*list);
                }
                delta => match self.prepare(delta) {
                    Ok(Some(entry)) => batch.push(entry),
                    Ok(None) => {}
                    Err(error) if self.is_removed(&error) => {}
                    Err(error) => written.errors.push(error.with_index(index)),
                },
            }
        }
        match last_list {
            Some(list) => self.replace_at(list, at, changes, &mut written),
            None => self.write_batch(&mut batch, at, changes, &mut written),
        }
        written
    }

    /// Returns whether an object was left out because its part was removed while it was on its way.
    pub(crate) fn is_removed(&self, error: &Error) -> bool {
        matches!(error, Error::OtherPart { part: None, .. }) && self.shared.parts.is_changeable()
    }

    fn is_list_of_removed(&self, list: &Replacement<T>) -> bool {
        self.shared.parts.is_changeable() && !self.shared.parts.exists(list.part)
    }

    /// Applies a list, at its own version or at the given ones.
    fn replace_at(
        &self,
        list: Replacement<T>,
        at: Option<&VersionUpdates>,
        changes: Changes<'_, T>,
        written: &mut Written,
    ) {
        let own = VersionUpdates::of(list.part, VersionUpdate::of_list(&list));
        match self.replace_with(list, at.unwrap_or(&own), changes) {
            Ok((errors, revision)) => {
                written.errors.extend(errors);
                written.revision = revision;
                written.published = true;
            }
            Err(error) => {
                written.errors.push(error);
                written.revision = self.move_versions(at.unwrap_or(&VersionUpdates::NONE));
            }
        }
    }

    /// Applies a batch in one publication.
    fn write_batch(
        &self,
        batch: &mut [Entry<T>],
        at: Option<&VersionUpdates>,
        mut changes: Changes<'_, T>,
        written: &mut Written,
    ) {
        if !batch.iter().any(Entry::changes_objects) {
            return self.advance_to_bookmarks(batch, at, written);
        }
        let mut functions = self.functions();
        loop {
            // If an index was added in the meantime, which is rare, all index functions are called again.
            let reused = batch.len() == 1 && !functions.all.is_empty();
            let mut values = if reused { Evaluated::for_one() } else { Evaluated::default() };
            batch.iter_mut().for_each(|entry| entry.evaluate(&functions.all, &mut values));
            let mut writer = self.writer.lock();
            let mut roots = self.shared.roots.write();
            if roots.functions.all.len() != functions.all.len() {
                functions = roots.functions.clone();
                continue;
            }
            let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
            for (number, entry) in batch.iter_mut().enumerate() {
                let first = number * functions.all.len();
                entry.outcome = entry.apply(&mut edit, &self.shared.parts, &values, first);
                if at.is_none()
                    && !matches!(entry.outcome, Outcome::Rejected(_))
                    && let (Some(part), version) = &entry.part_version
                {
                    edit.roots.versions.advance(*part, version);
                }
            }
            if let Some(at) = at {
                at.apply_to(&mut edit.roots.versions);
            }
            edit.roots.revision += 1;
            let sparse = edit.is_sparse();
            let (reached, revision) = (self.shared.waiters.reached(&roots.versions), roots.revision);
            drop(roots);
            self.release(writer, sparse);
            self.shared.waiters.published(reached);
            if reused {
                values.recycle();
            }
            for entry in batch {
                let change = entry.finish(revision, &mut written.errors);
                match (&mut changes, change) {
                    (_, None) => {}
                    (Some(changes), Some(change)) => changes.push(change),
                    (None, Some(change)) => discard_change(change),
                }
            }
            written.revision = revision;
            written.published = true;
            return;
        }
    }

    /// Applies a batch that has only bookmarks, or is empty.
    #[cold]
    fn advance_to_bookmarks(
        &self,
        batch: &mut [Entry<T>],
        at: Option<&VersionUpdates>,
        written: &mut Written,
    ) {
        let mut bookmarks = VersionUpdates::NONE;
        for Entry { part_version: (part, version), .. } in batch {
            if let Some(part) = part {
                bookmarks.append(*part, VersionUpdate::Advance(version.clone()));
            }
        }
        written.revision = self.move_versions(at.unwrap_or(&bookmarks));
    }

    /// Applies several deltas, like [`Self::apply`], for callers that do not need the changes.
    ///
    /// Follows client-go 0.37 (`ThreadSafeStoreWithTransaction`).
    #[doc(alias(
        "ThreadSafeStoreTransaction",
        "ThreadSafeStoreWithTransaction",
        "TransactionStore",
        "TransactionTypeAdd",
        "TransactionTypeDelete",
        "TransactionTypeUpdate"
    ))]
    pub fn transaction(&self, deltas: impl IntoIterator<Item = Delta<T>>) -> PartialErrors {
        self.write_all(deltas.into_iter().collect()).errors
    }

    /// Adds or replaces an object.
    ///
    /// # Errors
    /// The key is invalid, the transform failed, an accessor panicked, or the store has 2^32 - 2 objects. Nothing has
    /// changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.add(pod("default/web-0", 2))?;
    /// assert_eq!(pods.list(), [pod("default/web-0", 2).into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<PartialErrors, crate::Error> {
        self.write_one(Delta::Added(object.into()))
    }

    /// Adds or replaces an object, exactly like [`Self::add`].
    ///
    /// # Errors
    /// See [`Self::add`].
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<PartialErrors, crate::Error> {
        self.write_one(Delta::Updated(object.into()))
    }

    /// Removes an object. Removing an absent object is not an error. If the final state is known, the store's version
    /// advances to its version.
    ///
    /// ```
    /// # use kinformer_core::Keyed;
    /// # use kinformer_store::*;
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// pods.delete(pod("default/web-0", 1))?;
    /// assert!(pods.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The key is invalid, or an accessor panicked. Nothing has changed.
    pub fn delete(&self, tombstone: impl Into<Tombstone<Arc<T>>>) -> Result<PartialErrors, crate::Error> {
        self.write_one(Delta::Deleted(tombstone.into()))
    }

    /// Applies the delta of one object.
    fn write_one(&self, delta: Delta<T>) -> Result<PartialErrors, crate::Error> {
        let mut written = Written::default();
        if let Some(mut entry) = self.prepare(delta)? {
            self.write_batch(slice::from_mut(&mut entry), None, None, &mut written);
        }
        Ok(written.errors.require_applied()?)
    }

    /// Removes and returns the object with this key. The store's version is unchanged.
    ///
    /// ```
    /// use kinformer_core::Keyed;
    /// use kinformer_store::Indexer;
    ///
    /// # let pod = |name: &str, value| Keyed::new(name.parse().unwrap(), value);
    /// let pods = Indexer::new();
    /// pods.add(pod("default/web-0", 1))?;
    /// assert_eq!(pods.delete_by_key(("default", "web-0")), Some(pod("default/web-0", 1).into()));
    /// assert_eq!(pods.delete_by_key(("default", "web-0")), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = key.into();
        let hash = hash_key(&self.hasher, key);
        let mut writer = self.writer.lock();
        let mut roots = self.shared.roots.write();
        let slot = roots.find(hash, || key)?;
        let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
        edit.roots.revision += 1;
        let old = edit.remove(hash, slot);
        let sparse = edit.is_sparse();
        drop(roots);
        self.release(writer, sparse);
        old
    }

    /// Calls the user code of a delta. Returns `None` for a delta without effect on a store.
    fn prepare(&self, delta: Delta<T>) -> Result<Option<Entry<T>>, Error> {
        let (delta, (hash, part_version)) = match delta {
            Delta::Added(object) => self.prepare_object(object, Delta::Added)?,
            Delta::Updated(object) => self.prepare_object(object, Delta::Updated)?,
            Delta::Replaced(object) => self.prepare_object(object, Delta::Replaced)?,
            Delta::Deleted(tombstone) => self.prepare_deletion(tombstone)?,
            Delta::Left(object) => self.prepare_leave(object)?,
            Delta::Bookmark { part, ref resource_version } => {
                let version = (Some(part), resource_version.clone());
                (delta, (0, version))
            }
            // The object of a resync is stored already.
            _ => return Ok(None),
        };
        let (errors, outcome) = (PartialErrors::default(), Outcome::Pending);
        Ok(Some(Entry { delta, hash, part_version, errors, outcome }))
    }

    /// Transforms an object and calls its accessors. Returns its delta.
    #[inline]
    fn prepare_object(
        &self,
        object: Arc<T>,
        delta: impl FnOnce(Arc<T>) -> Delta<T>,
    ) -> Result<(Delta<T>, (u32, PartVersion)), Error> {
        let (object, result) = self.transform_and_read(object)?;
        Ok((delta(object), result))
    }

    /// Transforms an object and calls its accessors.
    fn transform_and_read(&self, object: Arc<T>) -> Result<(Arc<T>, (u32, PartVersion)), Error> {
        let object = match &self.transform {
            Some(transform) => transform.apply_in(&self.shared.parts, object)?,
            None => object,
        };
        let result = contain(|| {
            let key = object.key();
            key.check()?;
            Ok((hash_key(&self.hasher, key), self.part_version(&object)))
        });
        match result {
            Ok(Ok((_, (None, _)))) => Err(in_no_part(object)),
            Ok(Ok(result)) => Ok((object, result)),
            Ok(Err(error)) => Err(invalid_key(object, error)),
            Err(source) => Err(panicked(object, source)),
        }
    }

    /// Calls the accessors of a deletion. Returns its delta.
    fn prepare_deletion(
        &self,
        tombstone: Tombstone<Arc<T>>,
    ) -> Result<(Delta<T>, (u32, PartVersion)), Error> {
        let result = contain(|| {
            tombstone.key().check()?;
            let version = match &tombstone {
                Tombstone::FinalState(object) => self.part_version(object),
                _ => (None, ResourceVersion::UNSET),
            };
            Ok::<_, KeyError>((hash_key(&self.hasher, tombstone.key()), version))
        });
        let error = match result {
            Ok(Ok(result)) => return Ok((Delta::Deleted(tombstone), result)),
            Ok(Err(error)) => error.into(),
            Err(source) => Error::Accessor { object: ObjectName::of(|| tombstone.key()), source },
        };
        tombstone.into_object().into_iter().for_each(discard);
        Err(error)
    }

    /// Calls the accessors of an object that leaves. Returns its delta, which advances no version.
    fn prepare_leave(&self, object: Arc<T>) -> Result<(Delta<T>, (u32, PartVersion)), Error> {
        let result = contain(|| {
            let key = object.key();
            key.check()?;
            Ok(hash_key(&self.hasher, key))
        });
        match result {
            Ok(Ok(hash)) => Ok((Delta::Left(object), (hash, (None, ResourceVersion::UNSET)))),
            Ok(Err(error)) => Err(invalid_key(object, error)),
            Err(source) => Err(panicked(object, source)),
        }
    }

    fn part_version(&self, object: &T) -> PartVersion {
        (self.shared.parts.of(object), object.resource_version())
    }

    /// Returns the object to store: its key is valid, and the transform, if any, was applied.
    pub(crate) fn transformed(&self, object: Arc<T>) -> Result<Arc<T>, Error> {
        match &self.transform {
            Some(transform) => transform.apply_in(&self.shared.parts, object),
            None => match contain(|| object.key().check()) {
                Ok(Ok(())) => Ok(object),
                Ok(Err(error)) => Err(invalid_key(object, error)),
                Err(source) => Err(panicked(object, source)),
            },
        }
    }
}

impl<T: Object> Entry<T> {
    /// Calls the index functions and discards errors of earlier calls.
    #[inline]
    fn evaluate(&mut self, functions: &[(Arc<str>, crate::IndexFunction<T>)], values: &mut Evaluated) {
        if !functions.is_empty() {
            self.evaluate_all(functions, values);
        }
    }

    fn evaluate_all(&mut self, functions: &[(Arc<str>, crate::IndexFunction<T>)], values: &mut Evaluated) {
        let Self { delta, errors, .. } = self;
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                *errors = PartialErrors::default();
                values.evaluate(functions, object, |index, source| {
                    errors.push_applied(index_error(&**object, index, source));
                });
            }
            _ => values.skip(functions.len()),
        }
    }

    /// Applies the delta under the locks, without dropping any object. Accessors are called before anything changes, so a
    /// panic leaves the state unchanged.
    fn apply(
        &self,
        edit: &mut Edit<'_, T>,
        parts: &Parts<T>,
        values: &Evaluated,
        first: usize,
    ) -> Outcome<T> {
        let hash = self.hash;
        match &self.delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                let found = contain(|| {
                    let slot = edit.roots.find(hash, || object.key());
                    let stored = || slot.and_then(|slot| edit.roots.object(slot));
                    (
                        slot,
                        parts.is_divided() && stored().is_some_and(|stored| is_stale(parts, object, stored)),
                    )
                });
                match found {
                    Ok((_, true)) => Outcome::Stale,
                    Ok((slot, false)) => match edit.upsert(slot, hash, object, values, first) {
                        Ok(old) => Outcome::Applied(old),
                        Err(error) => Outcome::Rejected(Box::new(error)),
                    },
                    Err(source) => self.panicked(source),
                }
            }
            Delta::Deleted(tombstone) => {
                let found = contain(|| {
                    let slot = edit.roots.find(hash, || tombstone.key())?;
                    let stored = edit.roots.object(slot)?;
                    removes(parts, tombstone, stored).then_some(slot)
                });
                match found {
                    Ok(slot) => Outcome::Applied(slot.and_then(|slot| edit.remove(hash, slot))),
                    Err(source) => self.panicked(source),
                }
            }
            Delta::Left(object) => {
                let find = || {
                    let slot = edit.roots.find(hash, || object.key())?;
                    let stored = edit.roots.object(slot)?;
                    (parts.of(object) == parts.of(stored)).then_some(slot)
                };
                match contain(find) {
                    Ok(slot) => Outcome::Applied(slot.and_then(|slot| edit.remove(hash, slot))),
                    Err(source) => self.panicked(source),
                }
            }
            _ => Outcome::Applied(None),
        }
    }

    #[cold]
    fn panicked(&self, source: BoxError) -> Outcome<T> {
        let object = ObjectName::of(|| self.delta.key().unwrap_or(KeyRef::named("")));
        Outcome::Rejected(Box::new(Error::Accessor { object, source }))
    }
}

impl<T> Entry<T> {
    fn changes_objects(&self) -> bool {
        !matches!(self.delta, Delta::Bookmark { .. })
    }

    /// Takes the change of an object, and reports errors.
    #[inline]
    fn finish(&mut self, revision: u64, reports: &mut PartialErrors) -> Option<Change<T>> {
        let delta = mem::replace(&mut self.delta, Delta::SyncAll);
        match mem::replace(&mut self.outcome, Outcome::Pending) {
            Outcome::Applied(old) if !matches!(delta, Delta::Bookmark { .. }) => {
                if !self.errors.is_empty() {
                    reports.extend(mem::take(&mut self.errors));
                }
                return Some(Change::new(delta, old).at_revision(revision));
            }
            Outcome::Rejected(error) => reports.push(*error),
            _ => {}
        }
        discard_delta(delta);
        None
    }
}

/// Returns whether the stored object is of another part and newer. This part has not delivered its deletion yet.
pub(crate) fn is_stale<T: Object>(parts: &Parts<T>, object: &T, stored: &T) -> bool {
    parts.is_divided()
        && parts.of(object) != parts.of(stored)
        && object.resource_version().compare(&stored.resource_version()).is_some_and(Ordering::is_lt)
}

/// Returns whether a deletion removes this state, which must belong to the part of the deletion. A deletion by key alone,
/// from an unknown part, applies to all parts.
fn removes<T: Object>(parts: &Parts<T>, tombstone: &Tombstone<Arc<T>>, stored: &Arc<T>) -> bool {
    !parts.is_divided()
        || match parts.of_deletion(tombstone) {
            Some(part) => parts.contains(part, stored),
            None => tombstone.is_of_all_parts(),
        }
}

pub(crate) fn index_error<T: Object>(
    object: &T,
    index: &Arc<str>,
    source: kinformer_core::BoxError,
) -> Error {
    match contain(|| ObjectKey::try_from(object.key())) {
        Ok(Ok(key)) => Error::other(crate::Error::IndexFunction { key, index: index.clone(), source }),
        Ok(Err(error)) => error.into(),
        Err(source) => Error::Accessor { object: ObjectName::Index(0), source },
    }
}

/// Drops an object that belongs to no part and returns the error. It is left out, because no list would remove it.
pub(crate) fn in_no_part<T: Object>(object: Arc<T>) -> Error {
    let name = ObjectName::of(|| object.key());
    discard(object);
    Error::OtherPart { object: name, part: None }
}

/// Drops an object with an invalid key and returns the error.
fn invalid_key<T>(object: Arc<T>, error: KeyError) -> Error {
    discard(object);
    error.into()
}

/// Drops an object with a panicking accessor and returns the error.
pub(crate) fn panicked<T: Object>(object: Arc<T>, source: BoxError) -> Error {
    let name = ObjectName::of(|| object.key());
    discard(object);
    Error::Accessor { object: name, source }
}
