//! Where the layers meet.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Error, KeyRef, Object, ObjectKey, Replacement, Report, ResourceVersion, Tombstone};

/// What [`Sink::ready`] gives.
pub type ReadyFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What a reflector writes into: a queue, or a store directly.
///
/// Every operation is applied at once and never waits. `Err` means that nothing has changed; `Ok` carries a
/// [`Report`] of single objects that were left out or need attention, while all others were applied.
///
/// Follows client-go 1.37 (`ReflectorStore`).
pub trait Sink<T: Object>: Send + Sync {
    /// The object was added.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed.
    fn add(&self, object: Arc<T>) -> Result<Report, Error>;

    /// The object was changed.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed.
    fn update(&self, object: Arc<T>) -> Result<Report, Error>;

    /// The object is gone. Deleting what is not there is no error.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed.
    fn delete(&self, tombstone: Tombstone<Arc<T>>) -> Result<Report, Error>;

    /// From now on there is exactly what this list holds, at its version. Of a list that is not
    /// [complete](Replacement::is_complete) the objects are applied and nothing is deleted.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed. Single objects that cannot be taken are in the report instead, and
    /// whatever was known of them stays.
    fn replace(&self, replacement: Replacement<T>) -> Result<Report, Error>;

    /// Everything known is to be looked at again. Nothing to do for a sink that keeps no backlog.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed.
    fn resync(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The source has reached this version without a change.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed.
    fn bookmark(&self, version: ResourceVersion) -> Result<(), Error>;

    /// Whether the sink wants more now. A producer that respects this never sees [`Error::Full`], as long as
    /// it is the only one.
    fn is_ready(&self) -> bool {
        true
    }

    /// Waits until [`Self::is_ready`], or until the sink is closed. Cancel-safe: dropping it loses nothing.
    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(std::future::ready(()))
    }
}

/// What a queue asks a store: what is known already.
///
/// Follows client-go 1.37 (`KeyListerGetter`).
pub trait KnownObjects<T: Object>: Send + Sync {
    /// The keys of all known objects, each once.
    fn keys(&self) -> Vec<ObjectKey>;

    /// The known state of one object.
    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>>;

    /// Shows every known object to `visit`, each once.
    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        for key in self.keys() {
            if let Some(object) = self.get_by_key(key.as_key()) {
                visit(&object);
            }
        }
    }
}

impl<T: Object, S: Sink<T> + ?Sized> Sink<T> for Arc<S> {
    fn add(&self, object: Arc<T>) -> Result<Report, Error> {
        (**self).add(object)
    }

    fn update(&self, object: Arc<T>) -> Result<Report, Error> {
        (**self).update(object)
    }

    fn delete(&self, tombstone: Tombstone<Arc<T>>) -> Result<Report, Error> {
        (**self).delete(tombstone)
    }

    fn replace(&self, replacement: Replacement<T>) -> Result<Report, Error> {
        (**self).replace(replacement)
    }

    fn resync(&self) -> Result<(), Error> {
        (**self).resync()
    }

    fn bookmark(&self, version: ResourceVersion) -> Result<(), Error> {
        (**self).bookmark(version)
    }

    fn is_ready(&self) -> bool {
        (**self).is_ready()
    }

    fn ready(&self) -> ReadyFuture<'_> {
        (**self).ready()
    }
}

impl<T: Object, K: KnownObjects<T> + ?Sized> KnownObjects<T> for Arc<K> {
    fn keys(&self) -> Vec<ObjectKey> {
        (**self).keys()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        (**self).get_by_key(key)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        (**self).for_each(visit);
    }
}
