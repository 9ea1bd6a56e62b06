//! Asking the known objects, which are user code, without holding a lock.

use std::sync::Arc;

use kinformer_core::internal::ask;
use kinformer_core::{Delta, Error, KnownObjects, Object, ObjectKey, PartId, Parts};

use crate::WriteError;
use crate::key_map::KeyMap;

pub(crate) type Known<T> = Arc<dyn KnownObjects<T>>;

/// An object by its key, with the last state known of it.
pub(crate) type LastKnown<T> = (ObjectKey, Option<Arc<T>>);

/// Whether the object is known.
pub(crate) fn is_known<T: Object>(known: &Known<T>, key: &ObjectKey) -> Result<bool, Error> {
    asked(|| known.get_by_key(key.as_key()).is_some())
}

/// The known objects of a part whose keys are not in its list. An object may have gone between the two questions.
pub(crate) fn missing<T: Object>(
    known: &Known<T>,
    listed: &KeyMap<()>,
    (parts, part): (&Parts<T>, PartId),
) -> Result<Vec<LastKnown<T>>, Error> {
    asked(|| {
        let keys = known.keys().into_iter().filter(|key| !listed.contains_key(key));
        keys.map(|key| {
            let object = known.get_by_key(key.as_key());
            (key, object)
        })
        .filter(|(key, object)| in_part(parts, part, key, object.as_deref()))
        .collect()
    })
}

/// Whether an object, whose state may not be known, is of a part.
pub(crate) fn in_part<T>(parts: &Parts<T>, part: PartId, key: &ObjectKey, object: Option<&T>) -> bool {
    match object {
        Some(object) => parts.contains(part, object),
        None => parts.of_key(key.as_key()) == Some(part),
    }
}

/// The part that a delta about one object is about, or from which it comes; `None` if it does not follow from it, or the
/// partition panics.
pub(crate) fn concerned<T: Object>(parts: &Parts<T>, delta: &Delta<T>) -> Option<PartId> {
    ask(|| match delta {
        Delta::Deleted(tombstone) => parts.of_deletion(tombstone),
        delta => parts.of(delta.object()?),
    })
    .ok()
    .flatten()
}

/// All known objects, in one question. What has no valid key any more is nobody's to resync.
pub(crate) fn all<T: Object>(known: &Known<T>) -> Result<Vec<(ObjectKey, Arc<T>)>, Error> {
    asked(|| {
        let mut all = Vec::new();
        known.for_each(&mut |object| {
            let key = ask(|| ObjectKey::try_from(object.key()));
            all.extend(key.ok().and_then(Result::ok).map(|key| (key, object.clone())));
        });
        all
    })
}

fn asked<R>(question: impl Fn() -> R) -> Result<R, Error> {
    ask(question).map_err(|source| Error::other(WriteError::KnownObjects { source }))
}
