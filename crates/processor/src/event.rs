//! What handlers receive, and what the log holds until they do.

use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Change, Delta, KeyRef, Object, Tombstone};

/// What a handler receives about one object.
///
/// `O` is the handle by which objects are held: `Arc<T>` for objects of a type of one's own.
///
/// Each event carries the revision that the store had after it: a
/// [snapshot](https://docs.rs/kinformer-store/latest/kinformer_store/struct.Snapshot.html) that is taken on receiving
/// the event has this revision or a later one. It is 0 where there is no store.
///
/// Follows client-go 1.37 (`ResourceEventHandler`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<O> {
    /// The object is there, and was not before as far as this handler knows.
    #[non_exhaustive]
    Added {
        /// Its state.
        object: O,
        /// Whether it was there when the informer, or this handler, began.
        in_initial_list: bool,
        /// The revision of the store since.
        revision: u64,
    },
    /// The object has another state; or the same, when this handler is due for a resync. What was deleted
    /// and created again may come as one update as well: then the UIDs differ.
    #[non_exhaustive]
    Updated {
        /// The state that was delivered last.
        old: O,
        /// The state since.
        new: O,
        /// The revision of the store since.
        revision: u64,
    },
    /// The object is gone.
    #[non_exhaustive]
    Deleted {
        /// What is known of it.
        tombstone: Tombstone<O>,
        /// The revision of the store since.
        revision: u64,
    },
}

impl<O> Event<O> {
    /// An addition, at revision 0.
    pub fn added(object: impl Into<O>) -> Self {
        Self::Added { object: object.into(), in_initial_list: false, revision: 0 }
    }

    /// An update, at revision 0.
    pub fn updated(old: impl Into<O>, new: impl Into<O>) -> Self {
        Self::Updated { old: old.into(), new: new.into(), revision: 0 }
    }

    /// A deletion, at revision 0.
    pub fn deleted(tombstone: impl Into<Tombstone<O>>) -> Self {
        Self::Deleted { tombstone: tombstone.into(), revision: 0 }
    }

    /// Marks an addition as part of the initial list. No effect on anything else.
    #[must_use]
    pub fn in_initial_list(mut self) -> Self {
        if let Self::Added { in_initial_list, .. } = &mut self {
            *in_initial_list = true;
        }
        self
    }

    /// The newest state that the event carries; `None` for a deletion whose last state is not known.
    pub fn object(&self) -> Option<&O> {
        match self {
            Self::Added { object, .. } => Some(object),
            Self::Updated { new, .. } => Some(new),
            Self::Deleted { tombstone, .. } => tombstone.object(),
        }
    }

    /// The revision of the store after it.
    pub fn revision(&self) -> u64 {
        match self {
            Self::Added { revision, .. }
            | Self::Updated { revision, .. }
            | Self::Deleted { revision, .. } => *revision,
        }
    }

    /// The same event with other handles of its objects.
    pub fn map<P>(self, mut handle: impl FnMut(O) -> P) -> Event<P> {
        match self {
            Self::Added { object, in_initial_list, revision } => {
                Event::Added { object: handle(object), in_initial_list, revision }
            }
            Self::Updated { old, new, revision } => {
                Event::Updated { old: handle(old), new: handle(new), revision }
            }
            Self::Deleted { tombstone, revision } => {
                Event::Deleted { tombstone: tombstone.map(handle), revision }
            }
        }
    }
}

impl<O: Deref<Target: Object>> Event<O> {
    /// The key of the object.
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            Self::Added { object, .. } => object.key(),
            Self::Updated { new, .. } => new.key(),
            Self::Deleted { tombstone, .. } => tombstone.key(),
        }
    }
}

impl<T> Event<Arc<T>> {
    /// The event of a change; `None` of a delta that is about all objects.
    pub fn of(change: Change<T>) -> Option<Self> {
        let Change { delta, old, revision, in_initial_list, .. } = change;
        let object = match delta {
            Delta::Deleted(tombstone) => return Some(Self::Deleted { tombstone, revision }),
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                object
            }
            _ => return None,
        };
        Some(match old {
            Some(old) => Self::Updated { old, new: object, revision },
            None => Self::Added { object, in_initial_list, revision },
        })
    }

    /// Drops it; panics of its objects end there.
    pub(crate) fn drop_contained(self) {
        match self {
            Self::Added { object, .. } => drop_contained(object),
            Self::Updated { old, new, .. } => {
                drop_contained(old);
                drop_contained(new);
            }
            Self::Deleted { tombstone, .. } => tombstone.into_object().into_iter().for_each(drop_contained),
        }
    }
}

/// Drops a handle of an object. If it is the last one, the user's `Drop` runs, and a panic of it ends here.
pub(crate) fn drop_contained<T>(object: Arc<T>) {
    if let Err(error) = contain(|| drop(object)) {
        tracing::error!(%error, "object panicked when it was dropped");
    }
}

/// What the log holds: an event, and what filters and coalescing need beside it.
///
/// Follows client-go 1.37 (`addNotification`, `updateNotification`, `deleteNotification`).
#[derive(Debug)]
pub(crate) struct Notification<T> {
    pub(crate) event: Event<Arc<T>>,
    /// The state before a deletion: filters decide by it, and for handlers that coalesce it is what a re-creation is an
    /// update of.
    pub(crate) old: Option<Arc<T>>,
}

impl<T> Notification<T> {
    pub(crate) fn new(event: Event<Arc<T>>) -> Self {
        Self { event, old: None }
    }

    /// An object of the initial list at this revision.
    pub(crate) fn initial(object: Arc<T>, revision: u64) -> Self {
        Self::new(Event::Added { object, in_initial_list: true, revision })
    }

    /// What is published of a change; `None` of a delta that is about all objects.
    pub(crate) fn of(mut change: Change<T>) -> Option<Self> {
        let old = match &change.delta {
            Delta::Deleted(_) => change.old.take(),
            _ => None,
        };
        Some(Self { event: Event::of(change)?, old })
    }

    /// As [`Event::drop_contained`].
    pub(crate) fn drop_contained(self) {
        self.event.drop_contained();
        self.old.into_iter().for_each(drop_contained);
    }

    /// The state that was delivered before.
    pub(crate) fn before(&self) -> Option<&Arc<T>> {
        match &self.event {
            Event::Added { .. } => None,
            Event::Updated { old, .. } => Some(old),
            Event::Deleted { tombstone, .. } => self.old.as_ref().or_else(|| tombstone.object()),
        }
    }
}

/// The event that a backlog gave out last, if it owns that event. Panics of its objects end here when it is dropped.
pub(crate) struct Given<T>(Option<Notification<T>>);

impl<T> Given<T> {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn set(&mut self, notification: Notification<T>) -> &Notification<T> {
        self.clear();
        self.0.insert(notification)
    }

    pub(crate) fn clear(&mut self) {
        if let Some(given) = self.0.take() {
            given.drop_contained();
        }
    }
}

impl<T> Drop for Given<T> {
    fn drop(&mut self) {
        self.clear();
    }
}
