//! Transforms: functions applied to objects before they are stored.

use std::fmt;
use std::sync::Arc;

use crate::internal::contain;
use crate::{BoxError, Error, Object, ObjectKey, ObjectName, Parts};

type Function<T> = dyn Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync;

/// A function applied once to every object before it is stored or delivered, for example to drop fields that only cost
/// memory.
///
/// Exactly one layer of a pipeline applies it, exactly once for each object. It is not applied to a deletion whose
/// final state is unknown, because the last known state has been transformed already, nor on a resync. It must not
/// change the key or the [part](crate::Partition) of the object. If it fails or panics, the object is not stored and
/// the error names it; other objects are not affected.
///
/// Follows client-go 0.37 (`TransformFunc`), except that a failure there ends the list or watch.
#[doc(alias("EventModify", "TransformFunc"))]
pub struct Transform<T>(Arc<Function<T>>);

impl<T: Object> Transform<T> {
    /// Creates a transform that returns the object to store: the same one, or another one with the same key.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use kinformer_core::{Keyed, Transform};
    ///
    /// let reject_zero = Transform::new(|pod: Arc<Keyed<u32>>| if **pod == 0 { Err("zero".into()) } else { Ok(pod) });
    /// let pod = |value| Arc::new(Keyed::new("default/web-0".parse().unwrap(), value));
    /// assert_eq!(**reject_zero.apply(pod(7)).unwrap(), 7);
    /// assert!(reject_zero.apply(pod(0)).is_err());
    /// ```
    pub fn new(function: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Creates a transform that modifies the object in place. An object without other references, the usual case right
    /// after decoding, is not cloned.
    pub fn in_place(function: impl Fn(&mut T) -> Result<(), BoxError> + Send + Sync + 'static) -> Self
    where
        T: Clone,
    {
        Self::new(move |mut object| {
            function(Arc::make_mut(&mut object))?;
            Ok(object)
        })
    }

    /// Returns a transform that passes the result of this one to a function.
    #[must_use]
    pub fn and_then(self, next: impl Fn(Arc<T>) -> Result<Arc<T>, BoxError> + Send + Sync + 'static) -> Self {
        Self::new(move |object| next((self.0)(object)?))
    }

    /// Applies the transform.
    ///
    /// # Errors
    /// * [`Error::Transform`], with the object's key: the function failed, panicked or changed the key.
    /// * [`Error::Key`]: the object had no valid key before the transform.
    /// * [`Error::Accessor`]: the object's key accessor panicked.
    pub fn apply(&self, object: Arc<T>) -> Result<Arc<T>, Error> {
        let key = contain(|| ObjectKey::try_from(object.key()));
        let key = key.map_err(|source| Error::Accessor { object: ObjectName::Index(0), source })??;
        let changed = |object: &Arc<T>| (key != object.key()).then(|| object.key().to_string());
        let result = contain(|| (self.0)(object)).unwrap_or_else(Err);
        match result.and_then(|object| Ok((contain(|| changed(&object))?, object))) {
            Ok((None, object)) => Ok(object),
            Ok((Some(other), _)) => {
                let source = format!("changed the key to {other}").into();
                Err(Error::Transform { key, source })
            }
            Err(source) => Err(Error::Transform { key, source }),
        }
    }

    /// Applies the transform to an object of a collection that is divided into these parts.
    ///
    /// # Errors
    /// As [`Self::apply`], and in addition:
    ///
    /// * [`Error::OtherPart`], with the object's part before the transform: the function moved it to another part.
    /// * [`Error::Accessor`]: the partition panicked.
    pub fn apply_in(&self, parts: &Parts<T>, object: Arc<T>) -> Result<Arc<T>, Error> {
        if !parts.is_divided() {
            return self.apply(object);
        }
        let part_of = |object: &Arc<T>| {
            let part = contain(|| parts.of(object));
            part.map_err(|source| Error::Accessor { object: ObjectName::of(|| object.key()), source })
        };
        let part = part_of(&object)?;
        let object = self.apply(object)?;
        match part_of(&object)? == part {
            true => Ok(object),
            false => Err(Error::OtherPart { object: ObjectName::of(|| object.key()), part }),
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
