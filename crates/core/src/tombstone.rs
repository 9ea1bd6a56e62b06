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
    /// The deletion was missed (a watch was interrupted) and found out later.
    FinalStateUnknown {
        /// Which object is gone.
        key: ObjectKey,
        /// The last state that was seen, which may be out of date; `None` if there never was one.
        last_known: Option<O>,
        /// The part of the collection from which the deletion comes; `None` if it follows from that state or from the
        /// key, as it does in a collection that is not divided. See [`Parts::of_deletion`](crate::Parts::of_deletion).
        part: Option<PartId>,
    },
}

impl<O> Tombstone<O> {
    /// A deletion that was missed, from the part that follows from this state or key.
    pub fn final_state_unknown(key: ObjectKey, last_known: Option<O>) -> Self {
        Self::FinalStateUnknown { key, last_known, part: None }
    }

    /// The last state known: the final one, or an older one, or none.
    pub fn object(&self) -> Option<&O> {
        match self {
            Self::FinalState(object) => Some(object),
            Self::FinalStateUnknown { last_known, .. } => last_known.as_ref(),
        }
    }

    /// As [`Self::object`], by value.
    pub fn into_object(self) -> Option<O> {
        match self {
            Self::FinalState(object) => Some(object),
            Self::FinalStateUnknown { last_known, .. } => last_known,
        }
    }

    /// The same deletion with its object borrowed. Allocates nothing.
    pub fn as_ref(&self) -> Tombstone<&O> {
        match self {
            Self::FinalState(object) => Tombstone::FinalState(object),
            Self::FinalStateUnknown { key, last_known, part } => {
                let (key, last_known) = (key.clone(), last_known.as_ref());
                Tombstone::FinalStateUnknown { key, last_known, part: *part }
            }
        }
    }

    /// Whether the deletion itself was not seen.
    pub fn is_final_state_unknown(&self) -> bool {
        matches!(self, Self::FinalStateUnknown { .. })
    }

    /// The same deletion with another handle of the object.
    pub fn map<P>(self, handle: impl FnOnce(O) -> P) -> Tombstone<P> {
        match self {
            Self::FinalState(object) => Tombstone::FinalState(handle(object)),
            Self::FinalStateUnknown { key, last_known, part } => {
                Tombstone::FinalStateUnknown { key, last_known: last_known.map(handle), part }
            }
        }
    }
}

impl<O: Deref<Target: Object>> Tombstone<O> {
    /// The key of what is gone, in both cases.
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            Self::FinalState(object) => object.key(),
            Self::FinalStateUnknown { key, .. } => key.as_key(),
        }
    }
}

impl<T: Object> Parts<T> {
    /// The part from which a deletion comes, and of whose states it removes one: the part that it names, else that of its
    /// state, else that of its key. `None` if none of them says it.
    pub fn of_deletion(&self, tombstone: &Tombstone<Arc<T>>) -> Option<PartId> {
        match tombstone {
            Tombstone::FinalStateUnknown { part: Some(part), .. } => {
                Some(*part).filter(|part| self.exists(part))
            }
            Tombstone::FinalStateUnknown { key, last_known: None, part: None } => self.of_key(key.as_key()),
            Tombstone::FinalStateUnknown { last_known: Some(object), part: None, .. }
            | Tombstone::FinalState(object) => self.of(object),
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
