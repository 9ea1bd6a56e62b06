//! Applying deltas.

use std::cmp::Ordering;
use std::sync::Arc;
use std::{iter, mem};

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

/// One delta of a batch. User code has been asked everything that takes no lock.
struct Entry<T> {
    position: usize,
    /// About one object, or a bookmark.
    delta: Delta<T>,
    hash: u32,
    reached: Reached,
    /// The index functions that failed.
    report: Report,
    outcome: Outcome<T>,
}

/// What became of a delta.
enum Outcome<T> {
    /// It is not applied yet.
    Pending,
    /// It was applied; with what was stored before.
    Applied(Option<Arc<T>>),
    /// A newer state of the object is stored.
    Late,
    /// It is invalid.
    Refused(Box<Error>),
}

/// The version that a part reaches with a delta; no part if the object is in none.
type Reached = (Option<PartId>, ResourceVersion);

/// Deltas about single objects that are published together.
type Batch<T> = SmallVec<[Entry<T>; 1]>;

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
        let Written { report, revision, .. } = self.write(deltas.into_iter(), at, Some(&mut changes));
        Applied { changes, report, revision }
    }

    /// Applies deltas for callers who do not want to know what changed.
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
                        self.write_batch(&mut batch, early, changes.as_deref_mut(), &mut written);
                        batch.clear();
                    }
                    list_at = Some((start, *list));
                }
                delta => match self.prepare(start, delta) {
                    Ok(Some(entry)) => batch.push(entry),
                    Ok(None) => {}
                    Err(error) => written.report.push(start, error),
                },
            }
        }
        match list_at {
            Some((start, list)) => self.replace_at(list, start, at, changes, &mut written),
            None => self.write_batch(&mut batch, at, changes, &mut written),
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
        batch: &mut [Entry<T>],
        at: Option<&VersionUpdates>,
        mut changes: Changes<'_, T>,
        written: &mut Written,
    ) {
        if !batch.iter().any(Entry::changes_objects) {
            return self.move_to_bookmarks(batch, at, written);
        }
        let mut functions = self.functions();
        loop {
            // Indexes are hardly ever added meanwhile; then all is asked again.
            let mut values = if batch.len() == 1 { Evaluated::for_one() } else { Evaluated::default() };
            batch.iter_mut().for_each(|entry| entry.ask(&functions.all, &mut values));
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
                    && !matches!(entry.outcome, Outcome::Refused(_))
                    && let (Some(part), version) = &entry.reached
                {
                    edit.roots.versions.advance(*part, version);
                }
            }
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
            for entry in batch {
                let change = entry.finish(revision, &mut written.report);
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

    /// A batch that changes no object.
    #[cold]
    fn move_to_bookmarks(&self, batch: &mut [Entry<T>], at: Option<&VersionUpdates>, written: &mut Written) {
        let mut bookmarks = VersionUpdates::NONE;
        for Entry { reached: (part, version), .. } in batch {
            if let Some(part) = part {
                bookmarks.append(*part, VersionUpdate::Advance(version.clone()));
            }
        }
        written.revision = self.move_versions(at.unwrap_or(&bookmarks));
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
        Ok(self.write(iter::once(delta), None, None).report.of_one()?)
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
    fn prepare(&self, position: usize, delta: Delta<T>) -> Result<Option<Entry<T>>, Error> {
        let (delta, (hash, reached)) = match delta {
            Delta::Added(object) => self.prepare_put(object, Delta::Added)?,
            Delta::Updated(object) => self.prepare_put(object, Delta::Updated)?,
            Delta::Replaced(object) => self.prepare_put(object, Delta::Replaced)?,
            Delta::Deleted(tombstone) => self.prepare_remove(tombstone)?,
            Delta::Bookmark { part, ref resource_version } => {
                let reached = (Some(part), resource_version.clone());
                (delta, (0, reached))
            }
            // The object of a resync is stored already.
            _ => return Ok(None),
        };
        let (report, outcome) = (Report::default(), Outcome::Pending);
        Ok(Some(Entry { position, delta, hash, reached, report, outcome }))
    }

    #[inline]
    fn prepare_put(
        &self,
        object: Arc<T>,
        delta: impl FnOnce(Arc<T>) -> Delta<T>,
    ) -> Result<(Delta<T>, (u32, Reached)), Error> {
        let (object, asked) = self.asked_to_put(object)?;
        Ok((delta(object), asked))
    }

    fn asked_to_put(&self, object: Arc<T>) -> Result<(Arc<T>, (u32, Reached)), Error> {
        let object = match &self.transform {
            Some(transform) => transform.apply_in(&self.shared.parts, object)?,
            None => object,
        };
        let asked = ask(|| {
            let key = object.key();
            key.check()?;
            Ok((hash_key(&self.hasher, key), self.reached(&object)))
        });
        match asked {
            Ok(Ok((_, (None, _)))) => Err(in_no_part(object)),
            Ok(Ok(asked)) => Ok((object, asked)),
            Ok(Err(error)) => {
                discard(object);
                Err(Error::Key(error))
            }
            Err(source) => Err(panicked(object, source)),
        }
    }

    fn prepare_remove(&self, tombstone: Tombstone<Arc<T>>) -> Result<(Delta<T>, (u32, Reached)), Error> {
        let asked = ask(|| {
            tombstone.key().check()?;
            let reached = match &tombstone {
                Tombstone::FinalState(object) => self.reached(object),
                _ => (None, ResourceVersion::UNSET),
            };
            Ok((hash_key(&self.hasher, tombstone.key()), reached))
        });
        let error = match asked {
            Ok(Ok(asked)) => return Ok((Delta::Deleted(tombstone), asked)),
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

impl<T: Object> Entry<T> {
    /// Asks the index functions. What was asked before is forgotten.
    fn ask(&mut self, functions: &[(Arc<str>, crate::IndexFunction<T>)], values: &mut Evaluated) {
        let Self { position, delta, report, .. } = self;
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                *report = Report::default();
                values.ask(functions, object, |index, source| {
                    report.push_applied(*position, index_error(&**object, index, source));
                });
            }
            _ => values.skip(functions.len()),
        }
    }

    /// Under the locks: drops nothing. What it asks objects it asks before it changes anything: after a panic of one,
    /// nothing has changed.
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
                let found = ask(|| {
                    let slot = edit.roots.find(hash, object.key());
                    let stored = slot.and_then(|slot| edit.roots.at(slot));
                    (slot, stored.is_some_and(|stored| is_late(parts, object, stored)))
                });
                match found {
                    Ok((_, true)) => Outcome::Late,
                    Ok((slot, false)) => match edit.upsert(slot, hash, object, values, first) {
                        Ok(old) => Outcome::Applied(old),
                        Err(error) => Outcome::Refused(Box::new(error)),
                    },
                    Err(source) => self.panicked(source),
                }
            }
            Delta::Deleted(tombstone) => {
                let found = ask(|| {
                    let slot = edit.roots.find(hash, tombstone.key())?;
                    let stored = edit.roots.at(slot)?;
                    removes(parts, tombstone, stored).then_some(slot)
                });
                match found {
                    Ok(slot) => Outcome::Applied(slot.and_then(|slot| edit.remove(hash, slot))),
                    Err(source) => self.panicked(source),
                }
            }
            _ => Outcome::Applied(None),
        }
    }

    #[cold]
    fn panicked(&self, source: BoxError) -> Outcome<T> {
        let key = ask(|| self.delta.key().and_then(|key| key.try_into().ok())).ok().flatten();
        Outcome::Refused(Box::new(Error::Accessor { key, source }))
    }
}

impl<T> Entry<T> {
    fn changes_objects(&self) -> bool {
        !matches!(self.delta, Delta::Bookmark { .. })
    }

    /// Takes out what the delta did to an object, and reports what was wrong.
    #[inline]
    fn finish(&mut self, revision: u64, reports: &mut Report) -> Option<Change<T>> {
        let delta = mem::replace(&mut self.delta, Delta::SyncAll);
        match mem::replace(&mut self.outcome, Outcome::Pending) {
            Outcome::Applied(old) if !matches!(delta, Delta::Bookmark { .. }) => {
                if !self.report.is_clean() {
                    reports.extend(mem::take(&mut self.report));
                }
                return Some(Change::new(delta, old).at_revision(revision));
            }
            Outcome::Refused(error) => reports.push(self.position, *error),
            _ => {}
        }
        discard_delta(delta);
        None
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
            None => {
                matches!(tombstone, Tombstone::FinalStateUnknown(missed) if missed.last_known.is_none() && missed.part.is_none())
            }
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
