//! Which entries the first replace brought, and whether they have been processed.

/// Follows client-go 1.37 (`HasSynced`), except that an entry counts once it has been processed, not already
/// when it is popped.
#[derive(Default)]
pub(crate) struct Initial {
    /// Something was written: from then on the initial list is known.
    populated: bool,
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

    /// A replace has been queued, `entries` in all. Says whether that made the queue synced.
    pub(crate) fn replaced(&mut self, entries: usize) -> bool {
        if std::mem::replace(&mut self.populated, true) {
            return false;
        }
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

    /// How many entries at the front of the queue belong to the initial list.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Entries were popped from the front; says how many of them belong to the initial list.
    pub(crate) fn popped(&mut self, entries: usize) -> usize {
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
