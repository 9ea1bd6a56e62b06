//! How waiting for the caches went.

use std::sync::Arc;

use crate::Error;

/// Of every informer that was waited for, whether it has synced.
#[derive(Clone, Debug)]
#[must_use = "not all of them may have synced"]
pub struct CacheSync {
    informers: Vec<(Arc<str>, Result<(), kinformer_shared_informer::Error>)>,
}

impl CacheSync {
    pub(crate) fn new(mut informers: Vec<(Arc<str>, Result<(), kinformer_shared_informer::Error>)>) -> Self {
        informers.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { informers }
    }

    /// Each informer by its name, and why it has not synced if it has not. In the order of their names.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (&str, Result<(), &kinformer_shared_informer::Error>)> {
        self.informers.iter().map(|(name, result)| (&**name, result.as_ref().map(|&()| ())))
    }

    /// Whether all of them have synced.
    pub fn all_synced(&self) -> bool {
        self.informers.iter().all(|(_, result)| result.is_ok())
    }

    /// For callers to whom one that has not synced is a failure.
    ///
    /// # Errors
    /// [`Error::NotSynced`], with all those that have not.
    pub fn into_result(self) -> Result<(), Error> {
        let informers: Vec<_> = self.informers.into_iter().filter_map(|(_, result)| result.err()).collect();
        if informers.is_empty() { Ok(()) } else { Err(Error::NotSynced { informers }) }
    }
}
