//! Single writes and transactions.

use std::sync::Arc;

use kinformer_core::{
    BoxError, Error, KeyRef, Object, ObjectKey, Report, ResourceVersion, Tombstone, VersionUpdate, ask,
};

use crate::evaluated::Evaluated;
use crate::indexer::Indexer;
use crate::roots::{Edit, hash_key};
use crate::snapshot::discard;

/// One write. Several of them in one go are a transaction.
#[derive(Debug)]
pub enum Transaction<T> {
    /// The object was added.
    Add(Arc<T>),
    /// The object was changed. To a store this is the same as an addition.
    Update(Arc<T>),
    /// The object is gone.
    Delete(Tombstone<Arc<T>>),
}

impl<T> Clone for Transaction<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Add(object) => Self::Add(object.clone()),
            Self::Update(object) => Self::Update(object.clone()),
            Self::Delete(tombstone) => Self::Delete(tombstone.clone()),
        }
    }
}

/// What a write made of one object: the states as they were and are stored.
#[derive(Debug)]
#[non_exhaustive]
pub struct Change<T> {
    /// Where in the batch or list the object was, from 0; `None` for one that a replace found missing in its
    /// list.
    pub position: Option<usize>,
    /// The state before; `None` if the object was not there.
    pub old: Option<Arc<T>>,
    /// The state since, after the transform; `None` if the object is not there any more.
    pub new: Option<Arc<T>>,
}

impl<T> Change<T> {
    /// Drops the states; a panic of the user's `Drop` ends there.
    fn discard(self) {
        self.old.into_iter().chain(self.new).for_each(discard);
    }
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { position: self.position, old: self.old.clone(), new: self.new.clone() }
    }
}

/// What several writes, or a replace, changed.
#[derive(Debug)]
#[must_use = "some of the objects may have been left out"]
#[non_exhaustive]
pub struct Applied<T> {
    /// Each change, in the order in which it was applied.
    pub changes: Vec<Change<T>>,
    /// What was wrong with single objects.
    pub report: Report,
    /// The [revision](crate::Snapshot::revision) of the state that these changes led to.
    pub revision: u64,
}

/// A write that has asked user code everything and only needs the locks.
enum Prepared<T> {
    Put { hash: u32, object: Arc<T>, version: ResourceVersion, report: Report },
    Remove { hash: u32, tombstone: Tombstone<Arc<T>>, version: ResourceVersion },
}

impl<T: Object> Indexer<T> {
    /// Applies one write and says what it did.
    ///
    /// # Errors
    /// The key is invalid, the transform failed, or there are more than 2^32 - 2 objects; nothing has
    /// changed then.
    pub fn apply(&self, transaction: Transaction<T>) -> Result<(Change<T>, Report), Error> {
        let mut prepared = self.prepare(transaction)?;
        let mut values = Evaluated::for_one();
        let mut functions = self.functions();
        let mut asked = 0;
        loop {
            prepared.ask(&functions.all, asked, 0, &mut values);
            asked = functions.all.len();

            let mut writer = self.writer.lock();
            let mut roots = self.roots.write();
            if roots.functions.all.len() != asked {
                // An index was added meanwhile. Its function is asked without the locks as well.
                functions = roots.functions.clone();
                continue;
            }
            let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
            let old = prepared.apply(&mut edit, &values, 0);
            if old.is_ok() {
                edit.roots.version.advance(prepared.version());
            }
            edit.roots.revision += 1;
            let sparse = edit.is_sparse();
            let version = roots.version.clone();
            drop(roots);
            self.release(writer, sparse);
            self.waiters.published(&version);
            values.recycle();
            return prepared.finish(0, old);
        }
    }

    /// Applies several writes, in their order, under one publication: a reader sees none of them or all.
    ///
    /// Those that are invalid are reported by their position, and all others are applied; the changes are
    /// those of the valid ones.
    pub fn apply_all(&self, transactions: impl IntoIterator<Item = Transaction<T>>) -> Applied<T> {
        self.apply_batch(transactions, None)
    }

    /// As [`Self::apply_all`], and moves the version as the source of these writes says, and not to the versions of the
    /// objects: for one that knows better what is complete, and what was left out.
    pub fn apply_all_at(
        &self,
        transactions: impl IntoIterator<Item = Transaction<T>>,
        version: &VersionUpdate,
    ) -> Applied<T> {
        self.apply_batch(transactions, Some(version))
    }

    fn apply_batch(
        &self,
        transactions: impl IntoIterator<Item = Transaction<T>>,
        at: Option<&VersionUpdate>,
    ) -> Applied<T> {
        let mut prepared: Vec<_> = transactions.into_iter().map(|t| self.prepare(t)).collect();
        let mut functions = self.functions();
        loop {
            // Indexes are hardly ever added during a transaction; then all is asked again.
            let mut values = Evaluated::default();
            for (position, entry) in prepared.iter_mut().enumerate() {
                match entry {
                    Ok(entry) => {
                        entry.forget_report();
                        entry.ask(&functions.all, 0, position, &mut values);
                    }
                    Err(_) => values.skip(functions.all.len()),
                }
            }
            let mut writer = self.writer.lock();
            let mut roots = self.roots.write();
            if roots.functions.all.len() != functions.all.len() {
                functions = roots.functions.clone();
                continue;
            }
            let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
            let olds: Vec<_> = prepared
                .iter()
                .enumerate()
                .map(|(position, entry)| {
                    let Ok(entry) = entry else { return Ok(None) };
                    let old = entry.apply(&mut edit, &values, position * functions.all.len())?;
                    if at.is_none() {
                        edit.roots.version.advance(entry.version());
                    }
                    Ok(old)
                })
                .collect();
            if let Some(at) = at {
                at.apply_to(&mut edit.roots.version);
            }
            edit.roots.revision += 1;
            let sparse = edit.is_sparse();
            let (version, revision) = (roots.version.clone(), roots.revision);
            drop(roots);
            self.release(writer, sparse);
            self.waiters.published(&version);
            let mut applied =
                Applied { changes: Vec::with_capacity(prepared.len()), report: Report::default(), revision };
            for (position, (entry, old)) in prepared.into_iter().zip(olds).enumerate() {
                match entry.and_then(|entry| entry.finish(position, old)) {
                    Ok((change, report)) => {
                        applied.changes.push(change);
                        applied.report.extend(report);
                    }
                    Err(error) => applied.report.push(position, error),
                }
            }
            return applied;
        }
    }

    /// Applies several writes under one publication; reports the invalid ones by position.
    ///
    /// Follows client-go 1.37 (`ThreadSafeStoreWithTransaction`).
    pub fn transaction(&self, transactions: impl IntoIterator<Item = Transaction<T>>) -> Report {
        let Applied { changes, report, .. } = self.apply_all(transactions);
        changes.into_iter().for_each(Change::discard);
        report
    }

    /// Adds or replaces an object.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<Report, crate::Error> {
        Ok(self.write(Transaction::Add(object.into()))?)
    }

    /// Adds or replaces an object: to a store the same as [`Self::add`].
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<Report, crate::Error> {
        Ok(self.write(Transaction::Update(object.into()))?)
    }

    /// Removes an object; removing what is not there is no error. With its final state known, the store's
    /// version moves to that state's.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn delete(&self, tombstone: impl Into<Tombstone<Arc<T>>>) -> Result<Report, crate::Error> {
        Ok(self.write(Transaction::Delete(tombstone.into()))?)
    }

    /// For callers who do not need to know what changed.
    pub(crate) fn write(&self, transaction: Transaction<T>) -> Result<Report, Error> {
        let (change, report) = self.apply(transaction)?;
        change.discard();
        Ok(report)
    }

    /// Removes the object with this key and returns it. The store's version stays as it is.
    pub fn delete_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = key.into();
        let hash = hash_key(&self.hasher, key);
        let mut writer = self.writer.lock();
        let mut roots = self.roots.write();
        let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
        edit.roots.revision += 1;
        let old = edit.roots.find(hash, key).and_then(|slot| edit.remove(hash, slot));
        let sparse = edit.is_sparse();
        drop(roots);
        self.release(writer, sparse);
        old
    }

    fn prepare(&self, transaction: Transaction<T>) -> Result<Prepared<T>, Error> {
        match transaction {
            Transaction::Add(object) | Transaction::Update(object) => {
                let object = self.transformed(object)?;
                let asked = ask(|| (hash_key(&self.hasher, object.key()), object.resource_version()));
                match asked {
                    Ok((hash, version)) => {
                        Ok(Prepared::Put { hash, object, version, report: Report::default() })
                    }
                    Err(source) => Err(panicked(object, source)),
                }
            }
            Transaction::Delete(tombstone) => {
                let asked = ask(|| {
                    tombstone.key().check()?;
                    let version = match &tombstone {
                        Tombstone::FinalState(object) => object.resource_version(),
                        Tombstone::FinalStateUnknown { .. } => ResourceVersion::UNSET,
                    };
                    Ok((hash_key(&self.hasher, tombstone.key()), version))
                });
                let error = match asked {
                    Ok(Ok((hash, version))) => return Ok(Prepared::Remove { hash, tombstone, version }),
                    Ok(Err(error)) => Error::Key(error),
                    Err(source) => Error::Accessor { key: readable_key(|| tombstone.key()), source },
                };
                tombstone.into_object().into_iter().for_each(discard);
                Err(error)
            }
        }
    }

    /// The object as it is to be stored: its key is valid, and the transform, if there is one, was applied.
    pub(crate) fn transformed(&self, object: Arc<T>) -> Result<Arc<T>, Error> {
        match &self.transform {
            Some(transform) => transform.apply(object),
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
    fn ask(
        &mut self,
        functions: &[(Arc<str>, crate::IndexFunction<T>)],
        from: usize,
        position: usize,
        values: &mut Evaluated,
    ) {
        let functions = functions.get(from..).unwrap_or_default();
        match self {
            Self::Put { object, report, .. } => values.ask(functions, &**object, |index, source| {
                report.push(position, index_error(&**object, index, source));
            }),
            Self::Remove { .. } => values.skip(functions.len()),
        }
    }

    fn forget_report(&mut self) {
        if let Self::Put { report, .. } = self {
            *report = Report::default();
        }
    }

    fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Put { object, .. } => readable_key(|| object.key()),
            Self::Remove { tombstone, .. } => readable_key(|| tombstone.key()),
        }
    }

    fn version(&self) -> &ResourceVersion {
        match self {
            Self::Put { version, .. } | Self::Remove { version, .. } => version,
        }
    }

    /// Under the locks: drops nothing. Returns what was stored before. What it asks objects it asks before it changes
    /// anything: after a panic of one, nothing has changed.
    fn apply(
        &self,
        edit: &mut Edit<'_, T>,
        values: &Evaluated,
        first: usize,
    ) -> Result<Option<Arc<T>>, Error> {
        let slot = match self {
            Self::Put { hash, object, .. } => ask(|| edit.roots.find(*hash, object.key())),
            Self::Remove { hash, tombstone, .. } => ask(|| edit.roots.find(*hash, tombstone.key())),
        };
        let slot = slot.map_err(|source| Error::Accessor { key: self.key(), source })?;
        match self {
            Self::Put { hash, object, .. } => edit.upsert(slot, *hash, object, values, first),
            Self::Remove { hash, .. } => Ok(slot.and_then(|slot| edit.remove(*hash, slot))),
        }
    }

    fn finish(
        self,
        position: usize,
        old: Result<Option<Arc<T>>, Error>,
    ) -> Result<(Change<T>, Report), Error> {
        let (new, report) = match self {
            Self::Put { object, report, .. } => (Some(object), report),
            Self::Remove { tombstone, .. } => {
                tombstone.into_object().into_iter().for_each(discard);
                (None, Report::default())
            }
        };
        match old {
            Ok(old) => Ok((Change { position: Some(position), old, new }, report)),
            Err(error) => {
                new.into_iter().for_each(discard);
                Err(error)
            }
        }
    }
}

pub(crate) fn index_error<T: Object>(
    object: &T,
    index: &Arc<str>,
    source: kinformer_core::BoxError,
) -> Error {
    match ask(|| ObjectKey::try_from(object.key())) {
        Ok(Ok(key)) => Error::IndexFunction { key, index: index.clone(), source },
        Ok(Err(error)) => error.into(),
        Err(source) => Error::Accessor { key: None, source },
    }
}

/// An object whose accessors panic, which is left out.
pub(crate) fn panicked<T: Object>(object: Arc<T>, source: BoxError) -> Error {
    let key = readable_key(|| object.key());
    discard(object);
    Error::Accessor { key, source }
}

/// The key of an object of which it is known that some accessor panics.
fn readable_key<'a>(key: impl Fn() -> KeyRef<'a>) -> Option<ObjectKey> {
    ask(|| ObjectKey::try_from(key()).ok()).ok().flatten()
}
