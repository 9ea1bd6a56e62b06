//! The versions of a source as evidence: whether they have gone back, and whether a watch can be continued.
//!
//! A kube-apiserver has one counter. Other servers have none, or one for each object, or repeat old objects, and are as
//! healthy. So a sign that was wrong twice about a source proves nothing about it any more.

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::internal::contain;
use kinformer_core::{Object, ResourceVersion};
use tokio::time::Instant;

use crate::SourceError;

/// The number of false alarms after which a sign is ignored.
const MAX_FALSE_ALARMS: u32 = 2;
/// The time without an alarm after which the false alarms of a sign are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// A sign that the versions of a source have gone back. The version of a list is another, and always counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// An event is below the version at which its watch started.
    Event,
    /// A bookmark is below that version.
    Bookmark,
    /// The newest version of the source is below the last version.
    Newest,
}

const SIGNS: [Sign; 3] = [Sign::Event, Sign::Bookmark, Sign::Newest];

/// The alarms of one sign.
#[derive(Clone, Copy, Debug)]
struct Alarms {
    last: Instant,
    /// The number of them that a list has disproved.
    disproved: u32,
}

#[derive(Debug)]
pub(crate) struct SourceVersions {
    /// The alarms of each sign, in the order of [`SIGNS`].
    alarms: [Option<Alarms>; SIGNS.len()],
    /// The sign of the alarm that the next list confirms or disproves.
    unconfirmed: Option<Sign>,
    /// Whether the last list had a version.
    listed: bool,
    /// Whether that version was another than 0, so that a watch can continue from the versions of this source.
    is_resumable: bool,
    /// When a list below the last version was last seen below its own objects.
    unrelated_at: Option<Instant>,
    /// Whether a watch from the last version would deliver events again, since their versions are ignored.
    repeats: bool,
    /// Whether a watch from the last version delivers everything since then. Only a source whose events move the last
    /// version, each above the one before, is known for that.
    is_continuous: bool,
}

impl SourceVersions {
    /// `has_versions` is whether its lists are known to have versions.
    pub(crate) fn new(has_versions: bool) -> Self {
        Self {
            alarms: [None; SIGNS.len()],
            unconfirmed: None,
            listed: has_versions,
            is_resumable: false,
            unrelated_at: None,
            repeats: false,
            is_continuous: true,
        }
    }

    fn alarms(&self, sign: Sign) -> Option<Alarms> {
        let [events, bookmarks, newest] = self.alarms;
        let alarms = match sign {
            Sign::Event => events,
            Sign::Bookmark => bookmarks,
            Sign::Newest => newest,
        };
        alarms.filter(|alarms| alarms.last.elapsed() < FORGOTTEN_AFTER)
    }

    fn set_alarms(&mut self, sign: Sign, alarms: Alarms) {
        let [events, bookmarks, newest] = &mut self.alarms;
        let known = match sign {
            Sign::Event => events,
            Sign::Bookmark => bookmarks,
            Sign::Newest => newest,
        };
        *known = Some(alarms);
    }

    /// Returns whether a sign has been wrong too often to prove anything.
    pub(crate) fn is_ignored(&self, sign: Sign) -> bool {
        self.alarms(sign).is_some_and(|alarms| alarms.disproved >= MAX_FALSE_ALARMS)
    }

    /// Returns the number of ignored signs.
    pub(crate) fn ignored(&self) -> u64 {
        SIGNS.map(|sign| u64::from(self.is_ignored(sign))).iter().sum()
    }

    /// Records an alarm. Returns whether it counts. The next list then confirms or disproves it.
    pub(crate) fn alarm(&mut self, sign: Sign) -> bool {
        let counts = !self.is_ignored(sign);
        let disproved = self.alarms(sign).map_or(0, |alarms| alarms.disproved);
        self.set_alarms(sign, Alarms { last: Instant::now(), disproved });
        if counts {
            self.unconfirmed = Some(sign);
        }
        self.repeats |= !counts && sign == Sign::Event;
        counts
    }

    /// Checks the version of a list, which was requested at a version, and is to be applied after the last version.
    ///
    /// # Errors
    /// The list is below the requested version, or it has no version, although the list before it had one. A second one
    /// without a version is accepted.
    pub(crate) fn check_list<T: Object>(
        &mut self,
        requested: &ResourceVersion,
        last: &ResourceVersion,
        found: &ResourceVersion,
        objects: &[Arc<T>],
    ) -> Result<(), SourceError> {
        let had_version = std::mem::replace(&mut self.listed, !found.is_unset());
        if found.is_unset() && had_version {
            return Err(SourceError::MissingVersion { last: last.clone() });
        }
        let is_below = went_back(last, found).is_some();
        if is_below && is_below_its_objects(found, objects) {
            self.unrelated_at = Some(Instant::now());
        }
        let is_back = is_below && !self.has_unrelated_lists();
        if let Some(error) = went_back(requested, found).filter(|_| is_back) {
            return Err(error);
        }
        self.is_resumable = self.listed && *found != ResourceVersion::number(0);
        self.is_continuous &= self.is_resumable;
        self.repeats = false;
        match self.unconfirmed.take() {
            _ if is_back => self.alarms = [None; SIGNS.len()],
            Some(sign) => {
                let disproved = self.alarms(sign).map_or(0, |alarms| alarms.disproved).saturating_add(1);
                self.set_alarms(sign, Alarms { last: Instant::now(), disproved });
            }
            None => {}
        }
        Ok(())
    }

    /// Returns whether lists have another counter than their objects, so that they say nothing about their versions.
    pub(crate) fn has_unrelated_lists(&self) -> bool {
        self.unrelated_at.is_some_and(|seen| seen.elapsed() < FORGOTTEN_AFTER)
    }

    /// Records an applied event of an object, and whether it has moved the last version.
    pub(crate) fn applied(&mut self, moved: bool) {
        self.is_continuous = moved && self.is_resumable;
    }

    /// Records that a bookmark has moved the last version: it is after all events before it.
    pub(crate) fn bookmarked(&mut self) {
        self.repeats = false;
    }

    /// Returns whether another watch from the last version would deliver events again.
    pub(crate) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Returns whether another watch can take the place of a failed one. Otherwise a list is needed, since nothing else
    /// has the deletions in between.
    pub(crate) fn is_continuous(&self) -> bool {
        self.is_continuous
    }
}

/// Returns whether a list is below one of its own objects. The counter of a kube-apiserver never is.
fn is_below_its_objects<T: Object>(found: &ResourceVersion, objects: &[Arc<T>]) -> bool {
    let is_above = |object: &Arc<T>| went_back(&object.resource_version(), found).is_some();
    contain(|| objects.iter().any(is_above)).unwrap_or_default()
}

/// Returns an error if `found` is below `requested`, although only versions from `requested` on were expected. Version 0
/// means any version, and proves nothing.
pub(crate) fn went_back(requested: &ResourceVersion, found: &ResourceVersion) -> Option<SourceError> {
    let is_below = found.compare(requested).is_some_and(std::cmp::Ordering::is_lt);
    let back = is_below && *found != ResourceVersion::number(0);
    back.then(|| SourceError::VersionsWentBack { requested: requested.clone(), found: found.clone() })
}
