//! Deletions.

use std::ops::Deref;
use std::sync::Arc;

use crate::{KeyRef, Object, ObjectKey, PartId, Parts};

/// A deletion: what is known of the object that is gone.
///
/// `O` is the handle by which the object is held, such as `Arc<Pod>`.
///
/// Follows client-go 1.37, where the second case is the type `DeletedFinalStateUnknown` in the place of the
/// object; here no handler can forget that case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Tombstone<O> {
    /// The deletion was observed; this is the object's final state.
    FinalState(O),
    /// The deletion was missed (a watch was interrupted) and found out later. Boxed, because it is rare, and larger than
    /// everything else that an event carries.
    FinalStateUnknown(Box<FinalStateUnknown<O>>),
}

/// A deletion that was missed.
///
/// Follows client-go 1.37 (`DeletedFinalStateUnknown`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinalStateUnknown<O> {
    /// Which object is gone.
    pub key: ObjectKey,
    /// The last state that was seen, which may be out of date; `None` if there never was one.
    pub last_known: Option<O>,
    /// The part of the collection from which the deletion comes; `None` if it follows from that state or from the
    /// key, as it does in a collection that is not divided. See [`Parts::of_deletion`](crate::Parts::of_deletion).
    pub part: Option<PartId>,
}

impl<O> Tombstone<O> {
    /// A deletion that was missed, from the part that follows from this state or key.
    pub fn final_state_unknown(key: ObjectKey, last_known: Option<O>) -> Self {
        Self::FinalStateUnknown(Box::new(FinalStateUnknown { key, last_known, part: None }))
    }

    /// The same deletion from this part, if it was missed. The part of a final state is that of the object.
    #[must_use]
    pub fn from_part(mut self, part: impl Into<Option<PartId>>) -> Self {
        if let Self::FinalStateUnknown(missed) = &mut self {
            missed.part = part.into();
        }
        self
    }

    /// The last state known: the final one, or an older one, or none.
    pub fn object(&self) -> Option<&O> {
        match self {
            Self::FinalState(object) => Some(object),
            Self::FinalStateUnknown(missed) => missed.last_known.as_ref(),
        }
    }

    /// As [`Self::object`], by value.
    pub fn into_object(self) -> Option<O> {
        match self {
            Self::FinalState(object) => Some(object),
            Self::FinalStateUnknown(missed) => missed.last_known,
        }
    }

    /// The same deletion with its object borrowed. Allocates only for a deletion that was missed.
    pub fn as_ref(&self) -> Tombstone<&O> {
        match self {
            Self::FinalState(object) => Tombstone::FinalState(object),
            Self::FinalStateUnknown(missed) => {
                let FinalStateUnknown { key, last_known, part } = &**missed;
                Tombstone::final_state_unknown(key.clone(), last_known.as_ref()).from_part(*part)
            }
        }
    }

    /// Whether the deletion itself was not seen.
    pub fn is_final_state_unknown(&self) -> bool {
        matches!(self, Self::FinalStateUnknown(_))
    }

    /// The same deletion with another handle of the object.
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
    /// The key of what is gone, in both cases.
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            Self::FinalState(object) => object.key(),
            Self::FinalStateUnknown(missed) => missed.key.as_key(),
        }
    }
}

impl<T: Object> Parts<T> {
    /// The part from which a deletion comes, and of whose states it removes one: the part that it names, else that of its
    /// state, else that of its key. `None` if none of them says it.
    pub fn of_deletion(&self, tombstone: &Tombstone<Arc<T>>) -> Option<PartId> {
        match tombstone {
            Tombstone::FinalState(object) => self.of(object),
            Tombstone::FinalStateUnknown(missed) => match (missed.part, &missed.last_known) {
                (Some(part), _) => Some(part).filter(|part| self.exists(part)),
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
