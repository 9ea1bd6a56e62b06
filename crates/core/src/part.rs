//! Collections that are divided into parts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

use crate::{KeyRef, Object};

/// A part of a collection: the objects that one of its sources lists and watches, such as a namespace, a selector, a
/// shard or a cluster.
///
/// Parts are numbered from 0, in the order of their sources. An undivided collection has a [single part](Self::ONLY). A
/// collection whose parts [change](Parts::set) never uses a number again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub(crate) u32);

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
    /// Returns the number of parts. Parts have the [`PartId`]s from 0. Called once.
    fn parts(&self) -> u32;

    /// Returns the part of an object. `None`, or a part outside the range, means that the object belongs to no part.
    fn part_of(&self, object: &T) -> Option<PartId>;

    /// Returns the part of all objects with this key; `None` if the key does not determine it.
    fn part_of_key(&self, _key: KeyRef<'_>) -> Option<PartId> {
        None
    }

    /// Returns whether a stored object stays when its part is new. Asked when the parts [change](Parts::set): for objects that
    /// the source of the new part does not have, such as those that other selectors do not match. They leave at once, as
    /// those without a part do.
    fn stays(&self, _object: &T) -> bool {
        true
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
pub struct Parts<T>(Division<T>);

enum Division<T> {
    One,
    Fixed { partition: Arc<dyn Partition<T>>, count: u32 },
    Changeable(Arc<Changeable<T>>),
}

/// Parts that can change, and that all clones share.
struct Changeable<T> {
    /// The number of the only part of an undivided collection, else `DIVIDED`. Read without the lock.
    only: AtomicU32,
    numbered: RwLock<Numbered<T>>,
}

const DIVIDED: u32 = u32::MAX;

struct Numbered<T> {
    division: Parts<T>,
    /// The number of each part, by its number in the division.
    ids: Vec<PartId>,
}

impl<T> Changeable<T> {
    #[inline]
    fn only(&self) -> Option<PartId> {
        let only = self.only.load(Ordering::Acquire);
        (only != DIVIDED).then_some(PartId(only))
    }

    fn set(&self, division: Parts<T>, ids: Vec<PartId>) {
        let only = match ids.as_slice() {
            [only] if !division.is_divided() => only.0,
            _ => DIVIDED,
        };
        let mut numbered = self.numbered.write();
        let before = std::mem::replace(&mut *numbered, Numbered { division, ids });
        self.only.store(only, Ordering::Release);
        drop(numbered);
        drop(before);
    }

    #[inline]
    fn find(&self, place: impl FnOnce(&Parts<T>) -> Option<PartId>) -> Option<PartId> {
        self.only().or_else(|| {
            let Numbered { division, ids } = &*self.numbered.read();
            ids.get(place(division)?.0 as usize).copied()
        })
    }
}

impl<T> Parts<T> {
    /// Creates the parts of an undivided collection: every object is in [`PartId::ONLY`].
    pub const fn one() -> Self {
        Self(Division::One)
    }

    /// Creates the parts of this partition.
    pub fn new(partition: impl Partition<T> + 'static) -> Self {
        let count = partition.parts();
        Self(Division::Fixed { partition: Arc::new(partition), count })
    }

    /// Returns the same parts, which [`set`](Self::set) can change. An undivided collection stays as cheap as before; look-ups
    /// in a divided one take a short lock.
    #[must_use]
    pub fn changeable(self) -> Self {
        let ids = self.ids();
        let changeable = Changeable {
            only: AtomicU32::new(DIVIDED),
            numbered: RwLock::new(Numbered { division: Self::one(), ids: Vec::new() }),
        };
        changeable.set(self, ids);
        Self(Division::Changeable(Arc::new(changeable)))
    }

    /// Changes the parts, for all clones of this value: to those of `division`, which get these numbers in their order. A part
    /// that stays keeps its number; a number is never used for another part. Returns `false` without any effect if the parts
    /// are not [changeable](Self::changeable), or if `division` has not as many parts as there are numbers.
    ///
    /// What holds objects by their parts must be changed after it, such as a store.
    ///
    /// ```
    /// use kinformer_core::{ByNamespace, KeyRef, Keyed, PartId, Parts};
    ///
    /// let [a, b] = [KeyRef::new("team-a", "web"), KeyRef::new("team-b", "web")];
    /// let parts = Parts::<Keyed<u16>>::new(ByNamespace::new(["team-a"])).changeable();
    /// assert!(parts.set(Parts::new(ByNamespace::new(["team-b", "team-a"])), vec![1.into(), 0.into()]));
    /// assert_eq!([parts.of_key(a), parts.of_key(b)], [Some(PartId::new(0)), Some(PartId::new(1))]);
    /// assert!(parts.set(Parts::one(), vec![2.into()]));
    /// assert_eq!([parts.of_key(a), parts.of_key(b)], [Some(PartId::new(2)); 2]);
    /// ```
    pub fn set(&self, division: Self, ids: Vec<PartId>) -> bool {
        match &self.0 {
            Division::Changeable(changeable) if division.count() as usize == ids.len() => {
                changeable.set(division, ids);
                true
            }
            _ => false,
        }
    }

    /// Returns the number of parts.
    pub fn count(&self) -> u32 {
        match &self.0 {
            Division::One => 1,
            Division::Fixed { count, .. } => *count,
            Division::Changeable(changeable) => {
                u32::try_from(changeable.numbered.read().ids.len()).unwrap_or(u32::MAX)
            }
        }
    }

    /// Returns all parts.
    pub fn ids(&self) -> Vec<PartId> {
        match &self.0 {
            Division::One => vec![PartId::ONLY],
            Division::Fixed { count, .. } => (0..*count).map(PartId).collect(),
            Division::Changeable(changeable) => changeable.numbered.read().ids.clone(),
        }
    }

    /// Returns whether the collection is divided.
    #[inline]
    pub fn is_divided(&self) -> bool {
        self.only().is_none()
    }

    /// Returns the part of all objects of an undivided collection; `None` if it is divided.
    #[inline]
    pub fn only(&self) -> Option<PartId> {
        match &self.0 {
            Division::One => Some(PartId::ONLY),
            Division::Fixed { .. } => None,
            Division::Changeable(changeable) => changeable.only(),
        }
    }

    /// Returns whether the parts can [change](Self::set).
    pub fn is_changeable(&self) -> bool {
        matches!(self.0, Division::Changeable(_))
    }

    /// Returns whether there is this part.
    pub fn exists(&self, part: PartId) -> bool {
        match &self.0 {
            Division::One => part == PartId::ONLY,
            Division::Fixed { count, .. } => part.0 < *count,
            Division::Changeable(changeable) => changeable.numbered.read().ids.contains(&part),
        }
    }

    /// Returns the part of an object; `None` if it belongs to no part.
    #[inline]
    pub fn of(&self, object: &T) -> Option<PartId> {
        match &self.0 {
            Division::One => Some(PartId::ONLY),
            Division::Fixed { partition, count } => partition.part_of(object).filter(|part| part.0 < *count),
            Division::Changeable(changeable) => changeable.find(|division| division.of(object)),
        }
    }

    /// Returns the part of all objects with this key; `None` if the key does not determine it.
    pub fn of_key(&self, key: KeyRef<'_>) -> Option<PartId> {
        match &self.0 {
            Division::One => Some(PartId::ONLY),
            Division::Fixed { partition, count } => partition.part_of_key(key).filter(|part| part.0 < *count),
            Division::Changeable(changeable) => changeable.find(|division| division.of_key(key)),
        }
    }

    /// Returns whether an object [stays](Partition::stays) if its part is new.
    pub fn stays(&self, object: &T) -> bool {
        match &self.0 {
            Division::One => true,
            Division::Fixed { partition, .. } => partition.stays(object),
            Division::Changeable(changeable) => {
                changeable.only().is_some() || changeable.numbered.read().division.stays(object)
            }
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
        Self(match &self.0 {
            Division::One => Division::One,
            Division::Fixed { partition, count } => {
                Division::Fixed { partition: partition.clone(), count: *count }
            }
            Division::Changeable(changeable) => Division::Changeable(changeable.clone()),
        })
    }
}

impl<T> fmt::Debug for Parts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parts").field(&self.count()).finish()
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
