//! Whether an informer was started, for reads of its store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::Error;

/// How long a wait for an informer that is not started lasts until it is logged.
const NOTICE: Duration = Duration::from_secs(10);

/// Whether the informer of a store was started, shared by the informer and its listers. Without a start the store is
/// empty, which looks like a cluster without objects.
#[derive(Default)]
pub(crate) struct Started {
    /// Whether the factory has started it. Unset if the start is lost before the informer ran.
    begun: AtomicBool,
    /// Whether it has run or has been ended. Never unset.
    ran: AtomicBool,
}

impl Started {
    /// Of a store without an informer, which needs no start.
    pub(crate) fn always() -> Arc<Self> {
        Arc::new(Self { ran: AtomicBool::new(true), ..Self::default() })
    }

    pub(crate) fn set_begun(&self, begun: bool) {
        self.begun.store(begun, Ordering::Release);
    }

    /// An informer that has ended counts as started: a start would have no effect.
    pub(crate) fn set_ran(&self) {
        self.ran.store(true, Ordering::Release);
    }

    pub(crate) fn get(&self) -> bool {
        self.begun.load(Ordering::Acquire) || self.ran.load(Ordering::Acquire)
    }

    /// Checks that the informer was started, before a read of its store.
    ///
    /// # Errors
    /// [`Error::NotStarted`] if it was not.
    #[inline]
    pub(crate) fn check(&self, resource: &Arc<str>) -> Result<(), Error> {
        if self.get() { Ok(()) } else { Err(Error::NotStarted { resource: resource.clone() }) }
    }

    /// Waits, and logs once if the informer is not started after 10 s. That is not an error: it may be started later.
    ///
    /// # Cancel safety
    /// As `wait`.
    pub(crate) async fn check_wait<R>(&self, informer: &str, wait: impl Future<Output = R>) -> R {
        if self.get() {
            return wait.await;
        }
        let mut wait = std::pin::pin!(wait);
        if let Poll::Ready(result) = futures::poll!(wait.as_mut()) {
            return result;
        }
        // Other executors have no timer.
        if Handle::try_current().is_err() {
            return wait.await;
        }
        tokio::select! {
            biased;
            result = &mut wait => return result,
            () = tokio::time::sleep(NOTICE) => {}
        }
        if !self.get() {
            tracing::warn!(informer, "waiting for an informer that was never started; call start()");
        }
        wait.await
    }
}
