//! What deltas did to stored objects.

use std::sync::Arc;

use crate::{Delta, Object, Tombstone};

/// What one delta did to one object of a store.
///
/// A store makes these of the [`Delta`]s that it applies; a processor makes events of them. [`Self::old`] is the state
/// that readers had before, which for a deletion may differ from the final state in the delta.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "handlers do not receive it until it is published"]
pub struct Change<T> {
    /// The delta, about one object, with its state as it is stored: after the transform. Of a list, a `Replaced` for
    /// each object and a `Deleted` for each one that is missing.
    pub delta: Delta<T>,
    /// The state before; `None` if the object was not there.
    pub old: Option<Arc<T>>,
    /// The revision of the store after it; 0 where there is no store.
    pub revision: u64,
    /// Whether the first list brought it.
    pub in_initial_list: bool,
}

impl<T> Change<T> {
    /// What this delta did to an object whose state was `old`.
    pub fn new(delta: Delta<T>, old: Option<Arc<T>>) -> Self {
        Self { delta, old, revision: 0, in_initial_list: false }
    }

    /// The object was added.
    pub fn added(object: impl Into<Arc<T>>) -> Self {
        Self::new(Delta::Added(object.into()), None)
    }

    /// The object was changed.
    pub fn updated(old: impl Into<Arc<T>>, new: impl Into<Arc<T>>) -> Self {
        Self::new(Delta::Updated(new.into()), Some(old.into()))
    }

    /// The object is gone. Its state before was the last one that the tombstone knows.
    pub fn deleted(tombstone: impl Into<Tombstone<Arc<T>>>) -> Self {
        let tombstone = tombstone.into();
        let old = tombstone.object().cloned();
        Self::new(Delta::Deleted(tombstone), old)
    }

    /// Nothing about the object has changed: a resync delivers it again.
    pub fn unchanged(object: impl Into<Arc<T>>) -> Self {
        let object = object.into();
        Self::new(Delta::Sync(object.clone()), Some(object))
    }

    /// With this state before.
    pub fn with_old(mut self, old: Option<Arc<T>>) -> Self {
        self.old = old;
        self
    }

    /// After which the store is at this revision.
    pub fn at_revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// As a part of the first list.
    pub fn in_initial_list(mut self) -> Self {
        self.in_initial_list = true;
        self
    }

    /// The state since; `None` if the object is gone.
    pub fn new_state(&self) -> Option<&Arc<T>> {
        match &self.delta {
            Delta::Deleted(_) => None,
            delta => delta.object(),
        }
    }
}

impl<T: Object> Change<T> {
    /// The key of the object; `None` only of a delta that is about all objects.
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
