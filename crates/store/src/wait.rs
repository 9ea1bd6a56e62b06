//! Waiting for the store to reflect a version.

use std::sync::atomic::Ordering;

use kinformer_core::{Object, ResourceVersion};
use tokio::time::{Instant, timeout_at};

use crate::{Error, Indexer};

/// Waiting.
impl<T: Object> Indexer<T> {
    /// Waits until the store reflects at least this version. Any number may wait; all of them wake.
    ///
    /// A store whose version is not known yet is waited for. Cancel-safe; needs no particular runtime.
    ///
    /// # Errors
    /// [`Error::Stopped`] once the store is [stopped](Self::stop) without having reached the version;
    /// [`Error::Incomparable`] at once where it cannot be known whether it was reached.
    pub async fn wait_for(&self, version: &ResourceVersion) -> Result<(), Error> {
        loop {
            // Registered before looking, so that nothing that happens after the look is missed.
            let changed = self.changed.listen();
            if let Some(result) = self.reached(version) {
                return result;
            }
            changed.await;
        }
    }

    /// As [`Self::wait_for`], but not beyond the deadline. Needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As [`Self::wait_for`], and [`Error::DeadlineExceeded`].
    pub async fn wait_for_until(&self, version: &ResourceVersion, deadline: Instant) -> Result<(), Error> {
        timeout_at(deadline, self.wait_for(version)).await.unwrap_or_else(|_| {
            let (wanted, reached) = (version.clone(), self.resource_version());
            Err(Error::DeadlineExceeded { wanted, reached })
        })
    }

    /// Says that nothing more will be written: everyone who [waits](Self::wait_for) for a version ends with
    /// an error. Reading goes on; so does writing, if somebody does.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.changed.notify(usize::MAX);
    }

    /// Whether [`Self::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn reached(&self, wanted: &ResourceVersion) -> Option<Result<(), Error>> {
        // In this order: what was written before the stop counts.
        let stopped = self.is_stopped();
        let reached = self.resource_version();
        match reached.compare(wanted) {
            Some(order) if order.is_ge() => Some(Ok(())),
            _ if stopped => Some(Err(Error::Stopped { wanted: wanted.clone(), reached })),
            None if !reached.is_unset() => Some(Err(Error::Incomparable { wanted: wanted.clone(), reached })),
            _ => None,
        }
    }
}
