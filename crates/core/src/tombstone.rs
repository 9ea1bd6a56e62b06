//! Deletions.

use std::ops::Deref;
use std::sync::Arc;

use crate::{KeyRef, Object, ObjectKey, PartId, Parts};

/// A deletion, with the last known state of the deleted object.
///
/// `O` is the handle of the object, such as `Arc<Pod>`.
///
/// Follows client-go 0.37, which represents the second case by a `DeletedFinalStateUnknown` in place of the object. An
/// enum forces handlers to cover both cases.
#[doc(alias = "DeletedObject")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Tombstone<O> {
    /// The deletion was observed; this is the object's final state.
    FinalState(O),
    /// The deletion was missed, for example during an interrupted watch, and detected later. It is boxed because it is
    /// rare and larger than everything else that an event carries.
    #[doc(alias = "DeletedFinalStateUnknown")]
    FinalStateUnknown(Box<FinalStateUnknown<O>>),
}

/// A deletion that was missed.
///
/// Follows client-go 0.37 (`DeletedFinalStateUnknown`).
#[doc(alias = "DeletedFinalStateUnknown")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinalStateUnknown<O> {
    /// The key of the deleted object.
    pub key: ObjectKey,
    /// The last observed state, which may be outdated; `None` if no state was observed.
    pub last_known: Option<O>,
    /// The part of the collection that reported the deletion; `None` if the part follows from the state or the key,
    /// as it does in an undivided collection. See [`Parts::of_deletion`](crate::Parts::of_deletion).
    pub part: Option<PartId>,
}

impl<O> Tombstone<O> {
    /// Creates a missed deletion whose part follows from its state or key.
    ///
    /// ```
    /// use kinformer_core::{KeyRef, Keyed, ObjectKey, Tombstone};
    ///
    /// let key = ObjectKey::new("default", "web-0")?;
    /// let missed = Tombstone::<Box<Keyed<()>>>::final_state_unknown(key, None);
    /// assert_eq!(missed.key(), KeyRef::new("default", "web-0"));
    /// assert!(missed.is_final_state_unknown());
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    pub fn final_state_unknown(key: ObjectKey, last_known: Option<O>) -> Self {
        Self::FinalStateUnknown(Box::new(FinalStateUnknown { key, last_known, part: None }))
    }

    /// Returns the same deletion, reported by this part. Has no effect on a final state, whose part follows from the
    /// object.
    #[must_use]
    pub fn from_part(mut self, part: impl Into<Option<PartId>>) -> Self {
        if let Self::FinalStateUnknown(missed) = &mut self {
            missed.part = part.into();
        }
        self
    }

    /// Returns the last known state: the final one, an outdated one, or none.
    ///
    /// ```
    /// use kinformer_core::{ObjectKey, Tombstone};
    ///
    /// let key = ObjectKey::new("default", "web-0")?;
    /// assert_eq!(Tombstone::FinalState("new").object(), Some(&"new"));
    /// assert_eq!(Tombstone::final_state_unknown(key.clone(), Some("old")).object(), Some(&"old"));
    /// assert_eq!(Tombstone::<&str>::final_state_unknown(key, None).object(), None);
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    #[doc(alias = "OptionalObj")]
    pub fn object(&self) -> Option<&O> {
        match self {
            Self::FinalState(object) => Some(object),
            Self::FinalStateUnknown(missed) => missed.last_known.as_ref(),
        }
    }

    /// Like [`Self::object`], by value.
    ///
    /// ```
    /// use kinformer_core::Tombstone;
    ///
    /// let name = String::from("web-0");
    /// assert_eq!(Tombstone::FinalState(name).into_object().as_deref(), Some("web-0"));
    /// ```
    pub fn into_object(self) -> Option<O> {
        match self {
            Self::FinalState(object) => Some(object),
            Self::FinalStateUnknown(missed) => missed.last_known,
        }
    }

    /// Returns the same deletion with its object borrowed. Allocates only for a missed deletion.
    pub fn as_ref(&self) -> Tombstone<&O> {
        match self {
            Self::FinalState(object) => Tombstone::FinalState(object),
            Self::FinalStateUnknown(missed) => {
                let FinalStateUnknown { key, last_known, part } = &**missed;
                Tombstone::final_state_unknown(key.clone(), last_known.as_ref()).from_part(*part)
            }
        }
    }

    /// Returns whether the deletion was missed.
    ///
    /// ```
    /// use kinformer_core::{ObjectKey, Tombstone};
    ///
    /// let key = ObjectKey::new("default", "web-0")?;
    /// assert!(Tombstone::final_state_unknown(key, Some("old")).is_final_state_unknown());
    /// assert!(!Tombstone::FinalState("new").is_final_state_unknown());
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    #[doc(alias = "FinalStateUnknown")]
    pub fn is_final_state_unknown(&self) -> bool {
        matches!(self, Self::FinalStateUnknown(_))
    }

    /// Converts the handle of the object.
    ///
    /// ```
    /// use kinformer_core::Tombstone;
    ///
    /// assert_eq!(Tombstone::FinalState(7).map(|n| n + 1).into_object(), Some(8));
    /// ```
    pub fn map<P>(self, handle: impl FnOnce(O) -> P) -> Tombstone<P> {
        match self {
            Self::FinalState(object) => Tombstone::FinalState(handle(object)),
            Self::FinalStateUnknown(missed) => {
                let FinalStateUnknown { key, last_known, part } = *missed;
                Tombstone::final_state_unknown(key, last_known.map(handle)).from_part(part)
            }
        }
    }
}

impl<O: Deref<Target: Object>> Tombstone<O> {
    /// Returns the key of the deleted object.
    ///
    /// ```
    /// use kinformer_core::{KeyRef, Keyed, Tombstone};
    ///
    /// let pod = Keyed::new("default/web-0".parse()?, ());
    /// assert_eq!(Tombstone::FinalState(Box::new(pod)).key(), KeyRef::new("default", "web-0"));
    /// # Ok::<(), kinformer_core::KeyError>(())
    /// ```
    #[doc(alias("DeletionHandlingMetaNamespaceKeyFunc", "DeletionHandlingObjectToName", "GetKey"))]
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            Self::FinalState(object) => object.key(),
            Self::FinalStateUnknown(missed) => missed.key.as_key(),
        }
    }
}

impl<T> Tombstone<T> {
    /// Whether the deletion is by key alone and names no part, so that it concerns all parts of a divided collection.
    pub fn is_of_all_parts(&self) -> bool {
        matches!(self, Self::FinalStateUnknown(missed) if missed.last_known.is_none() && missed.part.is_none())
    }
}

impl<T: Object> Parts<T> {
    /// Returns the part that a deletion comes from, whose state it removes: the part named by the tombstone, else the
    /// part of its state, else the part of its key. `None` if none of them determines a part.
    pub fn of_deletion(&self, tombstone: &Tombstone<Arc<T>>) -> Option<PartId> {
        match tombstone {
            Tombstone::FinalState(object) => self.of(object),
            Tombstone::FinalStateUnknown(missed) => match (missed.part, &missed.last_known) {
                (Some(part), _) => Some(part).filter(|part| self.exists(*part)),
                (None, Some(object)) => self.of(object),
                (None, None) => self.of_key(missed.key.as_key()),
            },
        }
    }
}

impl<T> From<Arc<T>> for Tombstone<Arc<T>> {
    fn from(object: Arc<T>) -> Self {
        Self::FinalState(object)
    }
}

impl<T> From<T> for Tombstone<Arc<T>> {
    fn from(object: T) -> Self {
        Self::FinalState(Arc::new(object))
    }
}
