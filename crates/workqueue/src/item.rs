//! A key that was handed out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::options::Add;
use crate::shared::Shared;
use crate::state::Taken;

/// A key in flight, handed out by a [`WorkQueue`](crate::WorkQueue). No other worker gets the key until its run ends.
///
/// The run ends with [`Self::done`], [`Self::retry`] or [`Self::retry_after`], or when the item is dropped. An item that
/// is dropped by a panic is retried with its backoff. Any other drop ends the run and leaves the failures of the key as
/// they are, as client-go's `Done` does. This includes the drop of a task that was cancelled.
///
/// ```
/// use kinformer_workqueue::WorkQueue;
///
/// let queue = WorkQueue::new();
/// queue.add("web");
/// let item = queue.try_next().unwrap();
/// queue.add("web"); // a change while it is processed
/// assert!(queue.try_next().is_none(), "no second worker gets the key");
/// item.done();
/// assert!(queue.try_next().is_some(), "it is processed again");
/// ```
#[must_use = "dropping an item ends the run of its key"]
pub struct Item<K, C = ()> {
    taken: Taken<K, C>,
    shared: Arc<Shared<K, C>>,
    /// Those of a retry.
    marks: u32,
    is_finished: bool,
}

impl<K, C> Item<K, C> {
    pub(crate) fn new(taken: Taken<K, C>, shared: &Arc<Shared<K, C>>) -> Self {
        Self { taken, shared: shared.clone(), marks: 0, is_finished: false }
    }

    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.taken.key
    }

    /// Returns the priority with which the key was handed out, or that was set since. A retry has it.
    pub fn priority(&self) -> i64 {
        self.taken.priority
    }

    /// Sets the priority of a retry.
    pub fn set_priority(&mut self, priority: i64) {
        self.taken.priority = priority;
    }

    /// Returns the [marks](Add::marks) of all additions that led to this run.
    pub fn marks(&self) -> u32 {
        self.taken.marks
    }

    /// Sets the [marks](Add::marks) of a retry. By default it has none.
    pub fn mark_retry(&mut self, marks: u32) {
        self.marks = marks;
    }

    /// Returns the newest [cause](crate::WorkQueue::add_caused) of the additions that led to this run.
    pub fn cause(&self) -> Option<&C> {
        self.taken.cause.as_ref()
    }

    /// Takes the [cause](Self::cause).
    pub fn take_cause(&mut self) -> Option<C> {
        self.taken.cause.take()
    }

    /// Returns how long the key was queued, without a delay before. It is zero for a queue
    /// [without durations](crate::WorkQueueBuilder::without_durations).
    pub fn queued(&self) -> Duration {
        self.taken.queued
    }

    /// Returns how many times the key was retried since it was last forgotten.
    #[doc(alias = "NumRequeues")]
    pub fn retries(&self) -> u32 {
        self.shared.limiter.retries(&self.taken.key)
    }

    /// Ends the run, which was successful: the failures of the key are forgotten. client-go's `Forget` and `Done`.
    pub fn done(mut self) {
        self.shared.limiter.forget(&self.taken.key);
        self.finish(None);
    }

    /// Ends the run, which has failed, and adds the key again after its backoff. client-go's `AddRateLimited` and
    /// `Done`.
    ///
    /// The key is handed out earlier if it is or was added meanwhile. It is not added if the queue is shut down or
    /// does not admit it any more.
    #[doc(alias = "AddRateLimited")]
    pub fn retry(mut self) {
        self.finish(Some(self.again().rate_limited()));
    }

    /// Ends the run, which was successful, and adds the key again after a delay. Otherwise like [`Self::retry`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    ///
    /// use kinformer_workqueue::WorkQueue;
    /// use tokio::time::Instant;
    ///
    /// let (queue, begin) = (WorkQueue::new(), Instant::now());
    /// queue.add("job");
    /// for _ in 0..3 {
    ///     let item = queue.next().await.unwrap();
    ///     item.retry_after(Duration::from_secs(60)); // checks again in a minute
    /// }
    /// assert_eq!(begin.elapsed().as_secs() / 60, 2);
    /// # }
    /// ```
    pub fn retry_after(mut self, delay: Duration) {
        self.shared.limiter.forget(&self.taken.key);
        self.finish(Some(self.again().after(delay)));
    }

    fn again(&self) -> Add {
        Add::new().priority(self.taken.priority).marks(self.marks)
    }

    fn finish(&mut self, again: Option<Add>) {
        self.shared.finish(&self.taken, again);
        self.is_finished = true;
    }
}

impl<K, C> Drop for Item<K, C> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        if std::thread::panicking() {
            self.shared.finish_panicked(&self.taken, self.again().rate_limited());
        } else {
            self.finish(None);
        }
    }
}

impl<K: fmt::Debug, C> fmt::Debug for Item<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item").field("key", self.key()).field("priority", &self.priority()).finish()
    }
}
