//! Batches that were lost, and the lists that bring again what was in them.

use kinformer_core::{DeltaType, Object, VersionUpdate};
use kinformer_delta_fifo::Popped;

/// What a batch has to do with lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// It may hold a part of a list that was taken apart.
    has_parts: bool,
    /// A list ends with it.
    ends_list: bool,
    /// It is of the first list.
    is_initial: bool,
}

impl Batch {
    /// To be asked before the deltas are taken.
    pub(crate) fn of<T: Object>(popped: &Popped<T>) -> Self {
        let part = |kind| matches!(kind, DeltaType::Replaced | DeltaType::Sync | DeltaType::Deleted);
        Self {
            has_parts: popped.iter().any(|delta| part(delta.delta_type())),
            ends_list: matches!(popped.version(), VersionUpdate::Set(_)),
            is_initial: popped.in_initial_list(),
        }
    }
}

/// Whether something is missing because its batch was lost.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Something is missing, and no whole list has been processed since.
    missing: bool,
    /// A batch was lost that may be a part of the list that is being processed.
    in_list: bool,
}

impl Losses {
    /// Whether something is missing.
    pub(crate) fn any(&self) -> bool {
        self.missing
    }

    /// Whether nothing is missing once this batch has been processed.
    pub(crate) fn is_whole_after(&self, batch: Batch) -> bool {
        !self.missing || (batch.ends_list && !batch.is_initial && !self.in_list)
    }

    /// A batch was processed.
    ///
    /// Returns whether the list that ended with it lacks something itself, so that another one is needed.
    pub(crate) fn processed(&mut self, batch: Batch) -> bool {
        let lacking = batch.ends_list && !batch.is_initial && self.in_list;
        self.missing = !self.is_whole_after(batch);
        self.in_list &= !batch.ends_list;
        lacking
    }

    /// A batch was lost: another list is needed.
    pub(crate) fn lost(&mut self, batch: Batch) {
        self.missing = true;
        self.in_list = (self.in_list || batch.has_parts) && !batch.ends_list;
    }
}
