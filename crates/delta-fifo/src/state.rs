//! What a delta queue keeps behind its lock.

use kinformer_core::{Object, PartId, Parts, VersionUpdate, VersionUpdates};

use crate::backlog::Backlog;
use crate::in_flight::InFlight;
use crate::initial::Initial;

/// What is queued, what has been popped and not processed yet, and the figures of both.
pub(crate) struct State<T, B> {
    pub(crate) backlog: B,
    pub(crate) flight: InFlight<T>,
    pub(crate) initial: Initial,
    /// What was reached while nothing was queued: the next pop gives it out.
    pub(crate) reached: VersionUpdates,
    pub(crate) closed: bool,
    pub(crate) peak_depth: usize,
    pub(crate) popped: u64,
    pub(crate) refused: u64,
}

impl<T: Object, B: Backlog<T>> State<T, B> {
    pub(crate) fn new(backlog: B, parts: Parts<T>) -> Self {
        Self {
            backlog,
            initial: Initial::new(parts.count()),
            flight: InFlight::new(parts),
            reached: VersionUpdates::NONE,
            closed: false,
            peak_depth: 0,
            popped: 0,
            refused: 0,
        }
    }

    /// Notes how the version of a part, if it is known, moves once all that is queued by now has been popped and processed.
    ///
    /// The entry at the end of the queue carries that: it is the last to be popped of all that is queued, also where a
    /// delta has joined an earlier entry.
    pub(crate) fn reaches(&mut self, part: Option<PartId>, version: VersionUpdate) {
        let versions = part.map_or(VersionUpdates::NONE, |part| VersionUpdates::of(part, version));
        if !versions.is_none()
            && let Some(versions) = self.backlog.reaches(versions)
        {
            self.reached.append_all(versions);
        }
    }
}
