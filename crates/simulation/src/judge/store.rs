//! The states of a store.

use std::collections::BTreeMap;

use super::{as_stored, difference};
use crate::record::{Objects, Record};

/// The versions that a store has shown, by the prefix of the keys of each part.
#[derive(Debug, Default)]
pub(crate) struct StoreView {
    /// With the number of restored backups before it.
    versions: BTreeMap<String, (usize, u64)>,
    /// Whether objects may be newer than the version: a queue without atomic lists pops parts of a list.
    may_be_ahead: bool,
    /// Whether the parts have changed.
    has_changed_parts: bool,
}

impl StoreView {
    /// Creates the view of a store that has shown nothing.
    pub(crate) fn new(may_be_ahead: bool) -> Self {
        Self { may_be_ahead, ..Self::default() }
    }

    /// The parts change. `stays` is whether the part with this prefix goes on. Objects that stay may be newer than the first
    /// list of their new part.
    pub(crate) fn parts_change(&mut self, stays: impl Fn(&str) -> bool) {
        self.versions.retain(|prefix, _| stays(prefix));
        (self.may_be_ahead, self.has_changed_parts) = (true, true);
    }

    /// Checks a snapshot of the store at the version of each part, which is `None` before the first list of the part.
    ///
    /// # Errors
    /// A version went back although no backup was restored, or the objects are not those of the server at these versions.
    /// After an incomplete list, the store may have objects that were deleted.
    pub(crate) fn check(
        &mut self,
        history: Record<'_>,
        versions: &[(String, Option<u64>)],
        objects: &Objects,
        is_incomplete: bool,
    ) -> Result<(), String> {
        let mut expected = Objects::new();
        for (prefix, version) in versions {
            let version = version.unwrap_or_default();
            let before = self.versions.get(prefix).copied().unwrap_or_default();
            let newest = (history.restores(), version);
            if newest < before {
                return Err(format!("the store went back from version {} to {version}", before.1));
            }
            let of_part = |objects: Objects| objects.into_iter().filter(|(key, _)| key.starts_with(prefix));
            let stored: Objects = of_part(objects.clone()).collect();
            // Objects of other parts stay until the first list of this one.
            if self.has_changed_parts && version == 0 {
                expected.extend(stored);
                continue;
            }
            let at = |place| of_part(self.objects_at(history, place, objects)).collect::<Objects>();
            // The earliest that fits: an informer learns of a restored backup some time after it.
            let mut later = (before.0..=history.restores()).map(|restores| (restores, version));
            let fitting = later.find(|place| *place >= before && (is_incomplete || at(*place) == stored));
            let fitting = fitting.unwrap_or(newest);
            expected.extend(at(fitting));
            self.versions.insert(prefix.clone(), fitting);
        }
        if is_incomplete {
            return Ok(());
        }
        difference("the store", objects, &format!("the server at versions {versions:?}"), &expected)
    }

    /// Returns the objects at a version as the store may have them: newer, or older if they do not decode.
    fn objects_at(&self, history: Record<'_>, place: (usize, u64), stored: &Objects) -> Objects {
        let mut objects = history.objects_at(place.0, place.1);
        for change in history.changes_after(place.0, place.1).filter(|_| self.may_be_ahead) {
            let key = change.key.path();
            if stored.get(&key) == change.after.as_ref() {
                match &change.after {
                    Some(state) => _ = objects.insert(key, state.clone()),
                    None => _ = objects.remove(&key),
                }
            }
        }
        as_stored(history, objects, stored)
    }
}
