//! The states of a store.

use std::collections::BTreeMap;

use super::{Change, Objects, as_stored, difference, objects_at};

/// The versions that a store has shown, by the prefix of the keys of each part.
#[derive(Debug, Default)]
pub(crate) struct StoreView {
    versions: BTreeMap<String, u64>,
    /// Whether objects may be newer than the version: a queue without atomic lists pops parts of a list.
    pub(crate) may_be_ahead: bool,
}

impl StoreView {
    /// Checks a snapshot of the store at the version of each part, which is `None` before the first list of the part.
    ///
    /// # Errors
    /// A version went back, or the objects are not those of the server at these versions. After an incomplete list, the
    /// store may have objects that were deleted.
    pub(crate) fn check(
        &mut self,
        history: &[Change],
        versions: &[(String, Option<u64>)],
        objects: &Objects,
        is_incomplete: bool,
    ) -> Result<(), String> {
        let mut expected = Objects::new();
        for (prefix, version) in versions {
            let before = self.versions.entry(prefix.clone()).or_default();
            let version = version.unwrap_or_default();
            if version < *before {
                return Err(format!("the store went back from version {before} to {version}"));
            }
            *before = version;
            let of_part = objects_at(history, version).into_iter().filter(|(key, _)| key.starts_with(prefix));
            expected.extend(of_part);
            let later =
                history.iter().filter(|change| change.version > version && change.key.starts_with(prefix));
            for change in later.filter(|_| self.may_be_ahead) {
                if objects.get(&change.key) == change.state.as_ref() {
                    match &change.state {
                        Some(state) => _ = expected.insert(change.key.clone(), state.clone()),
                        None => _ = expected.remove(&change.key),
                    }
                }
            }
        }
        if is_incomplete {
            return Ok(());
        }
        let expected = as_stored(history, expected, objects);
        difference("the store", objects, &format!("the server at versions {versions:?}"), &expected)
    }
}
