//! The state of a delta queue behind its lock.

use kinformer_core::{Object, PartId, Parts, VersionUpdate, VersionUpdates};

use crate::backlog::Backlog;
use crate::in_flight::InFlight;
use crate::initial::Initial;

/// The queued deltas, the keys in flight, and the counters of both.
pub(crate) struct State<T, B> {
    pub(crate) backlog: B,
    pub(crate) flight: InFlight<T>,
    pub(crate) initial: Initial<T>,
    /// Versions reached while nothing was queued; returned by the next pop.
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
            initial: Initial::new(parts.clone()),
            flight: InFlight::new(parts),
            reached: VersionUpdates::NONE,
            closed: false,
            peak_depth: 0,
            popped: 0,
            refused: 0,
        }
    }

    /// Records the version update of a part, if known, that takes effect once everything queued so far has been popped
    /// and processed.
    ///
    /// It is attached to the last entry of the queue, which is popped after everything else queued so far, even if a
    /// delta was merged into an earlier entry.
    pub(crate) fn attach_version(&mut self, part: Option<PartId>, version: VersionUpdate) {
        if let Some(part) = part {
            self.backlog.reached().unwrap_or(&mut self.reached).append(part, version);
        }
    }
}
