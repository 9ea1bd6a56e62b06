//! Tracks lost batches and incomplete lists, and the lists that replace them.

use kinformer_core::{DeltaType, Object, PartId, VersionUpdate, VersionUpdates};
use kinformer_delta_fifo::Popped;

/// The relation of a batch to lists.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// Whether it may contain objects of a list that was split.
    has_pieces: bool,
    /// The parts whose list ends with it, and whether that list is complete.
    ends_lists: Vec<(PartId, bool)>,
}

impl Batch {
    /// Reads the relation. Must be called before the deltas are taken.
    pub(crate) fn of<T: Object>(popped: &Popped<T>) -> Self {
        let piece = |kind| matches!(kind, DeltaType::Replaced | DeltaType::Sync | DeltaType::Deleted);
        let ended = |(part, update): (PartId, &VersionUpdate)| match update {
            VersionUpdate::Set { is_complete, .. } => Some((part, *is_complete)),
            _ => None,
        };
        Self {
            has_pieces: popped.iter().any(|delta| piece(delta.delta_type())),
            ends_lists: popped.versions().iter().filter_map(ended).collect(),
        }
    }

    /// The parts whose list ends with it.
    pub(crate) fn ended_lists(&self) -> impl Iterator<Item = PartId> {
        self.ends_lists.iter().map(|(part, _)| *part)
    }

    fn ends(&self, part: PartId) -> bool {
        self.ended(part).is_some()
    }

    /// Returns whether the list that ends with it is complete, if one does.
    fn ended(&self, part: PartId) -> Option<bool> {
        self.ends_lists.iter().find(|(ended, _)| *ended == part).map(|(_, is_complete)| *is_complete)
    }
}

/// The state that is missing because of lost batches and incomplete lists. A batch may contain objects of all parts with
/// a list, so all these parts must relist. The reflector of an incomplete list repeats it by itself.
#[derive(Debug)]
pub(crate) struct Losses {
    /// The losses of the parts.
    parts: Vec<(PartId, Loss)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Loss {
    /// Whether a batch was lost and no complete list of the part has been processed since.
    missing: bool,
    /// Whether the lost batch may belong to the list of the part that is being processed.
    in_list: bool,
    /// Whether the last list of the part was incomplete: it may lack any object.
    incomplete: bool,
}

impl Losses {
    pub(crate) fn new(parts: impl IntoIterator<Item = PartId>) -> Self {
        Self { parts: parts.into_iter().map(|part| (part, Loss::default())).collect() }
    }

    /// Changes the parts. Those that stay keep their losses.
    pub(crate) fn set_parts(&mut self, parts: impl IntoIterator<Item = PartId>) {
        let kept = |part| (part, self.of(part).copied().unwrap_or_default());
        self.parts = parts.into_iter().map(kept).collect();
    }

    fn of(&self, part: PartId) -> Option<&Loss> {
        self.parts.iter().find(|(other, _)| *other == part).map(|(_, loss)| loss)
    }

    /// Returns whether any state is missing because of a lost batch.
    pub(crate) fn any_lost(&self) -> bool {
        self.parts.iter().any(|(_, loss)| loss.missing)
    }

    /// Returns whether any state is missing, so that versions may not be [reached](Self::reached).
    pub(crate) fn any(&self) -> bool {
        self.parts.iter().any(|(_, loss)| loss.missing || loss.incomplete)
    }

    /// Returns the versions that are reached once this batch has been processed: those of parts without missing state,
    /// and those of lists, complete or not, that lack no lost batch.
    pub(crate) fn reached(&self, batch: &Batch, versions: &VersionUpdates) -> VersionUpdates {
        let mut reached = versions.clone();
        reached.retain(|part| {
            let loss = self.of(part);
            loss.is_none_or(|loss| !loss.missing && !loss.incomplete || loss.is_replaced_by(batch, part))
        });
        reached
    }

    /// Records that a batch was processed. Returns whether a list that ended with it lacks a lost batch, so that
    /// another list is needed.
    pub(crate) fn processed(&mut self, batch: &Batch) -> bool {
        let mut lacks_batch = false;
        for (id, loss) in &mut self.parts {
            lacks_batch |= batch.ends(*id) && loss.in_list;
            loss.missing &= !loss.is_replaced_by(batch, *id);
            loss.in_list &= !batch.ends(*id);
            loss.incomplete = batch.ended(*id).map_or(loss.incomplete, |is_complete| !is_complete);
        }
        lacks_batch
    }

    /// Records that a batch was lost: all parts with a list need another one.
    pub(crate) fn lost(&mut self, batch: &Batch, has_listed: impl Fn(PartId) -> bool) {
        for (id, loss) in self.parts.iter_mut().filter(|(id, _)| has_listed(*id)) {
            loss.missing = true;
            loss.in_list = (loss.in_list || batch.has_pieces) && !batch.ends(*id);
        }
    }
}

impl Loss {
    /// Returns whether a list of the part that lacks no batch ends with this one.
    fn is_replaced_by(&self, batch: &Batch, part: PartId) -> bool {
        batch.ends(part) && !self.in_list
    }
}
