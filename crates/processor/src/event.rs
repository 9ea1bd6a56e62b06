//! The events that handlers receive, and their form in the log.

use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::{Change, Delta, KeyRef, Object, Tombstone};

use crate::contained::drop_contained;

/// An event about one object, as a handler receives it.
///
/// `O` is the handle of the objects: `Arc<T>` for objects of a custom type.
///
/// Each event carries the revision of the store after the change. A
/// [snapshot](https://docs.rs/kinformer-store/latest/kinformer_store/struct.Snapshot.html) taken when the event is
/// received has this revision or a later one. Without a store the revision is 0.
///
/// ```
/// use kinformer_processor::{Added, Event, Updated};
///
/// fn describe(event: &Event<&str>) -> String {
///     match event {
///         Event::Added(Added { object, in_initial_list: true, .. }) => format!("{object} exists"),
///         Event::Added(added) => format!("{} was added", added.object),
///         Event::Updated(Updated { old, new, .. }) => format!("{old} is now {new}"),
///         Event::Deleted(_) => "deleted".to_owned(),
///         Event::Left(left) => format!("{} is out of scope", left.object),
///     }
/// }
/// assert_eq!(describe(&Event::updated("red", "green")), "red is now green");
/// ```
///
/// Follows client-go 0.37 (`ResourceEventHandler`), in which the scope of an informer cannot change.
#[derive(Clone, Debug)]
pub enum Event<O> {
    /// The object exists, and is new to this handler.
    Added(Added<O>),
    /// The object has a new state, or the same state at a resync.
    Updated(Updated<O>),
    /// The object was deleted.
    Deleted(Deleted<O>),
    /// The object has left the scope of the informer. It was not deleted, or this is unknown.
    Left(Left<O>),
}

/// An addition.
///
/// Follows client-go 0.37 (`OnAdd`, with `obj` and `isInInitialList`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Added<O> {
    /// The state of the object.
    pub object: O,
    /// Whether the object existed when the informer started or when this handler joined.
    #[doc(alias = "InitApply")]
    pub in_initial_list: bool,
    /// The revision of the store after the addition.
    pub revision: u64,
}

/// An update.
///
/// A deletion and a re-creation of an object may be delivered as one update; its two states then have different UIDs.
///
/// Follows client-go 0.37 (`OnUpdate`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Updated<O> {
    /// The state delivered before.
    pub old: O,
    /// The new state.
    pub new: O,
    /// The revision of the store after the update.
    pub revision: u64,
}

/// A deletion.
///
/// Follows client-go 0.37 (`OnDelete`, whose `obj` is the object or a `DeletedFinalStateUnknown`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deleted<O> {
    /// The key of the object, and its final or last known state if there is one.
    pub tombstone: Tombstone<O>,
    /// The state before the deletion; `None` if it is unknown.
    pub old: Option<O>,
    /// The revision of the store after the deletion.
    pub revision: u64,
}

/// The end of an object's presence in the scope of an informer, such as when its namespace is no longer followed.
///
/// Nothing follows about the object, unless it comes back: it is then added.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Left<O> {
    /// The last state in the scope. A coalescing handler receives the last state that was delivered to it, if one was.
    pub object: O,
    /// The revision of the store after the object has left.
    pub revision: u64,
}

impl<O> Event<O> {
    /// Creates an addition outside of the initial list, at revision 0.
    pub fn added(object: impl Into<O>) -> Self {
        Self::Added(Added { object: object.into(), in_initial_list: false, revision: 0 })
    }

    /// Creates an update at revision 0.
    pub fn updated(old: impl Into<O>, new: impl Into<O>) -> Self {
        Self::Updated(Updated { old: old.into(), new: new.into(), revision: 0 })
    }

    /// Creates a deletion at revision 0.
    pub fn deleted(tombstone: impl Into<Tombstone<O>>) -> Self {
        Self::Deleted(Deleted { tombstone: tombstone.into(), old: None, revision: 0 })
    }

    /// Creates the event of an object that leaves the scope, at revision 0.
    pub fn left(object: impl Into<O>) -> Self {
        Self::Left(Left { object: object.into(), revision: 0 })
    }

    /// Marks an addition as part of the initial list. Has no effect on other events.
    #[must_use]
    pub fn in_initial_list(mut self) -> Self {
        if let Self::Added(added) = &mut self {
            added.in_initial_list = true;
        }
        self
    }

    /// Sets the revision of the store.
    #[must_use]
    pub fn at_revision(mut self, revision: u64) -> Self {
        match &mut self {
            Self::Added(added) => added.revision = revision,
            Self::Updated(updated) => updated.revision = revision,
            Self::Deleted(deleted) => deleted.revision = revision,
            Self::Left(left) => left.revision = revision,
        }
        self
    }

    /// Returns the newest state in the event, also that of a deleted object; `None` for a deletion without a known state.
    pub fn object(&self) -> Option<&O> {
        match self {
            Self::Added(added) => Some(&added.object),
            Self::Updated(updated) => Some(&updated.new),
            Self::Deleted(deleted) => deleted.tombstone.object(),
            Self::Left(left) => Some(&left.object),
        }
    }

    /// Returns the revision of the store after the change.
    pub fn revision(&self) -> u64 {
        match self {
            Self::Added(added) => added.revision,
            Self::Updated(updated) => updated.revision,
            Self::Deleted(deleted) => deleted.revision,
            Self::Left(left) => left.revision,
        }
    }

    /// Converts the handles of the objects.
    pub fn map<P>(self, mut handle: impl FnMut(O) -> P) -> Event<P> {
        match self {
            Self::Added(Added { object, in_initial_list, revision }) => {
                Event::Added(Added { object: handle(object), in_initial_list, revision })
            }
            Self::Updated(Updated { old, new, revision }) => {
                Event::Updated(Updated { old: handle(old), new: handle(new), revision })
            }
            Self::Deleted(Deleted { tombstone, old, revision }) => {
                let old = old.map(&mut handle);
                Event::Deleted(Deleted { tombstone: tombstone.map(handle), old, revision })
            }
            Self::Left(Left { object, revision }) => Event::Left(Left { object: handle(object), revision }),
        }
    }

    /// Borrows the objects of the event. Copies no object and allocates nothing.
    pub fn as_ref(&self) -> Event<&O> {
        match self {
            Self::Added(Added { object, in_initial_list, revision }) => {
                Event::Added(Added { object, in_initial_list: *in_initial_list, revision: *revision })
            }
            Self::Updated(Updated { old, new, revision }) => {
                Event::Updated(Updated { old, new, revision: *revision })
            }
            Self::Deleted(Deleted { tombstone, old, revision }) => Event::Deleted(Deleted {
                tombstone: tombstone.as_ref(),
                old: old.as_ref(),
                revision: *revision,
            }),
            Self::Left(Left { object, revision }) => Event::Left(Left { object, revision: *revision }),
        }
    }
}

impl<O: Deref<Target: Object>> Event<O> {
    /// Returns the key of the object.
    #[doc(alias("DeletionHandlingMetaNamespaceKeyFunc", "DeletionHandlingObjectToName"))]
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            Self::Added(added) => added.object.key(),
            Self::Updated(updated) => updated.new.key(),
            Self::Deleted(deleted) => deleted.tombstone.key(),
            Self::Left(left) => left.object.key(),
        }
    }
}

impl<T> Event<Arc<T>> {
    /// Converts a change to its event; returns `None` for a delta that concerns all objects.
    ///
    /// Follows client-go 0.37 (`addNotification`, `updateNotification`, `deleteNotification`).
    #[inline]
    pub fn of(change: Change<T>) -> Option<Self> {
        let Change { delta, old, revision, in_initial_list, .. } = change;
        let object = match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                object
            }
            Delta::Deleted(tombstone) => return Some(Self::Deleted(Deleted { tombstone, old, revision })),
            Delta::Left(object) => return Some(Self::Left(Left { object, revision })),
            _ => return None,
        };
        Some(match old {
            Some(old) => Self::Updated(Updated { old, new: object, revision }),
            None => Self::Added(Added { object, in_initial_list, revision }),
        })
    }

    /// Creates the addition of an object of the initial list at this revision.
    pub(crate) fn initial(object: Arc<T>, revision: u64) -> Self {
        Self::Added(Added { object, in_initial_list: true, revision })
    }

    /// Returns the state before the change, if there is one.
    pub(crate) fn before(&self) -> Option<&Arc<T>> {
        match self {
            Self::Added(_) => None,
            Self::Updated(updated) => Some(&updated.old),
            Self::Deleted(deleted) => deleted.old.as_ref().or_else(|| deleted.tombstone.object()),
            Self::Left(left) => Some(&left.object),
        }
    }

    /// Drops the event and contains panics of its objects.
    pub(crate) fn drop_contained(self) {
        match self {
            Self::Added(added) => drop_object(added.object),
            Self::Updated(Updated { old, new, .. }) => {
                drop_object(old);
                drop_object(new);
            }
            Self::Deleted(Deleted { tombstone, old, .. }) => {
                tombstone.into_object().into_iter().chain(old).for_each(drop_object);
            }
            Self::Left(left) => drop_object(left.object),
        }
    }
}

/// Drops a handle of an object and contains a panic of the object's `Drop`.
pub(crate) fn drop_object<T>(object: Arc<T>) {
    drop_contained("object", object);
}

/// The event that a backlog returned last, if the backlog owns it. Contains panics of its objects when it is dropped.
pub(crate) struct LastEvent<T>(Option<Event<Arc<T>>>);

impl<T> LastEvent<T> {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn set(&mut self, event: Event<Arc<T>>) -> &Event<Arc<T>> {
        self.clear();
        self.0.insert(event)
    }

    pub(crate) fn clear(&mut self) {
        if let Some(last) = self.0.take() {
            last.drop_contained();
        }
    }
}

impl<T> Drop for LastEvent<T> {
    fn drop(&mut self) {
        self.clear();
    }
}
