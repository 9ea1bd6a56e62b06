//! Changes: of one object, or of all of them at once.

use std::fmt;
use std::sync::Arc;

use crate::{KeyRef, Object, ObjectKey, PartId, ResourceVersion, Tombstone, VersionUpdate};

/// One change, on its way from the source to the store: what a [`Sink`](crate::Sink) applies, and what a queue gives to
/// its consumer.
///
/// The kinds are those of client-go 1.37, with what belongs to each kind inside it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Delta<T> {
    /// The object was added.
    Added(Arc<T>),
    /// The object was changed.
    Updated(Arc<T>),
    /// The object is gone.
    Deleted(Tombstone<Arc<T>>),
    /// A resync of one known object: nothing about it has changed.
    Sync(Arc<T>),
    /// The object was in a list; whether it changed is not known.
    Replaced(Arc<T>),
    /// A whole list of a part of the collection at once, in place of one `Replaced` for each object and one `Deleted`
    /// for each missing key.
    ReplacedAll(Box<Replacement<T>>),
    /// A resync of all known objects at once.
    SyncAll,
    /// A part of the collection has reached this version without a change to any object of it.
    Bookmark {
        /// Which part.
        part: PartId,
        /// The version.
        resource_version: ResourceVersion,
    },
}

/// The kind of a [`Delta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeltaType {
    /// See [`Delta::Added`].
    Added,
    /// See [`Delta::Updated`].
    Updated,
    /// See [`Delta::Deleted`].
    Deleted,
    /// See [`Delta::Sync`].
    Sync,
    /// See [`Delta::Replaced`].
    Replaced,
    /// See [`Delta::ReplacedAll`].
    ReplacedAll,
    /// See [`Delta::SyncAll`].
    SyncAll,
    /// See [`Delta::Bookmark`].
    Bookmark,
}

impl fmt::Display for DeltaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl<T> Delta<T> {
    /// A bookmark of a collection that is not divided into parts.
    pub fn bookmark(version: impl Into<ResourceVersion>) -> Self {
        Self::Bookmark { part: PartId::ONLY, resource_version: version.into() }
    }

    /// Which kind of change this is.
    pub fn delta_type(&self) -> DeltaType {
        match self {
            Self::Added(_) => DeltaType::Added,
            Self::Updated(_) => DeltaType::Updated,
            Self::Deleted(_) => DeltaType::Deleted,
            Self::Sync(_) => DeltaType::Sync,
            Self::Replaced(_) => DeltaType::Replaced,
            Self::ReplacedAll(_) => DeltaType::ReplacedAll,
            Self::SyncAll => DeltaType::SyncAll,
            Self::Bookmark { .. } => DeltaType::Bookmark,
        }
    }

    /// How many positions this takes in a [`Report`](crate::Report): a list one for each of its objects, everything
    /// else one.
    pub fn positions(&self) -> usize {
        match self {
            Self::ReplacedAll(all) => all.objects.len(),
            _ => 1,
        }
    }

    /// The state of the one object that this is about, where there is one.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Self::Added(o) | Self::Updated(o) | Self::Sync(o) | Self::Replaced(o) => Some(o),
            Self::Deleted(tombstone) => tombstone.object(),
            Self::ReplacedAll(_) | Self::SyncAll | Self::Bookmark { .. } => None,
        }
    }
}

impl<T: Object> Delta<T> {
    /// The key of the one object that this is about; `None` for what is about all of them.
    pub fn key(&self) -> Option<KeyRef<'_>> {
        match self {
            Self::Added(o) | Self::Updated(o) | Self::Sync(o) | Self::Replaced(o) => Some(o.key()),
            Self::Deleted(tombstone) => Some(tombstone.key()),
            Self::ReplacedAll(_) | Self::SyncAll | Self::Bookmark { .. } => None,
        }
    }
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(o) => Self::Added(o.clone()),
            Self::Updated(o) => Self::Updated(o.clone()),
            Self::Deleted(tombstone) => Self::Deleted(tombstone.clone()),
            Self::Sync(o) => Self::Sync(o.clone()),
            Self::Replaced(o) => Self::Replaced(o.clone()),
            Self::ReplacedAll(all) => Self::ReplacedAll(all.clone()),
            Self::SyncAll => Self::SyncAll,
            Self::Bookmark { part, resource_version } => {
                Self::Bookmark { part: *part, resource_version: resource_version.clone() }
            }
        }
    }
}

/// A whole list: what a sink is to hold from now on, of one part of its collection.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replacement<T> {
    /// Which part. Objects of other parts stay as they are.
    pub part: PartId,
    /// Every object there is, in the order in which the source gave them.
    pub objects: Vec<Arc<T>>,
    /// The version of the list.
    pub resource_version: ResourceVersion,
    /// Which of the source's lists this is: see `ListerWatcher::list_epoch`. It passes through a queue with the version of
    /// the list ([`VersionUpdate::of_list`](crate::VersionUpdate::of_list)).
    pub epoch: u32,
    /// Keys of objects that exist but could not be delivered (they did not decode, or their transform
    /// failed): whatever is known of them stays as it is and is not taken for deleted.
    pub undelivered: Vec<ObjectKey>,
    /// How many more objects there are, whose keys could not be read. With any of them the list is incomplete: each
    /// object that is missing in it may be one of them, so that a sink applies the objects and deletes nothing.
    pub unreadable: usize,
}

impl<T> Replacement<T> {
    /// A list with its version.
    pub fn new(objects: Vec<Arc<T>>, resource_version: impl Into<ResourceVersion>) -> Self {
        Self {
            part: PartId::ONLY,
            objects,
            resource_version: resource_version.into(),
            epoch: 0,
            undelivered: Vec::new(),
            unreadable: 0,
        }
    }

    /// Of this part of a collection that is divided into parts.
    #[must_use]
    pub fn part(mut self, part: PartId) -> Self {
        self.part = part;
        self
    }

    /// Of this epoch of its source.
    #[must_use]
    pub fn epoch(mut self, epoch: u32) -> Self {
        self.epoch = epoch;
        self
    }

    /// Names objects that exist but could not be delivered.
    #[must_use]
    pub fn undelivered(mut self, keys: impl IntoIterator<Item = ObjectKey>) -> Self {
        self.undelivered.extend(keys);
        self
    }

    /// Says how many objects there are whose keys could not be read.
    #[must_use]
    pub fn unreadable(mut self, objects: usize) -> Self {
        self.unreadable = objects;
        self
    }

    /// Whether what is missing in the list is gone: no object of it was [unreadable](Self::unreadable).
    pub fn is_complete(&self) -> bool {
        self.unreadable == 0
    }
}

impl VersionUpdate {
    /// To the version of this list.
    pub fn of_list<T>(list: &Replacement<T>) -> Self {
        Self::Set { version: list.resource_version.clone(), epoch: list.epoch }
    }
}

impl<T> Clone for Replacement<T> {
    fn clone(&self) -> Self {
        Self {
            part: self.part,
            objects: self.objects.clone(),
            resource_version: self.resource_version.clone(),
            epoch: self.epoch,
            undelivered: self.undelivered.clone(),
            unreadable: self.unreadable,
        }
    }
}
