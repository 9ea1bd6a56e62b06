//! Collections that are divided into parts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::{KeyRef, Object, ResourceVersion, VersionUpdate};

/// A part of a collection: what one of its sources lists and watches, such as a namespace, a selector, a shard or a
/// cluster.
///
/// Parts are numbered from 0, in the order of their sources. A collection that is not divided has [one](Self::ONLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(u32);

impl PartId {
    /// The part of a collection that is not divided; of any other, the first.
    pub const ONLY: Self = Self(0);

    /// The part with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number of the part.
    pub const fn number(self) -> u32 {
        self.0
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {}", self.0)
    }
}

impl From<u32> for PartId {
    fn from(number: u32) -> Self {
        Self::new(number)
    }
}

/// How a collection is divided.
///
/// Every state of an object is in one part at most, which follows from the state alone. So a list of one part replaces
/// the objects of this part and no others, and a deletion from one part does not remove a state that another part has
/// brought since. Where one key can be in several parts one after the other, as that of an object that moves from one
/// selector to another, the newer state by its resource version counts, whichever source brings it first: so versions
/// have to compare across such parts, as those of one server do.
///
/// These methods are accessors, like those of [`Object`](crate::Object): they are called under locks, and so must be
/// quick and must not block.
pub trait Partition<T>: Send + Sync {
    /// How many parts there are, at least one: [`PartId`]s from 0. Asked once.
    fn parts(&self) -> u32;

    /// The part of an object; `None` if it is in none of them, and so is one in a part that there is not.
    fn part_of(&self, object: &T) -> Option<PartId>;

    /// The part of all objects with this key; `None` if it does not follow from the key.
    fn part_of_key(&self, _key: KeyRef<'_>) -> Option<PartId> {
        None
    }
}

/// The parts of a collection: [one](Self::one) by default, else those of a [`Partition`]. Cheap to clone.
pub struct Parts<T> {
    partition: Option<Arc<dyn Partition<T>>>,
    count: u32,
}

impl<T> Parts<T> {
    /// The collection is not divided: everything is in [`PartId::ONLY`].
    pub const fn one() -> Self {
        Self { partition: None, count: 1 }
    }

    /// The parts of this partition.
    pub fn new(partition: impl Partition<T> + 'static) -> Self {
        let count = partition.parts().max(1);
        Self { partition: Some(Arc::new(partition)), count }
    }

    /// How many there are, at least one.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = PartId> + use<T> {
        (0..self.count).map(PartId)
    }

    /// Whether the collection is divided.
    pub fn is_divided(&self) -> bool {
        self.partition.is_some()
    }

    pub(crate) fn exists(&self, part: &PartId) -> bool {
        part.0 < self.count
    }

    /// The part of an object; `None` if it is in none of them.
    pub fn of(&self, object: &T) -> Option<PartId> {
        match &self.partition {
            None => Some(PartId::ONLY),
            Some(partition) => partition.part_of(object).filter(|part| self.exists(part)),
        }
    }

    /// The part of all objects with this key; `None` if it does not follow from the key.
    pub fn of_key(&self, key: KeyRef<'_>) -> Option<PartId> {
        match &self.partition {
            None => Some(PartId::ONLY),
            Some(partition) => partition.part_of_key(key).filter(|part| self.exists(part)),
        }
    }

    /// Whether an object is in this part.
    pub fn contains(&self, part: PartId, object: &T) -> bool {
        self.of(object) == Some(part)
    }
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self::one()
    }
}

impl<T> Clone for Parts<T> {
    fn clone(&self) -> Self {
        Self { partition: self.partition.clone(), count: self.count }
    }
}

impl<T> fmt::Debug for Parts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parts").field(&self.count()).finish()
    }
}

/// The resource version of each part of a collection.
///
/// Versions of different parts may come from different servers, so that one number cannot stand for all: ask for that of
/// a [part](Self::of), or for the [lowest](Self::lowest).
#[derive(Clone, PartialEq, Eq)]
pub struct Versions(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    One(ResourceVersion),
    /// By number.
    Several(Arc<Vec<ResourceVersion>>),
}

impl Versions {
    /// Unset versions of so many parts.
    pub fn unset(parts: u32) -> Self {
        Self(match parts {
            0 | 1 => Repr::One(ResourceVersion::UNSET),
            parts => Repr::Several(Arc::new(vec![ResourceVersion::UNSET; parts as usize])),
        })
    }

    fn all(&self) -> &[ResourceVersion] {
        match &self.0 {
            Repr::One(version) => std::slice::from_ref(version),
            Repr::Several(versions) => versions,
        }
    }

    /// The version of a part; unset while it has none, and for a part that there is not.
    pub fn of(&self, part: PartId) -> &ResourceVersion {
        const UNSET: &ResourceVersion = &ResourceVersion::UNSET;
        self.all().get(part.index()).unwrap_or(UNSET)
    }

    /// The version that every part has reached; unset while a part has none, and where versions of different parts
    /// cannot be compared. O(parts).
    pub fn lowest(&self) -> ResourceVersion {
        let mut versions = self.all().iter();
        let Some(mut lowest) = versions.next() else { return ResourceVersion::UNSET };
        for version in versions {
            match version.compare(lowest) {
                Some(order) if order.is_lt() => lowest = version,
                Some(_) => {}
                None => return ResourceVersion::UNSET,
            }
        }
        lowest.clone()
    }

    /// The version of each part.
    pub fn iter(&self) -> impl Iterator<Item = (PartId, &ResourceVersion)> {
        (0u32..).map(PartId).zip(self.all())
    }

    /// Moves the version of a part forward to `version`, or to it where the two cannot be compared, as
    /// [`ResourceVersion::advance`] does. An unset version changes nothing, nor does that of a part that there is not.
    pub fn advance(&mut self, part: PartId, version: &ResourceVersion) {
        if version.is_unset() || self.all().get(part.index()).is_none_or(|current| current.reaches(version)) {
            return;
        }
        if let Some(current) = self.get_mut(part) {
            current.clone_from(version);
        }
    }

    fn get_mut(&mut self, part: PartId) -> Option<&mut ResourceVersion> {
        match &mut self.0 {
            Repr::One(only) => (part.index() == 0).then_some(only),
            Repr::Several(versions) => Arc::make_mut(versions).get_mut(part.index()),
        }
    }

    /// Moves the version of a part. Says whether it has changed; that of a part that there is not never does.
    pub fn update(&mut self, part: PartId, update: &VersionUpdate) -> bool {
        let Some(current) = self.all().get(part.index()) else { return false };
        let mut version = current.clone();
        update.apply_to(&mut version);
        if version == *current {
            return false;
        }
        if let Some(current) = self.get_mut(part) {
            *current = version;
        }
        true
    }
}

impl Default for Versions {
    fn default() -> Self {
        Self::unset(1)
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.all() {
            [only] => only.fmt(f),
            all => f.debug_list().entries(all).finish(),
        }
    }
}

/// How the versions of the parts of a store move once it has applied what came before: at most one [`VersionUpdate`] for
/// each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionUpdates(SmallVec<[(PartId, VersionUpdate); 1]>);

impl VersionUpdates {
    /// Leaves every version as it is.
    pub const NONE: Self = Self(SmallVec::new_const());

    /// Moves the version of one part.
    pub fn of(part: PartId, update: VersionUpdate) -> Self {
        let mut updates = Self::NONE;
        updates.append(part, update);
        updates
    }

    /// Whether this leaves every version as it is.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes these do what `next` would do after them.
    pub fn append(&mut self, part: PartId, next: VersionUpdate) {
        if next.is_none() {
            return;
        }
        match self.0.iter_mut().find(|(other, _)| *other == part) {
            Some((_, update)) => update.append(next),
            None => self.0.push((part, next)),
        }
    }

    /// Makes these do what all of `next` would do after them.
    pub fn append_all(&mut self, next: Self) {
        match self.is_none() {
            true => *self = next,
            false => next.0.into_iter().for_each(|(part, update)| self.append(part, update)),
        }
    }

    /// Leaves the versions of other parts as they are.
    pub fn retain(&mut self, mut parts: impl FnMut(PartId) -> bool) {
        self.0.retain(|(part, _)| parts(*part));
    }

    /// What becomes of the version of a part.
    pub fn get(&self, part: PartId) -> Option<&VersionUpdate> {
        self.iter().find(|(other, _)| *other == part).map(|(_, update)| update)
    }

    /// The parts whose versions move.
    pub fn iter(&self) -> impl Iterator<Item = (PartId, &VersionUpdate)> {
        self.0.iter().map(|(part, update)| (*part, update))
    }

    /// Moves versions. Says whether any has changed.
    pub fn apply_to(&self, versions: &mut Versions) -> bool {
        self.iter().fold(false, |changed, (part, update)| versions.update(part, update) | changed)
    }
}

impl From<VersionUpdate> for VersionUpdates {
    /// Of a collection that is not divided.
    fn from(update: VersionUpdate) -> Self {
        Self::of(PartId::ONLY, update)
    }
}

/// One of several [parts](Partition), or the part of a key: what to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartOrKey<'a> {
    /// This part.
    Part(PartId),
    /// The part in which all objects with this key are.
    Key(KeyRef<'a>),
}

impl fmt::Display for PartOrKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => part.fmt(f),
            Self::Key(key) => write!(f, "the key {key}"),
        }
    }
}

impl From<PartId> for PartOrKey<'_> {
    fn from(part: PartId) -> Self {
        Self::Part(part)
    }
}

impl<'a, K: Into<KeyRef<'a>>> From<K> for PartOrKey<'a> {
    fn from(key: K) -> Self {
        Self::Key(key.into())
    }
}

/// A part for each of these namespaces.
#[derive(Clone, Debug)]
pub struct ByNamespace(HashMap<Arc<str>, PartId>);

impl ByNamespace {
    /// The parts in the order of the namespaces. A namespace that comes again is left out.
    pub fn new<N: Into<Arc<str>>>(namespaces: impl IntoIterator<Item = N>) -> Self {
        let mut parts = HashMap::default();
        for namespace in namespaces {
            let next = PartId(u32::try_from(parts.len()).unwrap_or(u32::MAX));
            parts.entry(namespace.into()).or_insert(next);
        }
        Self(parts)
    }
}

impl<T: Object> Partition<T> for ByNamespace {
    fn parts(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    fn part_of(&self, object: &T) -> Option<PartId> {
        Partition::<T>::part_of_key(self, object.key())
    }

    fn part_of_key(&self, key: KeyRef<'_>) -> Option<PartId> {
        self.0.get(key.namespace()?).copied()
    }
}
