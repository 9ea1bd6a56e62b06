//! The outcome of waiting for the caches to sync.

use std::sync::Arc;

use crate::Error;

/// The outcome of [`wait_for_cache_sync`](crate::SharedInformerFactory::wait_for_cache_sync) for each informer.
///
/// ```
/// # async fn example(factory: &kinformer::SharedInformerFactory) {
/// use std::time::Duration;
///
/// use tokio::time::Instant;
///
/// let synced = factory.wait_for_cache_sync().until(Instant::now() + Duration::from_secs(30)).await;
/// for (informer, result) in synced.iter() {
///     match result {
///         Ok(()) => println!("{informer} has synced"),
///         Err(error) => println!("{informer}: {error}"), // such as a missing permission; it goes on trying
///     }
/// }
/// # }
/// ```
#[doc(alias = "SyncResult")]
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

    /// Iterates over the informers, ordered by name, with `Ok` or the reason why the informer has not synced.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (&str, Result<(), &kinformer_shared_informer::Error>)> {
        self.informers.iter().map(|(name, result)| (&**name, result.as_ref().map(|&()| ())))
    }

    /// Whether all informers have synced.
    pub fn all_synced(&self) -> bool {
        self.informers.iter().all(|(_, result)| result.is_ok())
    }

    /// Converts the outcome into a `Result` that is `Ok` if all informers have synced.
    ///
    /// # Errors
    /// [`Error::NotSynced`], with the error of each informer that has not synced.
    #[doc(alias = "AsError")]
    pub fn into_result(self) -> Result<(), Error> {
        let informers: Vec<_> = self.informers.into_iter().filter_map(|(_, result)| result.err()).collect();
        if informers.is_empty() { Ok(()) } else { Err(Error::NotSynced { informers }) }
    }
}
