//! The versions of a source as evidence: whether they have gone back, and whether a watch can be continued.
//!
//! A kube-apiserver has one counter. Other servers have none, or one for each object, or repeat old objects, and are as
//! healthy. So a sign that was wrong twice about a source proves nothing about it any more.

use std::time::Duration;

use kinformer_core::ResourceVersion;
use tokio::time::Instant;

use crate::SourceError;

/// The number of false alarms after which a sign is ignored.
const MAX_FALSE_ALARMS: u32 = 2;
/// The time without an alarm after which the false alarms of a sign are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// A sign that the versions of a source have gone back. The versions of lists and bookmarks are others, and always
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// An event is below the version at which its watch started.
    Event,
    /// The newest version of the source is below the last version.
    Newest,
}

/// The alarms of one sign.
#[derive(Clone, Copy, Debug)]
struct Alarms {
    last: Instant,
    /// The number of them that a list has disproved.
    disproved: u32,
}

#[derive(Debug)]
pub(crate) struct SourceVersions {
    alarms: [Option<Alarms>; 2],
    /// The sign of the alarm that the next list confirms or disproves.
    unconfirmed: Option<Sign>,
    /// Whether the last list had a version.
    listed: bool,
    /// Whether a watch from the last version delivers everything since then. Only a source whose events move the last
    /// version, each above the one before, is known for that.
    is_continuous: bool,
}

impl SourceVersions {
    pub(crate) fn new() -> Self {
        Self { alarms: [None; 2], unconfirmed: None, listed: false, is_continuous: true }
    }

    fn alarms(&self, sign: Sign) -> Option<Alarms> {
        let [events, newest] = self.alarms;
        let alarms = if sign == Sign::Event { events } else { newest };
        alarms.filter(|alarms| alarms.last.elapsed() < FORGOTTEN_AFTER)
    }

    fn set_alarms(&mut self, sign: Sign, alarms: Alarms) {
        let [events, newest] = &mut self.alarms;
        *(if sign == Sign::Event { events } else { newest }) = Some(alarms);
    }

    /// Returns whether a sign has been wrong too often to prove anything.
    pub(crate) fn is_ignored(&self, sign: Sign) -> bool {
        self.alarms(sign).is_some_and(|alarms| alarms.disproved >= MAX_FALSE_ALARMS)
    }

    /// Returns the number of ignored signs.
    pub(crate) fn ignored(&self) -> u64 {
        [Sign::Event, Sign::Newest].map(|sign| u64::from(self.is_ignored(sign))).iter().sum()
    }

    /// Records an alarm. Returns whether it counts. The next list then confirms or disproves it.
    pub(crate) fn alarm(&mut self, sign: Sign) -> bool {
        let counts = !self.is_ignored(sign);
        let disproved = self.alarms(sign).map_or(0, |alarms| alarms.disproved);
        self.set_alarms(sign, Alarms { last: Instant::now(), disproved });
        if counts {
            self.unconfirmed = Some(sign);
        }
        counts
    }

    /// Checks the version of a list, which was requested at a version, and is to be applied after the last version.
    ///
    /// # Errors
    /// The list is below the requested version, or it has no version, although the list before it had one. A second one
    /// without a version is accepted.
    pub(crate) fn check_list(
        &mut self,
        requested: &ResourceVersion,
        last: &ResourceVersion,
        found: &ResourceVersion,
    ) -> Result<(), SourceError> {
        let had_version = std::mem::replace(&mut self.listed, !found.is_unset());
        if found.is_unset() && had_version {
            return Err(SourceError::MissingVersion { last: last.clone() });
        }
        if let Some(error) = went_back(requested, found) {
            return Err(error);
        }
        self.is_continuous &= self.listed;
        match self.unconfirmed.take() {
            _ if went_back(last, found).is_some() => self.alarms = [None; 2],
            Some(sign) => {
                let disproved = self.alarms(sign).map_or(0, |alarms| alarms.disproved).saturating_add(1);
                self.set_alarms(sign, Alarms { last: Instant::now(), disproved });
            }
            None => {}
        }
        Ok(())
    }

    /// Records an applied event of an object, and whether it has moved the last version.
    pub(crate) fn applied(&mut self, moved: bool) {
        self.is_continuous = moved;
    }

    /// Returns whether another watch can take the place of a failed one. Otherwise a list is needed, since nothing else
    /// has the deletions in between.
    pub(crate) fn is_continuous(&self) -> bool {
        self.is_continuous
    }
}

/// Returns an error if `found` is below `requested`, although only versions from `requested` on were expected.
pub(crate) fn went_back(requested: &ResourceVersion, found: &ResourceVersion) -> Option<SourceError> {
    let back = found.compare(requested).is_some_and(std::cmp::Ordering::is_lt);
    back.then(|| SourceError::VersionsWentBack { requested: requested.clone(), found: found.clone() })
}
