//! What handlers hear, and what is published for them.

use std::fmt;
use std::sync::Arc;

use kinformer_core::{KeyRef, Object, Tombstone, contain};

/// What a handler hears about one object.
///
/// Follows client-go 1.37 (`ResourceEventHandler`).
pub enum Event<T> {
    /// The object is there, and was not before as far as this handler was told.
    Added {
        /// Its state.
        object: Arc<T>,
        /// Whether it was there when the informer, or this handler, began.
        in_initial_list: bool,
    },
    /// The object has another state; or the same, when this handler is due for a resync. What was deleted
    /// and created again may come as one update as well: then the UIDs differ.
    Updated {
        /// The state that was told last.
        old: Arc<T>,
        /// The state since.
        new: Arc<T>,
    },
    /// The object is gone.
    Deleted(Tombstone<T>),
}

impl<T> Event<T> {
    /// The newest state that the event carries; `None` for a deletion whose last state is not known.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Self::Added { object, .. } => Some(object),
            Self::Updated { new, .. } => Some(new),
            Self::Deleted(tombstone) => tombstone.object(),
        }
    }
}

impl<T> Event<T> {
    /// Ends it, whatever its objects do when they are dropped.
    pub(crate) fn bury(self) {
        match self {
            Self::Added { object, .. } => bury(object),
            Self::Updated { old, new } => {
                bury(old);
                bury(new);
            }
            Self::Deleted(tombstone) => tombstone.into_object().into_iter().for_each(bury),
        }
    }
}

/// Lets go of an object. If this is the last that holds it, its end is the user's code.
pub(crate) fn bury<T>(object: Arc<T>) {
    if let Err(error) = contain(|| drop(object)) {
        tracing::error!(%error, "an object panicked when it was dropped");
    }
}

impl<T: Object> Event<T> {
    /// The key of the object.
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            Self::Added { object, .. } => object.key(),
            Self::Updated { new, .. } => new.key(),
            Self::Deleted(tombstone) => tombstone.key(),
        }
    }
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, in_initial_list } => {
                Self::Added { object: object.clone(), in_initial_list: *in_initial_list }
            }
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(tombstone) => Self::Deleted(tombstone.clone()),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { object, in_initial_list } => f
                .debug_struct("Added")
                .field("object", object)
                .field("in_initial_list", in_initial_list)
                .finish(),
            Self::Updated { old, new } => {
                f.debug_struct("Updated").field("old", old).field("new", new).finish()
            }
            Self::Deleted(tombstone) => f.debug_tuple("Deleted").field(tombstone).finish(),
        }
    }
}

/// What is published: an event, and what filters and coalescing need beside it.
///
/// Follows client-go 1.37 (`addNotification`, `updateNotification`, `deleteNotification`).
#[derive(Debug)]
#[must_use = "it has to be published"]
pub struct Notification<T> {
    pub(crate) event: Event<T>,
    /// The state before a deletion.
    pub(crate) old: Option<Arc<T>>,
}

impl<T> Notification<T> {
    fn new(event: Event<T>) -> Self {
        Self { event, old: None }
    }

    /// The object was added.
    pub fn added(object: impl Into<Arc<T>>) -> Self {
        Self::new(Event::Added { object: object.into(), in_initial_list: false })
    }

    /// The object was changed.
    pub fn updated(old: impl Into<Arc<T>>, new: impl Into<Arc<T>>) -> Self {
        Self::new(Event::Updated { old: old.into(), new: new.into() })
    }

    /// Nothing about the object has changed: what a resync delivers of it.
    pub(crate) fn unchanged(object: Arc<T>) -> Self {
        Self::new(Event::Updated { old: object.clone(), new: object })
    }

    /// The object is gone.
    pub fn deleted(tombstone: impl Into<Tombstone<T>>) -> Self {
        Self::new(Event::Deleted(tombstone.into()))
    }

    /// Marks an addition as part of the initial list. No effect on anything else.
    pub fn in_initial_list(mut self) -> Self {
        if let Event::Added { in_initial_list, .. } = &mut self.event {
            *in_initial_list = true;
        }
        self
    }

    /// Names the state before a deletion, which the final state may differ from: filters judge by it, and it is
    /// what a re-creation is an update of for handlers that coalesce. No effect on anything else.
    pub fn last_told(mut self, old: Option<Arc<T>>) -> Self {
        if matches!(self.event, Event::Deleted(_)) {
            self.old = old;
        }
        self
    }

    /// The event.
    pub fn event(&self) -> &Event<T> {
        &self.event
    }

    /// As [`Event::bury`].
    pub(crate) fn bury(self) {
        self.event.bury();
        self.old.into_iter().for_each(bury);
    }

    /// What the handler knew of the object before.
    pub(crate) fn before(&self) -> Option<&Arc<T>> {
        match &self.event {
            Event::Added { .. } => None,
            Event::Updated { old, .. } => Some(old),
            Event::Deleted(tombstone) => self.old.as_ref().or_else(|| tombstone.object()),
        }
    }
}
