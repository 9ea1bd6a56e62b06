//! Asking the known objects, which are user code, without holding a lock.

use std::sync::Arc;

use kinformer_core::{Error, KnownObjects, Object, ObjectKey, contain};

pub(crate) type Known<T> = Arc<dyn KnownObjects<T>>;

/// An object by its key, with the last state known of it.
pub(crate) type LastKnown<T> = (ObjectKey, Option<Arc<T>>);

/// Whether the object is known.
pub(crate) fn is_known<T: Object>(known: &Known<T>, key: &ObjectKey) -> Result<bool, Error> {
    asked(|| known.get_by_key(key.as_key()).is_some())
}

/// The known objects whose keys are `wanted`. An object may have gone between the two questions.
pub(crate) fn known_objects<T: Object>(
    known: &Known<T>,
    wanted: impl Fn(&ObjectKey) -> bool,
) -> Result<Vec<LastKnown<T>>, Error> {
    asked(|| {
        let keys = known.keys().into_iter().filter(wanted);
        keys.map(|key| {
            let object = known.get_by_key(key.as_key());
            (key, object)
        })
        .collect()
    })
}

fn asked<R>(question: impl FnOnce() -> R) -> Result<R, Error> {
    contain(question).map_err(|source| Error::KnownObjects { source })
}
