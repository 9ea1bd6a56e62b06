//! How long a key waits before it is retried.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Decides how long a key waits before it is retried. Follows client-go 0.37 (`TypedRateLimiter`).
///
/// A queue calls it without holding a lock, from any thread.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_workqueue::{RateLimiter, WorkQueue};
///
/// /// The same delay for each retry.
/// struct Constant(Duration);
///
/// impl<K> RateLimiter<K> for Constant {
///     fn when(&self, _: &K) -> Duration {
///         self.0
///     }
///
///     fn forget(&self, _: &K) {}
///
///     fn retries(&self, _: &K) -> u32 {
///         0 // it does not count them
///     }
///
///     fn failing(&self) -> usize {
///         0
///     }
/// }
///
/// let queue = WorkQueue::builder().rate_limiter(Constant(Duration::from_secs(1))).build();
/// queue.add_rate_limited("web");
/// assert_eq!(queue.metrics().delayed, 1);
/// ```
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<K>: Send + Sync {
    /// Counts a failure of the key, and returns how long the key waits.
    fn when(&self, key: &K) -> Duration;

    /// Forgets the failures of the key.
    fn forget(&self, key: &K);

    /// Returns the number of failures of the key since it was last forgotten.
    #[doc(alias = "NumRequeues")]
    fn retries(&self, key: &K) -> u32;

    /// Returns the number of keys with failures, which use memory until they are forgotten.
    fn failing(&self) -> usize;
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Arc<L> {
    fn when(&self, key: &K) -> Duration {
        (**self).when(key)
    }

    fn forget(&self, key: &K) {
        (**self).forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        (**self).retries(key)
    }

    fn failing(&self) -> usize {
        (**self).failing()
    }
}

/// The failures of each key. `Hash`, `Eq` and `Clone` of keys run under its lock.
struct Failures<K>(Mutex<HashMap<K, u32, foldhash::fast::RandomState>>);

impl<K> Failures<K> {
    fn new() -> Self {
        Self(Mutex::new(HashMap::default()))
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl<K: Eq + Hash + Clone> Failures<K> {
    /// Counts a failure. Returns the number of failures before it.
    fn count(&self, key: &K) -> u32 {
        let mut failures = self.0.lock();
        if let Some(count) = failures.get_mut(key) {
            let before = *count;
            *count = before.saturating_add(1);
            return before;
        }
        failures.insert(key.clone(), 1);
        0
    }

    fn forget(&self, key: &K) {
        let removed = self.0.lock().remove_entry(key);
        drop(removed);
    }

    fn of(&self, key: &K) -> u32 {
        self.0.lock().get(key).copied().unwrap_or(0)
    }
}

/// Doubles the delay of a key with each failure, up to a limit. Follows client-go 0.37
/// (`TypedItemExponentialFailureRateLimiter`).
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_workqueue::{ItemExponential, RateLimiter};
///
/// let limiter = ItemExponential::new(Duration::from_secs(1), Duration::from_secs(5));
/// let delays = ["web", "web", "web", "web", "db"].map(|key| limiter.when(&key).as_secs());
/// assert_eq!(delays, [1, 2, 4, 5, 1]);
/// ```
#[doc(alias(
    "DefaultItemBasedRateLimiter",
    "DefaultTypedItemBasedRateLimiter",
    "ItemExponentialFailureRateLimiter",
    "TypedItemExponentialFailureRateLimiter"
))]
pub struct ItemExponential<K> {
    failures: Failures<K>,
    base: Duration,
    max: Duration,
}

impl<K> ItemExponential<K> {
    /// The first failure delays a key by `base`, and none by more than `max`.
    #[doc(alias("NewItemExponentialFailureRateLimiter", "NewTypedItemExponentialFailureRateLimiter"))]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { failures: Failures::new(), base, max }
    }
}

impl<K> Default for ItemExponential<K> {
    /// From 5 ms to 1,000 s, as in client-go's default limiter and in controller-runtime's priority queue.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<K: Eq + Hash + Clone + Send> RateLimiter<K> for ItemExponential<K> {
    fn when(&self, key: &K) -> Duration {
        let failures = self.failures.count(key);
        if self.base.is_zero() {
            return Duration::ZERO;
        }
        let factor = 1_u128.checked_shl(failures);
        let nanos = factor.and_then(|factor| self.base.as_nanos().checked_mul(factor));
        match nanos.map(u64::try_from) {
            Some(Ok(nanos)) => Duration::from_nanos(nanos).min(self.max),
            _ => self.max,
        }
    }

    fn forget(&self, key: &K) {
        self.failures.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.failures.of(key)
    }

    fn failing(&self) -> usize {
        self.failures.len()
    }
}

/// A short delay for the first failures of a key, then a long one. Follows client-go 0.37
/// (`TypedItemFastSlowRateLimiter`).
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_workqueue::{ItemFastSlow, RateLimiter};
///
/// let limiter = ItemFastSlow::new(Duration::from_secs(1), Duration::from_secs(60), 2);
/// let delays = ["web"; 4].map(|key| limiter.when(&key).as_secs());
/// assert_eq!(delays, [1, 1, 60, 60]);
/// ```
#[doc(alias("ItemFastSlowRateLimiter", "TypedItemFastSlowRateLimiter"))]
pub struct ItemFastSlow<K> {
    failures: Failures<K>,
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
}

impl<K> ItemFastSlow<K> {
    /// Delays a key by `fast` for its first `fast_attempts` failures, then by `slow`.
    #[doc(alias("NewItemFastSlowRateLimiter", "NewTypedItemFastSlowRateLimiter"))]
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        Self { failures: Failures::new(), fast, slow, fast_attempts }
    }
}

impl<K: Eq + Hash + Clone + Send> RateLimiter<K> for ItemFastSlow<K> {
    fn when(&self, key: &K) -> Duration {
        if self.failures.count(key) < self.fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&self, key: &K) {
        self.failures.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.failures.of(key)
    }

    fn failing(&self) -> usize {
        self.failures.len()
    }
}

/// The longest delay of several limiters; all of them count each failure. Follows client-go 0.37
/// (`TypedMaxOfRateLimiter`).
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
///
/// use kinformer_workqueue::{Bucket, ItemExponential, MaxOf, RateLimiter};
///
/// // A delay for each key, and 10 retries a second for all keys together, after the first 100.
/// let of_key = ItemExponential::new(Duration::from_secs(1), Duration::from_secs(60));
/// let of_all = Bucket::per_second(NonZeroU32::new(10).unwrap(), NonZeroU32::new(100).unwrap());
/// let limiter = MaxOf::new().with(of_key).with(of_all);
/// assert_eq!(limiter.when(&"web").as_secs(), 1);
/// ```
#[doc(alias("MaxOfRateLimiter", "TypedMaxOfRateLimiter"))]
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// Without a limiter, there is no delay.
    #[doc(alias("NewMaxOfRateLimiter", "NewTypedMaxOfRateLimiter"))]
    pub fn new() -> Self {
        Self { limiters: Vec::new() }
    }

    /// Adds a limiter.
    #[must_use]
    pub fn with(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiters.push(Box::new(limiter));
        self
    }
}

impl<K> Default for MaxOf<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn when(&self, key: &K) -> Duration {
        // `max` evaluates all of them.
        self.limiters.iter().map(|limiter| limiter.when(key)).max().unwrap_or_default()
    }

    fn forget(&self, key: &K) {
        self.limiters.iter().for_each(|limiter| limiter.forget(key));
    }

    fn retries(&self, key: &K) -> u32 {
        self.limiters.iter().map(|limiter| limiter.retries(key)).max().unwrap_or_default()
    }

    fn failing(&self) -> usize {
        self.limiters.iter().map(|limiter| limiter.failing()).max().unwrap_or_default()
    }
}

/// Another limiter, with an upper limit of its delays. Follows client-go 0.37 (`TypedWithMaxWaitRateLimiter`).
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_workqueue::{MaxWait, RateLimiter, default_rate_limiter};
///
/// let limiter = MaxWait::new(default_rate_limiter(), Duration::from_secs(60));
/// let longest = (0..30).map(|_| limiter.when(&"web")).max();
/// assert_eq!(longest, Some(Duration::from_secs(60)));
/// ```
#[doc(alias("TypedWithMaxWaitRateLimiter", "WithMaxWaitRateLimiter"))]
#[derive(Clone, Copy, Debug)]
pub struct MaxWait<L> {
    limiter: L,
    max: Duration,
}

impl<L> MaxWait<L> {
    /// Delays no key by more than `max`.
    #[doc(alias("NewTypedWithMaxWaitRateLimiter", "NewWithMaxWaitRateLimiter"))]
    pub fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for MaxWait<L> {
    fn when(&self, key: &K) -> Duration {
        self.limiter.when(key).min(self.max)
    }

    fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.limiter.retries(key)
    }

    fn failing(&self) -> usize {
        self.limiter.failing()
    }
}

impl<K> fmt::Debug for ItemExponential<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemExponential")
            .field("base", &self.base)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for ItemFastSlow<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemFastSlow")
            .field("fast", &self.fast)
            .field("slow", &self.slow)
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOf").field("limiters", &self.limiters.len()).finish()
    }
}
