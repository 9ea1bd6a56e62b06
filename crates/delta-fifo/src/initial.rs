//! Which entries the first replace brought, and whether they have been processed.

/// Follows client-go 1.37 (`HasSynced`), except that an entry counts once it has been processed, not already
/// when it is popped.
#[derive(Default)]
pub(crate) struct Initial {
    /// Something was written: from then on the initial list is known.
    populated: bool,
    /// Entries in front of the initial list that are still queued: a bookmark or a resync may come before it.
    before: usize,
    /// Entries of the initial list that are still queued.
    queued: usize,
    /// Entries of the initial list that have not been processed.
    unprocessed: usize,
}

impl Initial {
    /// An object was written: without a replace before, there is no initial list. Says whether that made the
    /// queue synced.
    pub(crate) fn written(&mut self) -> bool {
        !std::mem::replace(&mut self.populated, true)
    }

    /// A replace has queued `entries` at the end, behind `before` others. Says whether that made the queue
    /// synced.
    pub(crate) fn replaced(&mut self, before: usize, entries: usize) -> bool {
        if std::mem::replace(&mut self.populated, true) {
            return false;
        }
        self.before = before;
        self.queued = entries;
        self.unprocessed = entries;
        entries == 0
    }

    pub(crate) fn is_populated(&self) -> bool {
        self.populated
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.populated && self.unprocessed == 0
    }

    /// How many of the next `max` entries may be popped together, and whether they are of the initial list.
    /// A batch begins and ends with that list.
    pub(crate) fn next(&self, max: usize) -> (usize, bool) {
        match (self.before, self.queued) {
            (0, 0) => (max, false),
            (0, queued) => (max.min(queued), true),
            (before, _) => (max.min(before), false),
        }
    }

    /// Entries were popped from the front, no more than [`Self::next`] allowed; says how many of them belong
    /// to the initial list.
    pub(crate) fn popped(&mut self, entries: usize) -> usize {
        if self.before > 0 {
            self.before -= entries.min(self.before);
            return 0;
        }
        let initial = entries.min(self.queued);
        self.queued -= initial;
        initial
    }

    /// Entries of the initial list have been processed. Says whether that made the queue synced.
    pub(crate) fn processed(&mut self, initial: usize) -> bool {
        self.unprocessed -= initial;
        initial > 0 && self.unprocessed == 0
    }
}
