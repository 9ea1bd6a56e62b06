//! Deltas: changes of one object or of all objects.

use std::fmt;
use std::sync::Arc;

use crate::{KeyRef, Object, ObjectKey, PartId, ResourceVersion, Tombstone, VersionUpdate};

/// One change on its way from the source to the store: [`Sink`](crate::Sink)s apply it, queues deliver it to their
/// consumer.
///
/// The variants are the delta types of client-go 0.37, each with its own data.
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_core::{Delta, KeyRef, Keyed};
///
/// # fn main() -> Result<(), kinformer_core::KeyError> {
/// let delta = Delta::Added(Arc::new(Keyed::by(|_| "web", 80)?));
/// assert_eq!(delta.key(), Some(KeyRef::named("web")));
/// assert_eq!(delta.delta_type().to_string(), "Added");
/// assert_eq!(Delta::<Keyed<u16>>::bookmark(7).key(), None); // concerns all objects
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Delta<T> {
    /// The object was added.
    Added(Arc<T>),
    /// The object was changed.
    Updated(Arc<T>),
    /// The object was deleted.
    Deleted(Tombstone<Arc<T>>),
    /// The object has left the scope of the collection in this state. It was not deleted: the source may still have it.
    Left(Arc<T>),
    /// A resync of one known object, which has not changed.
    Sync(Arc<T>),
    /// The object was in a list; it may or may not have changed.
    Replaced(Arc<T>),
    /// A whole list of one part of the collection, in place of a `Replaced` for each object and a `Deleted` for each
    /// missing key.
    ReplacedAll(Box<Replacement<T>>),
    /// A resync of all known objects at once.
    #[doc(alias = "SyncAllInfo")]
    SyncAll,
    /// A part of the collection has reached this version without a change to its objects.
    #[doc(alias("BookmarkInfo", "ReflectorBookmarkStore"))]
    Bookmark {
        /// The part.
        part: PartId,
        /// The version.
        resource_version: ResourceVersion,
    },
}

/// The type of a [`Delta`].
#[doc(alias = "TransactionType")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeltaType {
    /// See [`Delta::Added`].
    Added,
    /// See [`Delta::Updated`].
    Updated,
    /// See [`Delta::Deleted`].
    Deleted,
    /// See [`Delta::Left`].
    Left,
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
    /// Creates a bookmark of an undivided collection.
    pub fn bookmark(version: impl Into<ResourceVersion>) -> Self {
        Self::Bookmark { part: PartId::ONLY, resource_version: version.into() }
    }

    /// Returns the type of this delta.
    pub fn delta_type(&self) -> DeltaType {
        match self {
            Self::Added(_) => DeltaType::Added,
            Self::Updated(_) => DeltaType::Updated,
            Self::Deleted(_) => DeltaType::Deleted,
            Self::Left(_) => DeltaType::Left,
            Self::Sync(_) => DeltaType::Sync,
            Self::Replaced(_) => DeltaType::Replaced,
            Self::ReplacedAll(_) => DeltaType::ReplacedAll,
            Self::SyncAll => DeltaType::SyncAll,
            Self::Bookmark { .. } => DeltaType::Bookmark,
        }
    }

    /// Returns the state of the object that this delta concerns, if it concerns one and has a state.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Self::Added(o) | Self::Updated(o) | Self::Sync(o) | Self::Replaced(o) | Self::Left(o) => Some(o),
            Self::Deleted(tombstone) => tombstone.object(),
            Self::ReplacedAll(_) | Self::SyncAll | Self::Bookmark { .. } => None,
        }
    }
}

impl<T: Object> Delta<T> {
    /// Returns the key of the object that this delta concerns; `None` if it concerns all objects.
    pub fn key(&self) -> Option<KeyRef<'_>> {
        match self {
            Self::Added(o) | Self::Updated(o) | Self::Sync(o) | Self::Replaced(o) | Self::Left(o) => {
                Some(o.key())
            }
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
            Self::Left(o) => Self::Left(o.clone()),
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

/// A whole list: all objects of one part of a collection, which replace the previous ones.
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_core::{Delta, Keyed, Replacement};
///
/// # fn main() -> Result<(), kinformer_core::KeyError> {
/// let objects = vec![Arc::new(Keyed::by(|_| "web", 80)?)];
/// let list = Replacement::new(objects, 7); // a list at version 7: all other objects are gone
/// assert!(list.is_complete());
/// let delta = Delta::ReplacedAll(Box::new(list));
/// assert_eq!(delta.key(), None); // concerns all objects
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ReplacedAllInfo")]
#[derive(Debug)]
#[non_exhaustive]
pub struct Replacement<T> {
    /// The part of the collection. Objects of other parts are not affected.
    pub part: PartId,
    /// All listed objects, in the order of the source.
    pub objects: Vec<Arc<T>>,
    /// The version of the list.
    pub resource_version: ResourceVersion,
    /// Keys of objects that exist but could not be delivered, because decoding or their transform failed. Their known
    /// states are kept and not treated as deleted.
    pub undelivered: Vec<ObjectKey>,
    /// The number of further, unidentified objects: their keys are unknown. If it is not 0, the list is incomplete: any object
    /// missing from it may be one of them, so a sink applies the listed objects and deletes nothing.
    pub unidentified: usize,
}

impl<T> Replacement<T> {
    /// Creates a list at this version.
    pub fn new(objects: Vec<Arc<T>>, resource_version: impl Into<ResourceVersion>) -> Self {
        Self {
            part: PartId::ONLY,
            objects,
            resource_version: resource_version.into(),
            undelivered: Vec::new(),
            unidentified: 0,
        }
    }

    /// Sets the part, in a collection that is divided into parts.
    #[must_use]
    pub fn part(mut self, part: PartId) -> Self {
        self.part = part;
        self
    }

    /// Adds keys of objects that exist but could not be delivered.
    #[must_use]
    pub fn undelivered(mut self, keys: impl IntoIterator<Item = ObjectKey>) -> Self {
        self.undelivered.extend(keys);
        self
    }

    /// Sets the number of unidentified objects, whose keys are unknown.
    #[must_use]
    pub fn unidentified(mut self, objects: usize) -> Self {
        self.unidentified = objects;
        self
    }

    /// Returns whether every object missing from this list is deleted, that is, no object was
    /// [unidentified](Self::unidentified).
    pub fn is_complete(&self) -> bool {
        self.unidentified == 0
    }
}

impl VersionUpdate {
    /// Creates the update to the version of this list.
    pub fn of_list<T>(list: &Replacement<T>) -> Self {
        Self::Set { version: list.resource_version.clone(), is_complete: list.is_complete() }
    }
}

impl<T> Clone for Replacement<T> {
    fn clone(&self) -> Self {
        Self {
            part: self.part,
            objects: self.objects.clone(),
            resource_version: self.resource_version.clone(),
            undelivered: self.undelivered.clone(),
            unidentified: self.unidentified,
        }
    }
}
