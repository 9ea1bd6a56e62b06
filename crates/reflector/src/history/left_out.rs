//! Objects that were left out although their keys are known: they did not decode, or the sink refused them, as for a failed
//! transform. A list requests each of them once more.

use std::collections::{BTreeMap, BTreeSet};

use kinformer_core::internal::contain;
use kinformer_core::{KnownObjects, Object, ObjectKey, ResourceVersion};

/// The number of objects that are requested again. If more are left out, the cause is not damage that passes.
const MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// The objects to be requested again, and the last version before the states that were left out, or that of their list.
    pending: BTreeMap<ObjectKey, ResourceVersion>,
    /// The objects that were left out of another list, which are not requested again until a list has them.
    requested: BTreeSet<ObjectKey>,
}

impl LeftOut {
    /// Records an object. Returns whether a list is to request it again.
    pub(crate) fn add(&mut self, key: ObjectKey, version: &ResourceVersion) -> bool {
        if self.requested.contains(&key) || self.pending.len() + self.requested.len() >= MAX {
            return false;
        }
        self.pending.insert(key, version.clone());
        true
    }

    /// Records the objects that were left out of a list. Returns whether another list is to request some of them again.
    pub(crate) fn listed(&mut self, left_out: Vec<ObjectKey>, version: &ResourceVersion) -> bool {
        let Self { pending, requested } = std::mem::take(self);
        let (again, new): (Vec<_>, Vec<_>) =
            left_out.into_iter().partition(|key| pending.contains_key(key) || requested.contains(key));
        if again.len() + new.len() > MAX {
            self.requested = requested;
            return false;
        }
        self.requested.extend(again);
        let mut wanted = false;
        for key in new {
            wanted |= self.add(key, version);
        }
        wanted
    }

    /// Returns whether objects are to be requested again. Forgets them if the consumer has later states of all.
    pub(crate) fn is_pending<T: Object>(&mut self, known: Option<&dyn KnownObjects<T>>) -> bool {
        let has_later = |key: &ObjectKey, version: &ResourceVersion| {
            let stored = known.and_then(|known| known.get_by_key(key.as_key()));
            stored.is_some_and(|stored| {
                version.compare(&stored.resource_version()).is_some_and(std::cmp::Ordering::is_lt)
            })
        };
        self.pending.retain(|key, version| !contain(|| has_later(key, version)).unwrap_or_default());
        !self.pending.is_empty()
    }
}
