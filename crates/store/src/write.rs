//! Applying deltas.

use std::cmp::Ordering;
use std::sync::Arc;

use kinformer_core::internal::{ask, readable_key};
use kinformer_core::{
    BoxError, Change, Delta, Deltas, Error, KeyRef, Object, ObjectKey, PartId, Parts, Replacement, Report,
    ResourceVersion, Tombstone, VersionUpdate, VersionUpdates,
};
use smallvec::SmallVec;

use crate::evaluated::Evaluated;
use crate::indexer::Indexer;
use crate::roots::{Edit, hash_key};
use crate::snapshot::discard;

/// What deltas did to a store.
#[derive(Debug)]
#[must_use = "some of the objects may have been left out"]
#[non_exhaustive]
pub struct Applied<T> {
    /// Each change, in the order in which it was applied, with the delta that made it. Of a list: first each object
    /// that is gone, then each object of the list, also one that is the very same `Arc` as before.
    pub changes: Vec<Change<T>>,
    /// What was wrong with single objects.
    pub report: Report,
    /// The [revision](crate::Snapshot::revision) of the state that these changes led to.
    pub revision: u64,
}

/// Drops the states of a change; panics of the user's `Drop` are contained.
pub(crate) fn discard_change<T>(change: Change<T>) {
    change.old.into_iter().for_each(discard);
    discard_delta(change.delta);
}

/// Drops the objects of a delta; panics of the user's `Drop` are contained.
pub(crate) fn discard_delta<T>(delta: Delta<T>) {
    match delta {
        Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
            discard(object);
        }
        Delta::Deleted(tombstone) => tombstone.into_object().into_iter().for_each(discard),
        Delta::ReplacedAll(list) => list.objects.into_iter().for_each(discard),
        _ => {}
    }
}

/// What an operation gives beside its changes.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) report: Report,
    pub(crate) revision: u64,
    /// Whether a state was published in which objects may have changed.
    pub(crate) published: bool,
}

/// The changes of an operation, for callers who want them.
pub(crate) type Changes<'a, T> = Option<&'a mut Vec<Change<T>>>;

/// A delta that has asked user code everything and only needs the locks.
enum Prepared<T> {
    Put { kind: fn(Arc<T>) -> Delta<T>, hash: u32, object: Arc<T>, reached: Reached, report: Report },
    Remove { hash: u32, tombstone: Tombstone<Arc<T>>, reached: Reached },
    Bookmark(Reached),
}

/// What became of a delta.
enum Outcome<T> {
    /// It was applied; with what was stored before.
    Applied(Option<Arc<T>>),
    /// A newer state of the object is stored.
    Late,
}

/// The version that a part reaches with a delta; no part if the object is in none.
type Reached = (Option<PartId>, ResourceVersion);

/// Deltas about single objects, by position; those that are invalid with what is wrong with them.
type Batch<T> = SmallVec<[(usize, Result<Prepared<T>, Error>); 1]>;

impl<T: Object> Indexer<T> {
    /// Applies deltas, in their order, and says what they did.
    ///
    /// Added, updated and replaced objects are stored, deleted ones removed, a list replaces everything, a bookmark
    /// moves the version, and a resync does nothing, since it brings nothing that is not stored. Deltas about single
    /// objects that follow each other are applied under one publication: a reader sees none of them or all. A list is
    /// a publication of its own.
    ///
    /// An object that is invalid (its key, its transform, its accessors) is left out and reported by its
    /// [position](kinformer_core::Problem::position); all others are applied. A state that is older than the one that
    /// another [part](crate::IndexerBuilder::parts) has brought is left out without a report. An object for which an index function
    /// fails is stored, and reported as well. A list with more than 2^32 - 2 objects is left out.
    ///
    /// ```
    /// # use kinformer_core::{Delta, Keyed};
    /// # use std::sync::Arc;
    /// # let pod = |value| Ok::<_, kinformer_core::KeyError>(Arc::new(Keyed::new("default/web".parse()?, value)));
    /// # let indexer = kinformer_store::Indexer::new();
    /// let applied = indexer.apply([Delta::Added(pod(1)?), Delta::Deleted(pod(2)?.into())]);
    /// assert_eq!(applied.changes.len(), 2);
    /// assert!(applied.changes[0].old.is_none() && applied.changes[1].old.is_some());
    /// assert!(applied.report.is_clean() && indexer.is_empty());
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    pub fn apply(&self, deltas: impl Into<Deltas<T>>) -> Applied<T> {
        self.applied(deltas.into(), None)
    }

    /// As [`Self::apply`], and moves versions as the source of these deltas says, and not to the versions of
    /// objects, lists and bookmarks: for a source that knows better what is complete, and what was left out.
    pub fn apply_at(&self, deltas: impl Into<Deltas<T>>, versions: &VersionUpdates) -> Applied<T> {
        self.applied(deltas.into(), Some(versions))
    }

    fn applied(&self, deltas: Deltas<T>, at: Option<&VersionUpdates>) -> Applied<T> {
        let changes = deltas.iter().map(Delta::positions).sum();
        let mut changes = Vec::with_capacity(changes);
        let Written { report, revision, .. } = self.write(deltas, at, Some(&mut changes));
        Applied { changes, report, revision }
    }

    /// Applies deltas for callers who do not want to know what changed.
    pub(crate) fn write_all(&self, deltas: Deltas<T>) -> Written {
        self.write(deltas, None, None)
    }

    fn write(&self, deltas: Deltas<T>, at: Option<&VersionUpdates>, mut changes: Changes<'_, T>) -> Written {
        let mut written = Written::default();
        let mut position = 0;
        let mut batch = Batch::new();
        // The versions that are named are reached with the last publication.
        let none = VersionUpdates::NONE;
        let early = at.map(|_| &none);
        let mut list_at = None;
        for delta in deltas {
            if let Some((start, list)) = list_at.take() {
                self.replace_at(list, start, early, changes.as_deref_mut(), &mut written);
            }
            let start = position;
            position += delta.positions();
            match delta {
                Delta::ReplacedAll(list) => {
                    if !batch.is_empty() {
                        self.write_batch(
                            std::mem::take(&mut batch),
                            early,
                            changes.as_deref_mut(),
                            &mut written,
                        );
                    }
                    list_at = Some((start, *list));
                }
                delta => batch.extend(self.prepare(delta).map(|prepared| (start, prepared))),
            }
        }
        match list_at {
            Some((start, list)) => self.replace_at(list, start, at, changes, &mut written),
            None => self.write_batch(batch, at, changes, &mut written),
        }
        written
    }

    /// A list, at its own version or as it is named.
    fn replace_at(
        &self,
        list: Replacement<T>,
        position: usize,
        at: Option<&VersionUpdates>,
        changes: Changes<'_, T>,
        written: &mut Written,
    ) {
        let own = VersionUpdates::of(list.part, VersionUpdate::of_list(&list));
        match self.replace_with(list, at.unwrap_or(&own), changes) {
            Ok((report, revision)) => {
                written.report.extend_at(position, report);
                written.revision = revision;
                written.published = true;
            }
            Err(error) => {
                written.report.push(position, error);
                written.revision = self.move_versions(at.unwrap_or(&VersionUpdates::NONE));
            }
        }
    }

    /// One publication.
    fn write_batch(
        &self,
        mut batch: Batch<T>,
        at: Option<&VersionUpdates>,
        mut changes: Changes<'_, T>,
        written: &mut Written,
    ) {
        let mut bookmarks = VersionUpdates::NONE;
        let mut changes_objects = false;
        for (_, entry) in &batch {
            match entry {
                Ok(Prepared::Bookmark((Some(part), version))) => {
                    bookmarks.append(*part, VersionUpdate::Advance(version.clone()));
                }
                Ok(Prepared::Bookmark(_)) => {}
                Ok(_) => changes_objects = true,
                Err(_) => {}
            }
        }
        if !changes_objects {
            for (position, entry) in batch {
                entry.err().into_iter().for_each(|error| written.report.push(position, error));
            }
            written.revision = self.move_versions(at.unwrap_or(&bookmarks));
            return;
        }
        let mut functions = self.functions();
        loop {
            // Indexes are hardly ever added meanwhile; then all is asked again.
            let mut values = if batch.len() == 1 { Evaluated::for_one() } else { Evaluated::default() };
            for (position, entry) in &mut batch {
                match entry {
                    Ok(entry) => entry.ask(&functions.all, *position, &mut values),
                    Err(_) => values.skip(functions.all.len()),
                }
            }
            let mut writer = self.writer.lock();
            let mut roots = self.shared.roots.write();
            if roots.functions.all.len() != functions.all.len() {
                functions = roots.functions.clone();
                continue;
            }
            let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
            let apply = |(number, (_, entry)): (usize, &(usize, Result<Prepared<T>, Error>))| {
                let Ok(entry) = entry else { return Ok(Outcome::Applied(None)) };
                let old =
                    entry.apply(&mut edit, &self.shared.parts, &values, number * functions.all.len())?;
                if at.is_none()
                    && let (Some(part), version) = entry.reached()
                {
                    edit.roots.versions.update(*part, &VersionUpdate::Advance(version.clone()));
                }
                Ok(old)
            };
            let olds: SmallVec<[_; 1]> = batch.iter().enumerate().map(apply).collect();
            if let Some(at) = at {
                at.apply_to(&mut edit.roots.versions);
            }
            edit.roots.revision += 1;
            let sparse = edit.is_sparse();
            let (versions, revision) = (roots.versions.clone(), roots.revision);
            drop(roots);
            self.release(writer, sparse);
            self.shared.waiters.published(&versions);
            if batch.len() == 1 {
                values.recycle();
            }
            for ((position, entry), old) in batch.into_iter().zip(olds) {
                match entry.and_then(|entry| entry.finish(old, revision)) {
                    Ok((change, report)) => {
                        written.report.extend(report);
                        match (&mut changes, change) {
                            (_, None) => {}
                            (Some(changes), Some(change)) => changes.push(change),
                            (None, Some(change)) => discard_change(change),
                        }
                    }
                    Err(error) => written.report.push(position, error),
                }
            }
            written.revision = revision;
            written.published = true;
            return;
        }
    }

    /// Applies several deltas, as [`Self::apply`], for callers who do not want the changes.
    ///
    /// Follows client-go 1.37 (`ThreadSafeStoreWithTransaction`).
    pub fn transaction(&self, deltas: impl IntoIterator<Item = Delta<T>>) -> Report {
        self.write_all(deltas.into_iter().collect()).report
    }

    /// Adds or replaces an object.
    ///
    /// # Errors
    /// The key is invalid, the transform failed, an accessor panics, or there are 2^32 - 2 objects; nothing has
    /// changed then.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<Report, crate::Error> {
        self.write_one(Delta::Added(object.into()))
    }

    /// Adds or replaces an object: to a store the same as [`Self::add`].
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<Report, crate::Error> {
        self.write_one(Delta::Updated(object.into()))
    }

    /// Removes an object; removing what is not there is no error. With its final state known, the store's
    /// version moves to that state's.
    ///
    /// # Errors
    /// The key is invalid, or an accessor panics; nothing has changed then.
    pub fn delete(&self, tombstone: impl Into<Tombstone<Arc<T>>>) -> Result<Report, crate::Error> {
        self.write_one(Delta::Deleted(tombstone.into()))
    }

    fn write_one(&self, delta: Delta<T>) -> Result<Report, crate::Error> {
        Ok(self.write_all(delta.into()).report.of_one()?)
    }

    /// Removes the object with this key and returns it. The store's version stays as it is.
    pub fn delete_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = key.into();
        let hash = hash_key(&self.hasher, key);
        let mut writer = self.writer.lock();
        let mut roots = self.shared.roots.write();
        let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
        edit.roots.revision += 1;
        let old = edit.roots.find(hash, key).and_then(|slot| edit.remove(hash, slot));
        let sparse = edit.is_sparse();
        drop(roots);
        self.release(writer, sparse);
        old
    }

    /// `None` for a delta that brings nothing to a store.
    fn prepare(&self, delta: Delta<T>) -> Option<Result<Prepared<T>, Error>> {
        match delta {
            Delta::Added(object) => Some(self.prepare_put(Delta::Added, object)),
            Delta::Updated(object) => Some(self.prepare_put(Delta::Updated, object)),
            Delta::Replaced(object) => Some(self.prepare_put(Delta::Replaced, object)),
            Delta::Deleted(tombstone) => Some(self.prepare_remove(tombstone)),
            Delta::Bookmark { part, resource_version } => {
                Some(Ok(Prepared::Bookmark((Some(part), resource_version))))
            }
            // The object of a resync is stored already.
            _ => None,
        }
    }

    fn prepare_put(&self, kind: fn(Arc<T>) -> Delta<T>, object: Arc<T>) -> Result<Prepared<T>, Error> {
        let object = self.transformed(object)?;
        match ask(|| (hash_key(&self.hasher, object.key()), self.reached(&object))) {
            Ok((_, (None, _))) => Err(in_no_part(object)),
            Ok((hash, reached)) => {
                Ok(Prepared::Put { kind, hash, object, reached, report: Report::default() })
            }
            Err(source) => Err(panicked(object, source)),
        }
    }

    fn prepare_remove(&self, tombstone: Tombstone<Arc<T>>) -> Result<Prepared<T>, Error> {
        let asked = ask(|| {
            tombstone.key().check()?;
            let reached = match &tombstone {
                Tombstone::FinalState(object) => self.reached(object),
                _ => (None, ResourceVersion::UNSET),
            };
            Ok((hash_key(&self.hasher, tombstone.key()), reached))
        });
        let error = match asked {
            Ok(Ok((hash, reached))) => return Ok(Prepared::Remove { hash, tombstone, reached }),
            Ok(Err(error)) => Error::Key(error),
            Err(source) => Error::Accessor { key: readable_key(|| tombstone.key()), source },
        };
        tombstone.into_object().into_iter().for_each(discard);
        Err(error)
    }

    fn reached(&self, object: &T) -> Reached {
        (self.shared.parts.of(object), object.resource_version())
    }

    /// The object as it is to be stored: its key is valid, and the transform, if there is one, was applied.
    pub(crate) fn transformed(&self, object: Arc<T>) -> Result<Arc<T>, Error> {
        match &self.transform {
            Some(transform) => transform.apply_in(&self.shared.parts, object),
            None => match ask(|| object.key().check()) {
                Ok(Ok(())) => Ok(object),
                Ok(Err(error)) => {
                    discard(object);
                    Err(error.into())
                }
                Err(source) => Err(panicked(object, source)),
            },
        }
    }
}

impl<T: Object> Prepared<T> {
    /// Asks the index functions. What was asked before is forgotten.
    fn ask(
        &mut self,
        functions: &[(Arc<str>, crate::IndexFunction<T>)],
        position: usize,
        values: &mut Evaluated,
    ) {
        match self {
            Self::Put { object, report, .. } => {
                *report = Report::default();
                values.ask(functions, object, |index, source| {
                    report.push_applied(position, index_error(&**object, index, source));
                });
            }
            Self::Remove { .. } | Self::Bookmark(_) => values.skip(functions.len()),
        }
    }

    fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Put { object, .. } => readable_key(|| object.key()),
            Self::Remove { tombstone, .. } => readable_key(|| tombstone.key()),
            Self::Bookmark(_) => None,
        }
    }

    fn reached(&self) -> &Reached {
        match self {
            Self::Put { reached, .. } | Self::Remove { reached, .. } | Self::Bookmark(reached) => reached,
        }
    }

    /// Under the locks: drops nothing. Returns what was stored before. What it asks objects it asks before it changes
    /// anything: after a panic of one, nothing has changed.
    fn apply(
        &self,
        edit: &mut Edit<'_, T>,
        parts: &Parts<T>,
        values: &Evaluated,
        first: usize,
    ) -> Result<Outcome<T>, Error> {
        let slot = match self {
            Self::Put { hash, object, .. } => {
                let found = ask(|| {
                    let slot = edit.roots.find(*hash, object.key());
                    let stored = slot.and_then(|slot| edit.roots.at(slot));
                    (slot, stored.is_some_and(|stored| is_late(parts, object, stored)))
                });
                match found {
                    Ok((_, true)) => return Ok(Outcome::Late),
                    Ok((slot, false)) => Ok(slot),
                    Err(source) => Err(source),
                }
            }
            Self::Remove { hash, tombstone, .. } => ask(|| {
                let slot = edit.roots.find(*hash, tombstone.key())?;
                let stored = edit.roots.at(slot)?;
                removes(parts, tombstone, stored).then_some(slot)
            }),
            Self::Bookmark(_) => return Ok(Outcome::Applied(None)),
        };
        let slot = slot.map_err(|source| Error::Accessor { key: self.key(), source })?;
        match self {
            Self::Put { hash, object, .. } => {
                edit.upsert(slot, *hash, object, values, first).map(Outcome::Applied)
            }
            Self::Remove { hash, .. } => Ok(Outcome::Applied(slot.and_then(|slot| edit.remove(*hash, slot)))),
            Self::Bookmark(_) => Ok(Outcome::Applied(None)),
        }
    }

    fn finish(
        self,
        old: Result<Outcome<T>, Error>,
        revision: u64,
    ) -> Result<(Option<Change<T>>, Report), Error> {
        let (delta, report) = match self {
            Self::Put { kind, object, report, .. } => (kind(object), report),
            Self::Remove { tombstone, .. } => (Delta::Deleted(tombstone), Report::default()),
            Self::Bookmark(_) => return Ok((None, Report::default())),
        };
        match old {
            Ok(Outcome::Applied(old)) => Ok((Some(Change::new(delta, old).at_revision(revision)), report)),
            Ok(Outcome::Late) => {
                discard_delta(delta);
                Ok((None, Report::default()))
            }
            Err(error) => {
                discard_change(Change::new(delta, None));
                Err(error)
            }
        }
    }
}

/// Whether a newer state of the object is stored, which another part has brought: its source is ahead of that of this
/// part, whose deletion of the object is still to come.
pub(crate) fn is_late<T: Object>(parts: &Parts<T>, object: &T, stored: &T) -> bool {
    parts.is_divided()
        && parts.of(object) != parts.of(stored)
        && object.resource_version().compare(&stored.resource_version()).is_some_and(Ordering::is_lt)
}

/// Whether a deletion removes this state: only one of the part from which it comes. One by the key alone, from a part that
/// nothing says, comes from all of them.
fn removes<T: Object>(parts: &Parts<T>, tombstone: &Tombstone<Arc<T>>, stored: &Arc<T>) -> bool {
    !parts.is_divided()
        || match parts.of_deletion(tombstone) {
            Some(part) => parts.contains(part, stored),
            None => matches!(tombstone, Tombstone::FinalStateUnknown { last_known: None, part: None, .. }),
        }
}

pub(crate) fn index_error<T: Object>(
    object: &T,
    index: &Arc<str>,
    source: kinformer_core::BoxError,
) -> Error {
    match ask(|| ObjectKey::try_from(object.key())) {
        Ok(Ok(key)) => Error::other(crate::Error::IndexFunction { key, index: index.clone(), source }),
        Ok(Err(error)) => error.into(),
        Err(source) => Error::Accessor { key: None, source },
    }
}

/// An object of none of the parts, which is left out: no list would ever remove it.
pub(crate) fn in_no_part<T: Object>(object: Arc<T>) -> Error {
    let key = readable_key(|| object.key());
    discard(object);
    Error::OtherPart { key, part: None }
}

/// An object whose accessors panic, which is left out.
pub(crate) fn panicked<T: Object>(object: Arc<T>, source: BoxError) -> Error {
    let key = readable_key(|| object.key());
    discard(object);
    Error::Accessor { key, source }
}
