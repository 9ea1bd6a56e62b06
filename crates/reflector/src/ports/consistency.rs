//! The consistency check: two lists at one version must be equal.

use std::collections::HashMap;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Object, ObjectKey, Replacement, ResourceVersion};

use crate::SourceError;
use crate::pager::FullList;

/// Compares the keys and versions of the objects that could be decoded in both lists.
///
/// # Errors
/// [`SourceError::Inconsistent`] with the keys that differ.
pub(crate) fn compare<T: Object>(first: &Replacement<T>, second: &FullList<T>) -> Result<(), SourceError> {
    let (mut missing, mut extra, mut changed) = difference(&first.objects, &second.objects);
    missing.retain(|key| !first.undelivered.contains(key));
    extra.retain(|key| !second.undecodable.iter().any(|error| error.key.as_ref() == Some(key)));
    // A missing object may be an unidentified one.
    if !first.is_complete() {
        missing.clear();
    }
    if second.undecodable.iter().any(|error| error.key.is_none()) {
        extra.clear();
    }
    if extra.is_empty() && missing.is_empty() && changed.is_empty() {
        return Ok(());
    }
    for keys in [&mut missing, &mut extra, &mut changed] {
        keys.sort_unstable();
    }
    let resource_version = first.resource_version.to_string();
    Err(SourceError::Inconsistent { resource_version, missing, extra, changed })
}

/// Returns the keys that only the second list has, that only the first has, and that both have at different versions.
fn difference<T: Object>(
    first: &[Arc<T>],
    second: &[Arc<T>],
) -> (Vec<ObjectKey>, Vec<ObjectKey>, Vec<ObjectKey>) {
    let versions = |objects: &[Arc<T>]| -> HashMap<ObjectKey, ResourceVersion> {
        let keyed = |o: &Arc<T>| Some((ObjectKey::try_from(o.key()).ok()?, o.resource_version()));
        objects.iter().filter_map(|o| contain(|| keyed(o)).ok().flatten()).collect()
    };
    let mut extra = versions(first);
    let (mut missing, mut changed) = (Vec::new(), Vec::new());
    for (key, version) in versions(second) {
        match extra.remove(&key) {
            None => missing.push(key),
            Some(ours) if ours != version => changed.push(key),
            Some(_) => {}
        }
    }
    (missing, extra.into_keys().collect(), changed)
}
