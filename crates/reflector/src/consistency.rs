//! Two lists of one version must be equal.

use std::collections::HashMap;
use std::sync::Arc;

use kinformer_core::{Object, ObjectKey, ResourceVersion};

use crate::ApiError;

/// Compares keys and versions.
///
/// # Errors
/// [`ApiError::Inconsistent`] names what differs.
pub(crate) fn compare<T: Object>(
    version: &ResourceVersion,
    first: &[Arc<T>],
    second: &[Arc<T>],
) -> Result<(), ApiError> {
    let versions = |objects: &[Arc<T>]| -> HashMap<ObjectKey, ResourceVersion> {
        let keyed =
            objects.iter().filter_map(|o| Some((ObjectKey::try_from(o.key()).ok()?, o.resource_version())));
        keyed.collect()
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
    if extra.is_empty() && missing.is_empty() && changed.is_empty() {
        return Ok(());
    }
    let mut extra: Vec<_> = extra.into_keys().collect();
    for keys in [&mut missing, &mut extra, &mut changed] {
        keys.sort_unstable();
    }
    Err(ApiError::Inconsistent { resource_version: version.to_string(), missing, extra, changed })
}
