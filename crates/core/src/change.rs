//! Effects of deltas on stored objects.

use std::sync::Arc;

use crate::{Delta, Object, Tombstone};

/// The effect of one delta on one object of a store.
///
/// A store produces changes from the [`Delta`]s that it applies; a processor turns them into events. [`Self::old`] is
/// the state that readers saw before, which for a deletion may differ from the final state in the delta.
///
/// ```
/// use kinformer_core::{Change, Keyed};
///
/// # fn main() -> Result<(), kinformer_core::KeyError> {
/// let [old, new] = [Keyed::by(|_| "web", 80)?, Keyed::by(|_| "web", 8080)?];
/// let change = Change::updated(old, new).at_revision(3);
/// assert_eq!(change.old.as_ref().map(|port| ***port), Some(80));
/// assert_eq!(change.new_state().map(|port| ***port), Some(8080));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "handlers do not receive it until it is published"]
pub struct Change<T> {
    /// The delta of this object, with the state as stored, that is, after the transform. A list produces a `Replaced`
    /// for each of its objects and a `Deleted` for each missing one.
    pub delta: Delta<T>,
    /// The previous state; `None` if the object was not stored.
    pub old: Option<Arc<T>>,
    /// The revision of the store after this change; 0 if there is no store.
    pub revision: u64,
    /// Whether this change is part of the initial list.
    pub in_initial_list: bool,
}

impl<T> Change<T> {
    /// Creates the change that this delta makes to an object whose previous state is `old`.
    pub fn new(delta: Delta<T>, old: Option<Arc<T>>) -> Self {
        Self { delta, old, revision: 0, in_initial_list: false }
    }

    /// Creates the change of an added object.
    pub fn added(object: impl Into<Arc<T>>) -> Self {
        Self::new(Delta::Added(object.into()), None)
    }

    /// Creates the change of an updated object.
    pub fn updated(old: impl Into<Arc<T>>, new: impl Into<Arc<T>>) -> Self {
        Self::new(Delta::Updated(new.into()), Some(old.into()))
    }

    /// Creates the change of a deleted object. Its previous state is the last one known to the tombstone.
    pub fn deleted(tombstone: impl Into<Tombstone<Arc<T>>>) -> Self {
        let tombstone = tombstone.into();
        let old = tombstone.object().cloned();
        Self::new(Delta::Deleted(tombstone), old)
    }

    /// Creates the change of an object that has left the scope in this state.
    pub fn left(object: impl Into<Arc<T>>) -> Self {
        let object = object.into();
        Self::new(Delta::Left(object.clone()), Some(object))
    }

    /// Creates the change of a resync: the state is delivered again, unmodified.
    pub fn unchanged(object: impl Into<Arc<T>>) -> Self {
        let object = object.into();
        Self::new(Delta::Sync(object.clone()), Some(object))
    }

    /// Sets the previous state.
    pub fn with_old(mut self, old: Option<Arc<T>>) -> Self {
        self.old = old;
        self
    }

    /// Sets the revision of the store after this change.
    pub fn at_revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// Marks this change as part of the initial list.
    pub fn in_initial_list(mut self) -> Self {
        self.in_initial_list = true;
        self
    }

    /// Returns the new state; `None` if the object was deleted or has left the scope.
    pub fn new_state(&self) -> Option<&Arc<T>> {
        match &self.delta {
            Delta::Deleted(_) | Delta::Left(_) => None,
            delta => delta.object(),
        }
    }
}

impl<T: Object> Change<T> {
    /// Returns the key of the object; `None` only for a delta that concerns all objects.
    pub fn key(&self) -> Option<crate::KeyRef<'_>> {
        self.delta.key()
    }
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self {
            delta: self.delta.clone(),
            old: self.old.clone(),
            revision: self.revision,
            in_initial_list: self.in_initial_list,
        }
    }
}
