//! Checks of incoming objects and lists, before any lock is taken.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use kinformer_core::internal::contain;
use kinformer_core::{
    Error, KeyError, KeyRef, Object, ObjectKey, ObjectName, PartialErrors, Parts, Replacement,
    ResourceVersion, Tombstone, Transform, VersionUpdate,
};

use crate::key_map::KeyMap;

/// Returns the key of an object.
pub(crate) fn key<'a>(key: impl Fn() -> KeyRef<'a>) -> Result<ObjectKey, Error> {
    let key = contain(|| ObjectKey::try_from(key()));
    Ok(key.map_err(|source| Error::Accessor { object: ObjectName::Index(0), source })??)
}

/// Calls accessors of an object that has a key. If they panic, the object is left out.
pub(crate) fn call_accessors<'a, R>(
    key: impl Fn() -> KeyRef<'a>,
    accessors: impl Fn() -> R,
) -> Result<R, Error> {
    contain(accessors).map_err(|source| Error::Accessor { object: ObjectName::of(key), source })
}

/// Checks and transforms one object of a list. Returns it with the hash of its key.
fn object<T: Object>(
    (transform, parts): (Option<&Transform<T>>, &Parts<T>),
    seed: &RandomState,
    object: Arc<T>,
) -> Result<(u64, Arc<T>), Error> {
    let hash = || -> Result<u64, KeyError> {
        let key = object.key();
        key.check()?;
        // Later readers of the version expect that it can be read.
        drop(object.resource_version());
        Ok(seed.hash_one(key))
    };
    let hash = call_accessors(|| object.key(), hash)??;
    // A transform does not change the key.
    let object = match transform {
        Some(transform) => transform.apply_in(parts, object)?,
        None => object,
    };
    Ok((hash, object))
}

/// A checked deletion.
pub(crate) struct Deletion<T> {
    /// The version of the deletion.
    pub(crate) version: VersionUpdate,
    pub(crate) tombstone: Tombstone<Arc<T>>,
    /// The reason why the state was left out.
    pub(crate) problem: Option<Error>,
}

/// Checks a deletion. An observed final state comes from the source and passes the transform like any other state. A
/// deletion is never left out: if the transform fails, only the state is left out, the error is reported, and the
/// tombstone names the part.
pub(crate) fn deletion<T: Object>(
    (transform, parts): (Option<&Transform<T>>, &Parts<T>),
    tombstone: Tombstone<Arc<T>>,
) -> Result<Deletion<T>, Error> {
    let version = call_accessors(
        || tombstone.key(),
        || {
            tombstone.key().check().map(|()| match &tombstone {
                Tombstone::FinalState(object) => object.resource_version(),
                _ => ResourceVersion::UNSET,
            })
        },
    )??;
    let mut problem = None;
    let tombstone = match (transform, tombstone) {
        (Some(transform), Tombstone::FinalState(object)) => {
            let part = contain(|| parts.of(&object)).ok().flatten();
            match transform.apply_in(parts, object) {
                Ok(object) => Tombstone::FinalState(object),
                Err(error) => {
                    let key = match &error {
                        Error::Transform { key, .. }
                        | Error::OtherPart { object: ObjectName::Key(key), .. } => key.clone(),
                        _ => return Err(error),
                    };
                    problem = Some(error);
                    Tombstone::final_state_unknown(key, None).from_part(part)
                }
            }
        }
        (_, tombstone) => tombstone,
    };
    Ok(Deletion { version: VersionUpdate::Advance(version), tombstone, problem })
}

/// A checked and transformed list without repeated keys.
pub(crate) struct Incoming<T> {
    /// By index in the list; `None` if the object is left out.
    pub(crate) objects: Vec<Option<Arc<T>>>,
    /// Keys of objects that exist but are not in the list.
    pub(crate) undelivered: Vec<ObjectKey>,
    /// Number of further, unidentified objects: their keys are unknown.
    pub(crate) unidentified: usize,
    pub(crate) resource_version: ResourceVersion,
    pub(crate) errors: PartialErrors,
}

impl<T: Object> Incoming<T> {
    pub(crate) fn new(transformed: (Option<&Transform<T>>, &Parts<T>), replacement: Replacement<T>) -> Self {
        let Replacement { objects: list, resource_version, mut undelivered, mut unidentified, .. } =
            replacement;
        let mut errors = PartialErrors::default();
        let seed = RandomState::default();
        let mut hashes = Vec::with_capacity(list.len());
        let mut objects: Vec<Option<Arc<T>>> = Vec::with_capacity(list.len());
        for (index, incoming) in list.into_iter().enumerate() {
            objects.push(match object(transformed, &seed, incoming) {
                Ok((hash, object)) => {
                    hashes.push(hash);
                    Some(object)
                }
                Err(error) => {
                    hashes.push(0);
                    match &error {
                        // The transform moved the object to another part.
                        Error::OtherPart { object: ObjectName::Key(key), part: Some(_) }
                        | Error::Transform { key, .. }
                        | Error::Accessor { object: ObjectName::Key(key), .. } => {
                            undelivered.push(key.clone())
                        }
                        Error::Accessor { .. } => unidentified += 1,
                        _ => {}
                    }
                    errors.push(error.with_index(index));
                    None
                }
            });
        }
        // Accessors that panic here are reported when the keys are read again.
        for (earlier, key) in contain(|| duplicates(&objects, &hashes)).unwrap_or_default() {
            errors.push(Error::Duplicate { key });
            if let Some(place) = objects.get_mut(earlier) {
                *place = None;
            }
        }
        Self { objects, undelivered, unidentified, resource_version, errors }
    }

    /// Reads the keys of all objects, for a queue that tracks keys.
    pub(crate) fn keyed(mut self) -> Keyed<T> {
        let mut all = KeyMap::with_capacity_and_hasher(
            self.objects.len() + self.undelivered.len(),
            RandomState::default(),
        );
        let mut objects = Vec::with_capacity(self.objects.len());
        for (index, object) in self.objects.into_iter().enumerate() {
            let Some(object) = object else { continue };
            match key(|| object.key()) {
                Ok(key) => {
                    all.insert(key.clone(), ());
                    objects.push((key, object));
                }
                // The accessor succeeded in an earlier check.
                Err(error) => {
                    self.unidentified += 1;
                    self.errors.push(error.with_index(index));
                }
            }
        }
        all.extend(self.undelivered.into_iter().map(|key| (key, ())));
        Keyed { objects, all, is_complete: self.unidentified == 0, errors: self.errors }
    }
}

/// A list with the keys of its objects.
pub(crate) struct Keyed<T> {
    pub(crate) objects: Vec<(ObjectKey, Arc<T>)>,
    /// The keys of all existing objects, delivered or not.
    pub(crate) all: KeyMap<()>,
    /// Whether every missing object is deleted.
    pub(crate) is_complete: bool,
    pub(crate) errors: PartialErrors,
}

/// Returns the index and key of each object whose key is repeated later in the list. A key is read only if another
/// one has its hash.
fn duplicates<T: Object>(objects: &[Option<Arc<T>>], hashes: &[u64]) -> Vec<(usize, ObjectKey)> {
    let hash = |index: &usize| hashes.get(*index).copied().unwrap_or_default();
    let key = |index: usize| objects.get(index).and_then(Option::as_ref).map(|object| object.key());
    let mut newest: HashTable<usize> = HashTable::with_capacity(objects.len());
    let mut earlier = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let Some(object) = object else { continue };
        let mine = hash(&index);
        let same = |other: &usize| hash(other) == mine && key(*other) == Some(object.key());
        match newest.entry(mine, same, hash) {
            hashbrown::hash_table::Entry::Occupied(mut entry) => {
                let other = std::mem::replace(entry.get_mut(), index);
                earlier.extend(ObjectKey::try_from(object.key()).ok().map(|key| (other, key)));
            }
            hashbrown::hash_table::Entry::Vacant(entry) => {
                entry.insert(index);
            }
        }
    }
    earlier
}
