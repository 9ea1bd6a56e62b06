//! The handle of an added handler.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use kinformer_core::Wait;

use crate::error::Error;
use crate::listener::{HandlerMetrics, Listener};
use crate::listeners::{Listeners, forget};
use crate::own_code;

/// The handle of an added handler: returns its metrics, waits for it, and removes it.
///
/// Cheap to clone. Dropping it does not remove the handler, which stays until it is removed or its processor stops.
///
/// Follows client-go 0.37 (`ResourceEventHandlerRegistration`).
#[doc(alias = "ResourceEventHandlerRegistration")]
#[derive(Clone)]
pub struct Registration {
    pub(crate) listener: Arc<Listener>,
    /// The listeners of its processor.
    pub(crate) listeners: Weak<Listeners>,
}

impl Registration {
    /// Returns the name of the handler.
    pub fn name(&self) -> &str {
        &self.listener.name
    }

    /// Returns whether the processor has synced and the handler has processed the whole initial list. An event over
    /// which the handler panicked counts as processed.
    #[doc(alias = "IsDone")]
    pub fn has_synced(&self) -> bool {
        self.listener.synced.is_cancelled()
    }

    /// Waits for [`Self::has_synced`]. Any number of tasks may wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_processor::{Change, Keyed, SharedProcessor};
    /// # let ports = SharedProcessor::new("ports");
    /// # let running = tokio::spawn({
    /// #     let ports = ports.clone();
    /// #     async move { ports.run(Default::default()).await }
    /// # });
    /// let handler = ports.handler().for_each(|event| println!("{}", event.key()))?;
    /// ports.publish([Change::added(Keyed::by(ToString::to_string, 443_u16)?).in_initial_list()]);
    /// ports.publish_synced();
    /// handler.synced().await?;
    /// assert_eq!(handler.metrics().delivered, 1);
    /// # running.abort();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Ended`] if the handler ends first. [`Error::DeadlineExceeded`], with the number of undelivered events,
    /// if [a deadline](Wait::until) passes first.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the handler, and a later call returns at once if it has synced.
    #[doc(alias("DoneChecker", "HasSyncedChecker", "InitDone"))]
    pub fn synced(&self) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let listener = &*self.listener;
        let wait = async move {
            tokio::select! {
                biased;
                () = listener.synced.cancelled() => Ok(()),
                () = listener.stop.cancelled() => {
                    Err(Error::Ended { handler: listener.name.clone(), depth: listener.depth_at_removal() })
                }
            }
        };
        Wait::new(wait, || {
            let metrics = listener.metrics();
            Err(Error::DeadlineExceeded { handler: metrics.name, depth: metrics.depth, stuck: metrics.stuck })
        })
    }

    /// Returns the resync period of the handler; `None` without resyncs.
    pub fn resync_period(&self) -> Option<Duration> {
        self.listener.resync_period
    }

    /// Returns the metrics of the handler.
    pub fn metrics(&self) -> HandlerMetrics {
        self.listener.metrics()
    }

    /// Removes the handler, and returns a future that waits until its current callback has returned.
    ///
    /// The call itself removes the handler; the future need not be awaited. Nothing is delivered after the future has
    /// ended. Idempotent, and allowed at any time. After the end of the processor, the future waits for a callback that
    /// did not return within the grace period.
    ///
    /// If the future is awaited within a callback, the filter or the `Drop` of the same handler, it ends at once,
    /// because it would otherwise wait for itself. A callback that waits for another thread or task that awaits the
    /// removal deadlocks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kinformer_processor::{Change, Event, Keyed, SharedProcessor};
    /// # let ports = SharedProcessor::<Keyed<u16>>::new("ports");
    /// # let port = |number: u16| Keyed::by(ToString::to_string, number);
    /// # let running = tokio::spawn({
    /// #     let ports = ports.clone();
    /// #     async move { ports.run(Default::default()).await }
    /// # });
    /// let handler = ports.handler().for_each(|event| println!("{}", event.key()))?;
    /// handler.remove().await; // after that, its callback does not run any more
    /// assert!(handler.is_removed() && ports.handler_metrics().is_empty());
    /// # running.abort();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future only ends the wait: the handler stays removed.
    #[doc(alias = "RemoveEventHandler")]
    pub fn remove(&self) -> impl Future<Output = ()> + Send + 'static {
        let Self { listener, listeners } = self.clone();
        listener.remove();
        forget(&listeners, &listener);
        async move {
            let mut done = pin!(listener.done.cancelled());
            // Checked at each poll, because the future may have been moved into the callback.
            let waited = poll_fn(|context| match done.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if own_code::is_of(&listener) => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            });
            if waited.await {
                // The end of the task may not have done this yet.
                forget(&listeners, &listener);
            }
        }
    }

    /// Returns whether the handler was removed or ended with its processor.
    pub fn is_removed(&self) -> bool {
        self.listener.is_stopped()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}
