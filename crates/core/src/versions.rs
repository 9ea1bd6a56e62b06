//! The resource versions of the parts of a collection.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::{PartId, ResourceVersion, VersionUpdate};

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
    One((PartId, ResourceVersion)),
    /// In the order of the parts.
    Several(Arc<Vec<(PartId, ResourceVersion)>>),
}

impl Versions {
    /// Creates unset versions for this number of parts.
    pub fn unset(parts: u32) -> Self {
        Self::of_parts((0..parts).map(PartId))
    }

    /// Creates unset versions for these parts.
    pub fn of_parts(parts: impl IntoIterator<Item = PartId>) -> Self {
        Self::new(parts.into_iter().map(|part| (part, ResourceVersion::UNSET)).collect())
    }

    fn new(mut versions: Vec<(PartId, ResourceVersion)>) -> Self {
        versions.sort_unstable_by_key(|(part, _)| *part);
        versions.dedup_by_key(|(part, _)| *part);
        let versions = <[_; 1]>::try_from(versions);
        Self(versions.map_or_else(|several| Repr::Several(Arc::new(several)), |[one]| Repr::One(one)))
    }

    /// Changes the parts. A part that stays keeps its version; that of a new part is unset.
    pub fn set_parts(&mut self, parts: impl IntoIterator<Item = PartId>) {
        *self = Self::new(parts.into_iter().map(|part| (part, self.of(part).clone())).collect());
    }

    fn all(&self) -> &[(PartId, ResourceVersion)] {
        match &self.0 {
            Repr::One(version) => std::slice::from_ref(version),
            Repr::Several(versions) => versions,
        }
    }

    /// Returns the version of a part; `None` if there is no such part.
    #[inline]
    pub fn get(&self, part: PartId) -> Option<&ResourceVersion> {
        match &self.0 {
            Repr::One((only, version)) => (*only == part).then_some(version),
            Repr::Several(versions) => versions.get(place(versions, part)?).map(|(_, version)| version),
        }
    }

    /// Returns the version of a part; unset if the part has no version yet or does not exist.
    pub fn of(&self, part: PartId) -> &ResourceVersion {
        const UNSET: &ResourceVersion = &ResourceVersion::UNSET;
        self.get(part).unwrap_or(UNSET)
    }

    /// Returns the version that every part has reached; unset if a part has no version yet, the versions cannot be
    /// compared, or there is no part. O(parts).
    pub fn lowest(&self) -> ResourceVersion {
        let mut versions = self.all().iter().map(|(_, version)| version);
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
        self.all().iter().map(|(part, version)| (*part, version))
    }

    /// Advances the version of a part, as [`ResourceVersion::advance`] does: sets it to `version` if `version` is newer or
    /// cannot be compared. An unset version changes nothing, nor does the version of a part that does not exist.
    pub fn advance(&mut self, part: PartId, version: &ResourceVersion) {
        let is_reached = |current: &ResourceVersion| version.is_unset() || current.reaches(version);
        if self.get(part).is_some_and(|current| !is_reached(current))
            && let Some(current) = self.get_mut(part)
        {
            current.clone_from(version);
        }
    }

    fn get_mut(&mut self, part: PartId) -> Option<&mut ResourceVersion> {
        match &mut self.0 {
            Repr::One((only, version)) => (*only == part).then_some(version),
            Repr::Several(versions) => {
                let place = place(versions, part)?;
                Arc::make_mut(versions).get_mut(place).map(|(_, version)| version)
            }
        }
    }

    /// Applies an update to the version of a part. Returns whether the version changed; `false` if the part does not
    /// exist.
    #[doc(alias = "ResourceVersionUpdater")]
    pub fn update(&mut self, part: PartId, update: &VersionUpdate) -> bool {
        let Some(current) = self.get(part) else { return false };
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

/// Returns the place of a part among versions in the order of the parts.
fn place(versions: &[(PartId, ResourceVersion)], part: PartId) -> Option<usize> {
    let is_at = |place: &usize| versions.get(*place).is_some_and(|(other, _)| *other == part);
    // Parts that never changed are at the places of their numbers.
    let at_number = Some(part.0 as usize).filter(is_at);
    at_number.or_else(|| versions.binary_search_by_key(&part, |(other, _)| *other).ok())
}

impl Default for Versions {
    fn default() -> Self {
        Self::unset(1)
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.all() {
            [(_, only)] => only.fmt(f),
            all => f.debug_list().entries(all.iter().map(|(_, version)| version)).finish(),
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
