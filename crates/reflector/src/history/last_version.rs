//! The last version of a reflector, and what its next list requests.

use kinformer_core::ResourceVersion;

use crate::SourceError;
use crate::history::went_back;

/// The last version: the sink has everything up to it.
#[derive(Default)]
pub(crate) struct LastVersion {
    current: ResourceVersion,
    /// The oldest version that the first list may have; unset for any.
    not_before: ResourceVersion,
    /// Whether the server no longer has the version: the next list requests the newest.
    unavailable: bool,
    /// The version at which the last watch has expired, or that the last list requested and has: another list that requests
    /// this version may return the same state again.
    repeated_at: Option<ResourceVersion>,
    /// The version after which the last watch received an unidentified event.
    unidentified_event_at: Option<ResourceVersion>,
    /// How often the versions of the source had gone back at the last list.
    went_back_before: u64,
}

impl LastVersion {
    /// The first list has this version or a later one, unless the server does not have it.
    pub(crate) fn not_before(version: ResourceVersion) -> Self {
        Self { not_before: version, ..Self::default() }
    }

    pub(crate) fn get(&self) -> &ResourceVersion {
        &self.current
    }

    /// The last version; before the first list, the one that it may not be before.
    pub(crate) fn known(&self) -> &ResourceVersion {
        if self.current.is_unset() { &self.not_before } else { &self.current }
    }

    /// Returns the version that a list requests: `0` for any state, unset for the newest.
    ///
    /// Follows client-go 0.37 (`relistResourceVersion`).
    pub(crate) fn of_list(&self) -> ResourceVersion {
        match self.of_watch_list() {
            version if version.is_unset() && !self.unavailable => ResourceVersion::number(0),
            version => version,
        }
    }

    /// Returns the version that a watch-list requests: unset for the newest.
    pub(crate) fn of_watch_list(&self) -> ResourceVersion {
        if self.unavailable { ResourceVersion::UNSET } else { self.known().clone() }
    }

    /// Advances the version by that of an event and returns whether it moved. It never moves back: the next watch would
    /// deliver events again.
    pub(crate) fn advance(&mut self, version: &ResourceVersion) -> bool {
        let is_back = self.current.compare(version).is_some_and(std::cmp::Ordering::is_ge);
        let moves = !version.is_unset() && !is_back;
        if moves {
            self.current = version.clone();
        }
        moves
    }

    /// Records a list that the sink has. `went_back` is how often the versions of the source have gone back.
    pub(crate) fn set_listed(&mut self, version: ResourceVersion, went_back: u64) {
        (self.current, self.unavailable, self.went_back_before) = (version, false, went_back);
    }

    /// Returns an error if a list has gone back, unless a watch has found that since the last list.
    pub(crate) fn went_back_at_list(
        &self,
        found: &ResourceVersion,
        went_back_so_far: u64,
    ) -> Option<SourceError> {
        if went_back_so_far == self.went_back_before { went_back(&self.current, found) } else { None }
    }

    /// Records that the server does not have the version. Returns `false` if that was known.
    pub(crate) fn set_unavailable(&mut self) -> bool {
        !std::mem::replace(&mut self.unavailable, true)
    }

    /// Records the version of a list.
    pub(crate) fn note_list(&mut self, requested: ResourceVersion, found: &ResourceVersion) {
        if *found == requested {
            self.repeated_at = Some(requested);
        }
    }

    /// Records that a watch has expired. A list at a version that has expired before, or that a list has returned on request,
    /// could return that version again: the newest state is requested instead.
    pub(crate) fn expired(&mut self) {
        self.unavailable |= self.repeated_at.as_ref() == Some(&self.current);
        self.repeated_at = Some(self.current.clone());
    }

    /// Records an unidentified event. Returns whether it is the second one in a row after this version.
    pub(crate) fn note_unidentified(&mut self) -> bool {
        if self.unidentified_event_at.take_if(|version| *version == self.current).is_some() {
            return true;
        }
        self.unidentified_event_at = Some(self.current.clone());
        false
    }
}
