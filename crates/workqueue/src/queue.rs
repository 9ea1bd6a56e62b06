//! The queue.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::item::Item;
use crate::metrics::QueueMetrics;
use crate::options::{Add, Fairness};
use crate::rate_limiter::RateLimiter;
use crate::shared::{Next, Shared};
use crate::state::Phase;

/// A queue of keys; each key is processed by one worker at a time. Follows client-go 0.37 (`util/workqueue`) and
/// controller-runtime 0.25 (`priorityqueue`).
///
/// A key has at most one pending run, however often it is added: at the earliest of the requested times, with the
/// highest of the requested priorities. A key that is added while it is in flight is queued when its run has ended,
/// behind all keys of its priority.
///
/// A clone is another handle of the same queue. `Eq` of keys is the only user code that runs under the lock of the queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # async fn process(_: &str) -> Result<(), &'static str> { Ok(()) }
/// use kinformer_workqueue::WorkQueue;
///
/// async fn work(queue: WorkQueue<&'static str>) {
///     while let Some(item) = queue.next().await {
///         match process(item.key()).await {
///             Ok(()) => item.done(),
///             Err(_) => item.retry(), // after its backoff
///         }
///     }
/// }
///
/// let queue = WorkQueue::new();
/// let workers = [tokio::spawn(work(queue.clone())), tokio::spawn(work(queue.clone()))];
/// queue.add("default/web");
/// queue.add("default/db");
/// queue.shut_down();
/// for worker in workers {
///     worker.await?;
/// }
/// assert_eq!((queue.depth(), queue.metrics().adds), (0, 2));
/// # Ok(())
/// # }
/// ```
#[doc(alias(
    "DelayingInterface",
    "priorityqueue",
    "RateLimitingInterface",
    "TypedDelayingInterface",
    "TypedInterface",
    "TypedRateLimitingInterface"
))]
pub struct WorkQueue<K, C = ()> {
    shared: Arc<Shared<K, C>>,
}

/// Options of a [`WorkQueue`].
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_workqueue::{Fairness, ItemFastSlow, WorkQueue};
///
/// let (fast, slow) = (Duration::from_millis(100), Duration::from_secs(60));
/// let queue = WorkQueue::builder()
///     .rate_limiter(ItemFastSlow::new(fast, slow, 5))
///     .fairness(Fairness::StrictPriorities)
///     .build();
/// assert!(queue.add("default/web"));
/// ```
#[doc(alias(
    "DelayingQueueConfig",
    "QueueConfig",
    "RateLimitingQueueConfig",
    "TypedDelayingQueueConfig",
    "TypedQueueConfig",
    "TypedRateLimitingQueueConfig"
))]
pub struct WorkQueueBuilder<K> {
    limiter: Option<Arc<dyn RateLimiter<K>>>,
    fairness: Fairness,
    records_durations: bool,
}

impl<K> WorkQueueBuilder<K> {
    /// Sets the rate limiter of retries. The default is [`default_rate_limiter`](crate::default_rate_limiter).
    #[doc(alias = "NewTypedRateLimitingQueue")]
    #[must_use]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Some(Arc::new(limiter));
        self
    }

    /// Sets how keys of low priorities progress. The default is every tenth key.
    #[must_use]
    pub fn fairness(mut self, fairness: Fairness) -> Self {
        self.fairness = fairness;
        self
    }

    /// Leaves the durations of the [metrics](WorkQueue::metrics) at zero. This saves reading the clock three times for
    /// each key.
    #[must_use]
    pub fn without_durations(mut self) -> Self {
        self.records_durations = false;
        self
    }

    /// Creates the queue.
    pub fn build(self) -> WorkQueue<K>
    where
        K: Eq + Hash + Clone + Send + Sync + 'static,
    {
        self.build_with_causes()
    }

    /// Creates a queue whose keys are added with [causes](WorkQueue::add_caused).
    pub fn build_with_causes<C>(self) -> WorkQueue<K, C>
    where
        K: Eq + Hash + Clone + Send + Sync + 'static,
    {
        let limiter = self.limiter.unwrap_or_else(|| Arc::new(crate::default_rate_limiter()));
        WorkQueue { shared: Arc::new(Shared::new(limiter, self.fairness, self.records_durations)) }
    }
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> WorkQueue<K> {
    /// Creates a queue with the default options.
    #[doc(alias(
        "NewDelayingQueue",
        "NewNamed",
        "NewNamedDelayingQueue",
        "NewNamedRateLimitingQueue",
        "NewRateLimitingQueue",
        "NewTyped",
        "NewTypedDelayingQueue",
        "NewTypedRateLimitingQueue",
        "TypedNewDelayingQueue"
    ))]
    pub fn new() -> Self {
        Self::builder().build()
    }
}

impl<K> WorkQueue<K> {
    /// Returns the options of a new queue.
    #[doc(alias(
        "NewDelayingQueueWithConfig",
        "NewDelayingQueueWithCustomClock",
        "NewDelayingQueueWithCustomQueue",
        "NewRateLimitingQueueWithConfig",
        "NewRateLimitingQueueWithDelayingInterface",
        "NewTypedDelayingQueueWithConfig",
        "NewTypedRateLimitingQueueWithConfig",
        "NewTypedWithConfig",
        "NewWithConfig"
    ))]
    pub fn builder() -> WorkQueueBuilder<K> {
        WorkQueueBuilder { limiter: None, fairness: Fairness::default(), records_durations: true }
    }
}

impl<K, C> WorkQueue<K, C> {
    /// Adds a key at once, with priority 0. Returns whether it was accepted, as [`Self::add_with`].
    pub fn add(&self, key: K) -> bool
    where
        K: Eq + Hash,
    {
        self.add_with(key, Add::new())
    }

    /// Adds a key after a delay, with priority 0. Returns whether it was accepted, as [`Self::add_with`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    ///
    /// use kinformer_workqueue::WorkQueue;
    ///
    /// let queue = WorkQueue::new();
    /// queue.add_after("renew the certificate", Duration::from_secs(3600));
    /// assert!(queue.try_next().is_none());
    /// assert!(queue.next().await.is_some()); // an hour later
    /// # }
    /// ```
    #[doc(alias = "debounced_scheduler")]
    pub fn add_after(&self, key: K, delay: Duration) -> bool
    where
        K: Eq + Hash,
    {
        self.add_with(key, Add::new().after(delay))
    }

    /// Adds a key with priority 0 after the delay that the rate limiter returns. Returns whether it was accepted, as
    /// [`Self::add_with`].
    ///
    /// ```
    /// use kinformer_workqueue::WorkQueue;
    ///
    /// let queue = WorkQueue::new();
    /// queue.add_rate_limited("default/web"); // a call has failed
    /// queue.add_rate_limited("default/web"); // and again: the delay is longer
    /// assert_eq!(queue.retries(&"default/web"), 2);
    /// queue.forget(&"default/web"); // it has succeeded
    /// assert_eq!(queue.retries(&"default/web"), 0);
    /// ```
    pub fn add_rate_limited(&self, key: K) -> bool
    where
        K: Eq + Hash,
    {
        self.add_with(key, Add::new().rate_limited())
    }

    /// Adds a key. Returns false, and changes nothing, if the queue was shut down or does not [admit](Self::admit) the
    /// key.
    pub fn add_with(&self, key: K, options: Add) -> bool
    where
        K: Eq + Hash,
    {
        self.shared.add(key, options, None)
    }

    /// Adds a key with a cause, such as the event that led to it. The run of a key has the newest cause of its additions:
    /// [`Item::cause`]. Otherwise like [`Self::add_with`].
    ///
    /// ```
    /// use kinformer_workqueue::{Add, WorkQueue};
    ///
    /// let queue = WorkQueue::builder().build_with_causes();
    /// queue.add_caused("web", Add::new(), "a pod was added");
    /// queue.add_caused("web", Add::new(), "a pod was deleted");
    /// let item = queue.try_next().unwrap();
    /// assert_eq!(item.cause(), Some(&"a pod was deleted"));
    /// ```
    pub fn add_caused(&self, key: K, options: Add, cause: C) -> bool
    where
        K: Eq + Hash,
    {
        self.shared.add(key, options, Some(cause))
    }

    /// Forgets the failures of a key, so that its next retry has the shortest delay.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
    }

    /// Returns how many times a key was retried since it was last forgotten. client-go's `NumRequeues`.
    #[doc(alias = "NumRequeues")]
    pub fn retries(&self, key: &K) -> u32 {
        self.shared.limiter.retries(key)
    }

    /// Waits for the next key, and hands it out. Returns `None` when the queue was shut down and no key is queued.
    ///
    /// While keys are delayed, one of the waiters wakes at the end of the first delay. It uses tokio's timer.
    ///
    /// # Panics
    /// If it waits while a key is delayed, outside of a tokio runtime with a timer.
    ///
    /// # Cancel safety
    /// No key is lost: a key that was handed out is in the returned [`Item`]. A future that is kept without being
    /// polled may delay keys, because it does not pass its notification on until it is dropped.
    pub async fn next(&self) -> Option<Item<K, C>> {
        let taken = self.shared.next().await?;
        Some(Item::new(taken, &self.shared))
    }

    /// Hands out the next key if there is one.
    pub fn try_next(&self) -> Option<Item<K, C>> {
        match self.shared.try_next() {
            Next::Key(taken) => Some(Item::new(taken, &self.shared)),
            Next::ShutDown | Next::Empty => None,
        }
    }

    /// Like [`Self::next`], but blocks the thread. It needs no runtime.
    ///
    /// ```
    /// use std::thread;
    ///
    /// use kinformer_workqueue::WorkQueue;
    ///
    /// let queue = WorkQueue::new();
    /// thread::scope(|scope| {
    ///     let worker = scope.spawn(|| {
    ///         let mut processed = 0;
    ///         while let Some(item) = queue.next_blocking() {
    ///             processed += 1;
    ///             item.done();
    ///         }
    ///         processed
    ///     });
    ///     queue.add("default/web");
    ///     queue.shut_down();
    ///     assert_eq!(worker.join().unwrap(), 1);
    /// });
    /// ```
    #[cfg(not(loom))]
    pub fn next_blocking(&self) -> Option<Item<K, C>> {
        let taken = self.shared.next_blocking(None).ok()??;
        Some(Item::new(taken, &self.shared))
    }

    /// Like [`Self::next_blocking`], with a deadline.
    ///
    /// # Errors
    /// No key was handed out before the deadline.
    #[cfg(not(loom))]
    pub fn next_blocking_until(
        &self,
        deadline: std::time::Instant,
    ) -> Result<Option<Item<K, C>>, crate::DeadlineExceeded> {
        let taken = self.shared.next_blocking(Some(deadline))?;
        Ok(taken.map(|taken| Item::new(taken, &self.shared)))
    }

    /// From now on, accepts only keys for which the predicate returns true. This applies to every kind of addition,
    /// retries included, and not to keys that are queued, delayed or in flight.
    ///
    /// The predicate runs without a lock, once for each addition, or again if another one replaces it meanwhile.
    ///
    /// To give a share of the keys away: stop admitting them, remove the queued ones, and wait for those in flight.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let queue = kinformer_workqueue::WorkQueue::new();
    /// queue.add(1);
    /// let is_even = |key: &u32| key.is_multiple_of(2);
    /// queue.admit(is_even);
    /// queue.retain(is_even);
    /// queue.in_flight(|key| !is_even(key)).await; // another process may have the odd keys now
    /// assert!(!queue.add(3));
    /// # }
    /// ```
    pub fn admit(&self, predicate: impl Fn(&K) -> bool + Send + Sync + 'static) {
        self.shared.set_admission(Some(Arc::new(predicate)));
    }

    /// Accepts all keys again.
    pub fn admit_all(&self) {
        self.shared.set_admission(None);
    }

    /// Removes a key that is queued or delayed. Returns whether it was.
    ///
    /// A key in flight stays in flight, but is not queued again after its run.
    ///
    /// ```
    /// let queue = kinformer_workqueue::WorkQueue::new();
    /// queue.add("default/web");
    /// assert!(queue.remove(&"default/web"));
    /// assert_eq!(queue.depth(), 0);
    /// ```
    pub fn remove(&self, key: &K) -> bool
    where
        K: Eq + Hash,
    {
        self.shared.remove(key)
    }

    /// Removes the queued and delayed keys for which the predicate returns false. Returns their number.
    ///
    /// A key in flight stays in flight, but is not queued again after its run. Keys that are added meanwhile may stay.
    /// The predicate runs without a lock.
    pub fn retain(&self, predicate: impl FnMut(&K) -> bool) -> usize {
        self.shared.retain(predicate)
    }

    /// Waits until all runs have ended that are in flight now and for whose keys the predicate returns true.
    ///
    /// The predicate runs without a lock, once for each key in flight.
    ///
    /// # Cancel safety
    /// The wait changes nothing.
    pub async fn in_flight(&self, predicate: impl FnMut(&K) -> bool) {
        self.shared.in_flight(predicate).await;
    }

    /// Like [`Self::in_flight`], but blocks the thread until the deadline at most.
    ///
    /// # Errors
    /// A run has not ended before the deadline.
    #[cfg(not(loom))]
    pub fn in_flight_blocking_until(
        &self,
        predicate: impl FnMut(&K) -> bool,
        deadline: std::time::Instant,
    ) -> Result<(), crate::DeadlineExceeded> {
        self.shared.in_flight_blocking(predicate, Some(deadline))
    }

    /// Stops accepting keys and removes the delayed ones. Queued keys are still handed out; [`Self::next`] returns `None`
    /// after them. Waits for a drain end.
    pub fn shut_down(&self) {
        self.shared.shut_down(Phase::ShutDown);
    }

    /// Like [`Self::shut_down`], and waits until no key is queued or in flight. Returns false if
    /// [`Self::shut_down`] ended the wait before.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use kinformer_workqueue::WorkQueue;
    ///
    /// let queue = WorkQueue::new();
    /// queue.add("default/web");
    /// let worker = tokio::spawn({
    ///     let queue = queue.clone();
    ///     async move {
    ///         while let Some(item) = queue.next().await {
    ///             item.done();
    ///         }
    ///     }
    /// });
    /// assert!(queue.shut_down_with_drain().await, "the queued keys have been processed");
    /// assert!(!queue.add("default/other"));
    /// # worker.await.unwrap();
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The first poll shuts the queue down. Dropping the future then only ends the wait.
    pub async fn shut_down_with_drain(&self) -> bool {
        self.shared.shut_down(Phase::Draining);
        self.shared.drained().await
    }

    /// Like [`Self::shut_down_with_drain`], but blocks the thread until the deadline at most.
    ///
    /// # Errors
    /// A key was queued or in flight at the deadline. The queue stays shut down.
    #[cfg(not(loom))]
    pub fn shut_down_with_drain_blocking_until(
        &self,
        deadline: std::time::Instant,
    ) -> Result<bool, crate::DeadlineExceeded> {
        self.shared.shut_down(Phase::Draining);
        self.shared.drained_blocking(Some(deadline))
    }

    /// Returns whether the queue was shut down, with or without a drain.
    #[doc(alias = "ShuttingDown")]
    pub fn is_shut_down(&self) -> bool {
        self.shared.is_shut_down()
    }

    /// Returns the number of queued keys, including keys in flight that are queued again after their run. Delayed keys
    /// are not included.
    pub fn depth(&self) -> usize {
        self.shared.depth()
    }

    /// Returns the number of queued keys of each priority that has any, lowest first.
    pub fn depths(&self) -> Vec<(i64, usize)> {
        self.shared.depths()
    }

    /// Returns the metrics of the queue.
    ///
    /// ```
    /// use kinformer_workqueue::WorkQueue;
    ///
    /// let queue = WorkQueue::new();
    /// queue.add("web");
    /// queue.add("web");
    /// let item = queue.try_next();
    /// let metrics = queue.metrics();
    /// assert_eq!((metrics.adds, metrics.depth, metrics.in_flight), (1, 0, 1));
    /// # drop(item);
    /// ```
    pub fn metrics(&self) -> QueueMetrics {
        self.shared.metrics()
    }
}

impl<K, C> Clone for WorkQueue<K, C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, C> fmt::Debug for WorkQueue<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("metrics", &self.metrics()).finish()
    }
}

impl<K> fmt::Debug for WorkQueueBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueueBuilder").field("fairness", &self.fairness).finish_non_exhaustive()
    }
}
