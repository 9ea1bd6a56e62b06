//! Changing objects on their way in.

use std::fmt;
use std::sync::Arc;

use crate::internal::{ask, contain, readable_key};
use crate::{BoxError, Error, Object, ObjectKey, Parts};

type Function<T> = dyn Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync;

/// A function that every object passes once before anyone sees it, for example to drop fields that only
/// cost memory.
///
/// Exactly one layer of a pipeline applies it, to each object exactly once; never to a deletion whose final
/// state is unknown (that object has passed it already) and never on a resync. It must change neither the key nor the
/// [part](crate::Partition) of the object.
/// When it fails or panics, the object is not stored and the error names it; others are not affected.
///
/// Follows client-go 1.37 (`TransformFunc`), except that a failure there ends the list or watch.
pub struct Transform<T>(Arc<Function<T>>);

impl<T: Object> Transform<T> {
    /// A transform that gives back the object to store: the same, or another one under the same key.
    pub fn new(function: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// A transform that changes the object in place. An object that nobody else holds, as is the rule for
    /// one that has just been decoded, is not cloned.
    pub fn in_place(function: impl Fn(&mut T) -> Result<(), BoxError> + Send + Sync + 'static) -> Self
    where
        T: Clone,
    {
        Self::new(move |mut object| {
            function(Arc::make_mut(&mut object))?;
            Ok(object)
        })
    }

    /// Applies the transform.
    ///
    /// # Errors
    /// [`Error::Transform`] with the object's key when the function failed, panicked or changed the key;
    /// [`Error::Key`] when the object has no valid key to begin with; [`Error::Accessor`] when it panics when it is asked
    /// for it.
    pub fn apply(&self, object: Arc<T>) -> Result<Arc<T>, Error> {
        let key = ask(|| ObjectKey::try_from(object.key()));
        let key = key.map_err(|source| Error::Accessor { key: None, source })??;
        let changed = |object: &Arc<T>| (key != object.key()).then(|| object.key().to_string());
        let result = contain(|| (self.0)(object)).unwrap_or_else(Err);
        match result.and_then(|object| Ok((ask(|| changed(&object))?, object))) {
            Ok((None, object)) => Ok(object),
            Ok((Some(other), _)) => {
                let source = format!("it changed the key to {other}").into();
                Err(Error::Transform { key, source })
            }
            Err(source) => Err(Error::Transform { key, source }),
        }
    }

    /// As [`Self::apply`], to an object of a collection that is divided into these parts.
    ///
    /// # Errors
    /// As [`Self::apply`]; [`Error::OtherPart`], with the part that the object had, when the function gave it another one;
    /// [`Error::Accessor`] when the partition panics.
    pub fn apply_in(&self, parts: &Parts<T>, object: Arc<T>) -> Result<Arc<T>, Error> {
        if !parts.is_divided() {
            return self.apply(object);
        }
        let part_of = |object: &Arc<T>| {
            let part = ask(|| parts.of(object));
            part.map_err(|source| Error::Accessor { key: readable_key(|| object.key()), source })
        };
        let part = part_of(&object)?;
        let object = self.apply(object)?;
        match part_of(&object)? == part {
            true => Ok(object),
            false => Err(Error::OtherPart { key: readable_key(|| object.key()), part }),
        }
    }
}

impl<T> Clone for Transform<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Transform<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transform")
    }
}
