//! Batches that were lost, and the lists that bring again what was in them.

use kinformer_core::{DeltaType, Object, PartId, VersionUpdate, VersionUpdates};
use kinformer_delta_fifo::Popped;

/// What a batch has to do with lists.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// It may hold a piece of a list that was taken apart.
    has_pieces: bool,
    /// The parts whose list ends with it.
    ends_lists: Vec<PartId>,
}

impl Batch {
    /// To be asked before the deltas are taken.
    pub(crate) fn of<T: Object>(popped: &Popped<T>) -> Self {
        let piece = |kind| matches!(kind, DeltaType::Replaced | DeltaType::Sync | DeltaType::Deleted);
        let ended = |(part, update): (PartId, &VersionUpdate)| {
            matches!(update, VersionUpdate::Set { .. }).then_some(part)
        };
        Self {
            has_pieces: popped.iter().any(|delta| piece(delta.delta_type())),
            ends_lists: popped.versions().iter().filter_map(ended).collect(),
        }
    }

    fn ends(&self, part: PartId) -> bool {
        self.ends_lists.contains(&part)
    }
}

/// Whether something is missing because its batch was lost. A batch may hold objects of all parts that have listed, so
/// that all of them have to list again.
#[derive(Debug)]
pub(crate) struct Losses {
    /// By number.
    parts: Vec<Loss>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Loss {
    /// Something is missing, and no whole list of the part has been processed since.
    missing: bool,
    /// A batch was lost that may be a piece of the part's list that is being processed.
    in_list: bool,
}

impl Losses {
    pub(crate) fn new(parts: usize) -> Self {
        Self { parts: vec![Loss::default(); parts] }
    }

    /// Whether something is missing.
    pub(crate) fn any(&self) -> bool {
        self.parts.iter().any(|part| part.missing)
    }

    /// Which of these versions are reached once this batch has been processed: those of parts of which nothing is missing.
    pub(crate) fn reached(&self, batch: &Batch, versions: &VersionUpdates) -> VersionUpdates {
        let mut reached = versions.clone();
        reached.retain(|part| {
            let loss = self.parts.get(part.number() as usize);
            loss.is_none_or(|loss| !loss.missing || loss.is_replaced_by(batch, part))
        });
        reached
    }

    /// A batch was processed.
    ///
    /// Returns whether a list that ended with it lacks something itself, so that another one is needed.
    pub(crate) fn processed(&mut self, batch: &Batch) -> bool {
        let mut lacking = false;
        for (number, part) in (0..).zip(&mut self.parts) {
            let id = PartId::new(number);
            lacking |= batch.ends(id) && part.in_list;
            part.missing &= !part.is_replaced_by(batch, id);
            part.in_list &= !batch.ends(id);
        }
        lacking
    }

    /// A batch was lost: other lists are needed of the parts that have listed.
    pub(crate) fn lost(&mut self, batch: &Batch, has_listed: impl Fn(usize) -> bool) {
        for (number, part) in self.parts.iter_mut().enumerate().filter(|(number, _)| has_listed(*number)) {
            part.missing = true;
            part.in_list = (part.in_list || batch.has_pieces) && !batch.ends(PartId::new(number as u32));
        }
    }
}

impl Loss {
    /// Whether a whole list of the part ends with this batch.
    fn is_replaced_by(&self, batch: &Batch, part: PartId) -> bool {
        batch.ends(part) && !self.in_list
    }
}
