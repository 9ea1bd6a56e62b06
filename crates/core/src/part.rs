//! Collections that are divided into parts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::{KeyRef, Object, ResourceVersion, VersionUpdate};

/// A part of a collection: the objects that one of its sources lists and watches, such as a namespace, a selector, a
/// shard or a cluster.
///
/// Parts are numbered from 0, in the order of their sources. An undivided collection has a [single part](Self::ONLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(u32);

impl PartId {
    /// The only part of an undivided collection; the first part of any other.
    pub const ONLY: Self = Self(0);

    /// Creates the part with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number of the part.
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

/// The assignment of objects to parts.
///
/// Each state of an object belongs to at most one part, determined by the state alone. A list of one part therefore
/// replaces only the objects of this part, and a deletion from one part does not remove a state that another part has
/// delivered since. A key may move between parts, for example when an object stops matching one selector and starts
/// matching another. The state with the newer resource version wins, whichever source delivers it first, so
/// versions must be comparable across such parts, as they are on a single server.
///
/// These methods are accessors, like those of [`Object`](crate::Object): they are called under locks, so they must be
/// fast and must not block.
///
/// ```
/// use kinformer_core::{Keyed, PartId, Partition, Parts};
///
/// /// Even and odd ports, which two sources list and watch.
/// struct Parity;
///
/// impl Partition<Keyed<u16>> for Parity {
///     fn parts(&self) -> u32 {
///         2
///     }
///
///     fn part_of(&self, port: &Keyed<u16>) -> Option<PartId> {
///         Some(PartId::new((**port % 2).into()))
///     }
/// }
///
/// # fn main() -> Result<(), kinformer_core::KeyError> {
/// let parts = Parts::new(Parity);
/// assert_eq!(parts.of(&Keyed::by(|_| "https", 443)?), Some(PartId::new(1)));
/// # Ok(())
/// # }
/// ```
pub trait Partition<T>: Send + Sync {
    /// Returns the number of parts, at least 1. Parts have the [`PartId`]s from 0. Called once.
    fn parts(&self) -> u32;

    /// Returns the part of an object. `None`, or a part outside the range, means that the object belongs to no part.
    fn part_of(&self, object: &T) -> Option<PartId>;

    /// Returns the part of all objects with this key; `None` if the key does not determine it.
    fn part_of_key(&self, _key: KeyRef<'_>) -> Option<PartId> {
        None
    }
}

/// The parts of a collection: a [single part](Self::one) by default, otherwise those of a [`Partition`]. Cheap to
/// clone.
///
/// ```
/// use kinformer_core::{ByNamespace, KeyRef, Keyed, PartId, Parts};
///
/// let parts = Parts::<Keyed<u16>>::new(ByNamespace::new(["team-a", "team-b"]));
/// assert_eq!(parts.count(), 2);
/// assert_eq!(parts.of_key(KeyRef::new("team-b", "web")), Some(PartId::new(1)));
/// assert_eq!(parts.of_key(KeyRef::new("team-c", "web")), None);
/// ```
pub struct Parts<T> {
    partition: Option<Arc<dyn Partition<T>>>,
    count: u32,
}

impl<T> Parts<T> {
    /// Creates the parts of an undivided collection: every object is in [`PartId::ONLY`].
    pub const fn one() -> Self {
        Self { partition: None, count: 1 }
    }

    /// Creates the parts of this partition.
    pub fn new(partition: impl Partition<T> + 'static) -> Self {
        let count = partition.parts().max(1);
        Self { partition: Some(Arc::new(partition)), count }
    }

    /// Returns the number of parts, at least 1.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns all parts.
    pub fn ids(&self) -> impl Iterator<Item = PartId> + use<T> {
        (0..self.count).map(PartId)
    }

    /// Returns whether the collection is divided.
    pub fn is_divided(&self) -> bool {
        self.partition.is_some()
    }

    pub(crate) fn exists(&self, part: &PartId) -> bool {
        part.0 < self.count
    }

    /// Returns the part of an object; `None` if it belongs to no part.
    #[inline]
    pub fn of(&self, object: &T) -> Option<PartId> {
        match &self.partition {
            None => Some(PartId::ONLY),
            Some(partition) => partition.part_of(object).filter(|part| self.exists(part)),
        }
    }

    /// Returns the part of all objects with this key; `None` if the key does not determine it.
    pub fn of_key(&self, key: KeyRef<'_>) -> Option<PartId> {
        match &self.partition {
            None => Some(PartId::ONLY),
            Some(partition) => partition.part_of_key(key).filter(|part| self.exists(part)),
        }
    }

    /// Returns whether an object belongs to this part.
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
/// Versions of different parts may come from different servers, so there is no single version of the collection. Use
/// the version of one [part](Self::of), or the [lowest](Self::lowest).
///
/// ```
/// use kinformer_core::{PartId, Versions};
///
/// let (a, b) = (PartId::new(0), PartId::new(1));
/// let mut versions = Versions::unset(2);
/// versions.advance(a, &12.into());
/// assert!(versions.lowest().is_unset(), "the second part has no version yet");
/// versions.advance(b, &7.into());
/// assert_eq!((versions.of(a), versions.lowest()), (&12.into(), 7.into()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Versions(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    One(ResourceVersion),
    /// Indexed by part number.
    Several(Arc<Vec<ResourceVersion>>),
}

impl Versions {
    /// Creates unset versions for this number of parts.
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

    /// Returns the version of a part; unset if the part has no version yet or does not exist.
    pub fn of(&self, part: PartId) -> &ResourceVersion {
        const UNSET: &ResourceVersion = &ResourceVersion::UNSET;
        self.all().get(part.index()).unwrap_or(UNSET)
    }

    /// Returns the version that every part has reached; unset if a part has no version yet or the versions cannot be
    /// compared. O(parts).
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

    /// Returns the version of each part.
    pub fn iter(&self) -> impl Iterator<Item = (PartId, &ResourceVersion)> {
        (0u32..).map(PartId).zip(self.all())
    }

    /// Advances the version of a part, as [`ResourceVersion::advance`] does: sets it to `version` if `version` is newer or
    /// cannot be compared. An unset version changes nothing, nor does the version of a part that does not exist.
    pub fn advance(&mut self, part: PartId, version: &ResourceVersion) {
        let is_reached = |current: &ResourceVersion| version.is_unset() || current.reaches(version);
        match &mut self.0 {
            Repr::One(only) if part.index() == 0 && !is_reached(only) => only.clone_from(version),
            Repr::Several(versions)
                if versions.get(part.index()).is_some_and(|current| !is_reached(current)) =>
            {
                if let Some(current) = Arc::make_mut(versions).get_mut(part.index()) {
                    current.clone_from(version);
                }
            }
            _ => {}
        }
    }

    fn get_mut(&mut self, part: PartId) -> Option<&mut ResourceVersion> {
        match &mut self.0 {
            Repr::One(only) => (part.index() == 0).then_some(only),
            Repr::Several(versions) => Arc::make_mut(versions).get_mut(part.index()),
        }
    }

    /// Applies an update to the version of a part. Returns whether the version changed; `false` if the part does not
    /// exist.
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

/// How the versions of the parts of a store change after it has applied all preceding deltas: at most one
/// [`VersionUpdate`] for each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionUpdates(SmallVec<[(PartId, VersionUpdate); 1]>);

impl VersionUpdates {
    /// An update that leaves every version unchanged.
    pub const NONE: Self = Self(SmallVec::new_const());

    /// Creates the update of one part's version.
    pub fn of(part: PartId, update: VersionUpdate) -> Self {
        let mut updates = Self::NONE;
        updates.append(part, update);
        updates
    }

    /// Returns whether this leaves every version unchanged.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Merges `next` into these updates, as [`VersionUpdate::append`] does.
    #[inline]
    pub fn append(&mut self, part: PartId, next: VersionUpdate) {
        if next.is_none() {
            return;
        }
        if self.is_none() {
            self.0 = SmallVec::from_buf([(part, next)]);
            return;
        }
        match self.0.iter_mut().find(|(other, _)| *other == part) {
            Some((_, update)) => update.append(next),
            None => self.0.push((part, next)),
        }
    }

    /// Merges all of `next` into these updates, as [`VersionUpdate::append`] does.
    #[inline]
    pub fn append_all(&mut self, next: Self) {
        match next.0.into_inner() {
            Ok([(part, update)]) => self.append(part, update),
            Err(next) if self.is_none() => self.0 = next,
            Err(next) => next.into_iter().for_each(|(part, update)| self.append(part, update)),
        }
    }

    /// Drops the updates of the parts for which `parts` returns `false`, leaving their versions unchanged.
    pub fn retain(&mut self, mut parts: impl FnMut(PartId) -> bool) {
        self.0.retain(|(part, _)| parts(*part));
    }

    /// Returns the update of a part's version.
    pub fn get(&self, part: PartId) -> Option<&VersionUpdate> {
        self.iter().find(|(other, _)| *other == part).map(|(_, update)| update)
    }

    /// Returns the updates by part.
    pub fn iter(&self) -> impl Iterator<Item = (PartId, &VersionUpdate)> {
        self.0.iter().map(|(part, update)| (*part, update))
    }

    /// Applies the updates. Returns whether any version changed.
    pub fn apply_to(&self, versions: &mut Versions) -> bool {
        self.iter().fold(false, |changed, (part, update)| versions.update(part, update) | changed)
    }
}

impl From<VersionUpdate> for VersionUpdates {
    /// Creates the update of an undivided collection.
    fn from(update: VersionUpdate) -> Self {
        Self::of(PartId::ONLY, update)
    }
}

/// A [part](Partition), or a key that determines it: the target of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartOrKey<'a> {
    /// This part.
    Part(PartId),
    /// The part of all objects with this key.
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

/// A partition with one part for each of these namespaces, and possibly one for all others.
#[derive(Clone, Debug)]
pub struct ByNamespace {
    named: HashMap<Arc<str>, PartId>,
    has_others: bool,
}

impl ByNamespace {
    /// Creates one part for each namespace, in this order. Repeated namespaces are ignored.
    pub fn new<N: Into<Arc<str>>>(namespaces: impl IntoIterator<Item = N>) -> Self {
        let mut parts = HashMap::default();
        for namespace in namespaces {
            let next = PartId(u32::try_from(parts.len()).unwrap_or(u32::MAX));
            parts.entry(namespace.into()).or_insert(next);
        }
        Self { named: parts, has_others: false }
    }

    /// Adds a last part for the objects of all other namespaces.
    ///
    /// ```
    /// use kinformer_core::{ByNamespace, KeyRef, Keyed, PartId, Parts};
    ///
    /// let parts = Parts::<Keyed<u16>>::new(ByNamespace::new(["team-a"]).with_others());
    /// assert_eq!(parts.of_key(KeyRef::new("team-b", "web")), Some(PartId::new(1)));
    /// assert_eq!(parts.of_key(KeyRef::named("web")), None);
    /// ```
    #[must_use]
    pub fn with_others(mut self) -> Self {
        self.has_others = true;
        self
    }

    fn count(&self) -> u32 {
        u32::try_from(self.named.len()).unwrap_or(u32::MAX)
    }
}

impl<T: Object> Partition<T> for ByNamespace {
    fn parts(&self) -> u32 {
        self.count().saturating_add(u32::from(self.has_others))
    }

    fn part_of(&self, object: &T) -> Option<PartId> {
        Partition::<T>::part_of_key(self, object.key())
    }

    fn part_of_key(&self, key: KeyRef<'_>) -> Option<PartId> {
        let others = || self.has_others.then(|| PartId(self.count()));
        self.named.get(key.namespace()?).copied().or_else(others)
    }
}
