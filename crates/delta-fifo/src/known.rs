//! Queries of the known objects, which are user code, without a lock held.

use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Delta, Error, KnownObjects, Object, ObjectKey, PartId, Parts};

use crate::WriteError;
use crate::key_map::KeyMap;

pub(crate) type Known<T> = Arc<dyn KnownObjects<T>>;

/// The key of an object, with its last known state.
pub(crate) type LastKnown<T> = (ObjectKey, Option<Arc<T>>);

/// Returns whether the object is known.
pub(crate) fn is_known<T: Object>(known: &Known<T>, key: &ObjectKey) -> Result<bool, Error> {
    contained(|| known.get_by_key(key.as_key()).is_some())
}

/// Returns the known objects of a part that are missing from its list. An object may be deleted between reading the
/// keys and reading its state.
pub(crate) fn missing<T: Object>(
    known: &Known<T>,
    listed: &KeyMap<()>,
    (parts, part): (&Parts<T>, PartId),
) -> Result<Vec<LastKnown<T>>, Error> {
    contained(|| {
        let keys = known.keys().into_iter().filter(|key| !listed.contains_key(key));
        keys.map(|key| {
            let object = known.get_by_key(key.as_key());
            (key, object)
        })
        .filter(|(key, object)| in_part(parts, part, key, object.as_deref()))
        .collect()
    })
}

/// Returns whether an object, whose state may be unknown, belongs to a part.
pub(crate) fn in_part<T>(parts: &Parts<T>, part: PartId, key: &ObjectKey, object: Option<&T>) -> bool {
    match object {
        Some(object) => parts.contains(part, object),
        None => parts.of_key(key.as_key()) == Some(part),
    }
}

/// Returns the part that a delta of one object concerns, or that a deletion comes from; `None` if it is undetermined or
/// the partition panics.
pub(crate) fn part_of<T: Object>(parts: &Parts<T>, delta: &Delta<T>) -> Option<PartId> {
    contain(|| match delta {
        Delta::Deleted(tombstone) => parts.of_deletion(tombstone),
        delta => parts.of(delta.object()?),
    })
    .ok()
    .flatten()
}

/// Returns all known objects from one query. Objects without a valid key are skipped.
pub(crate) fn all<T: Object>(known: &Known<T>) -> Result<Vec<(ObjectKey, Arc<T>)>, Error> {
    contained(|| {
        let mut all = Vec::new();
        known.for_each(&mut |object| {
            let key = contain(|| ObjectKey::try_from(object.key()));
            all.extend(key.ok().and_then(Result::ok).map(|key| (key, object.clone())));
        });
        all
    })
}

fn contained<R>(query: impl Fn() -> R) -> Result<R, Error> {
    contain(query).map_err(|source| Error::other(WriteError::KnownObjects { source }))
}
