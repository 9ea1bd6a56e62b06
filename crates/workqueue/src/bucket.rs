//! A token bucket for all keys together.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::Mutex;

use crate::rate_limiter::RateLimiter;
use crate::sync::{Instant, now};

/// A token in the unit of the bucket, which gains `rate` of this unit each nanosecond: no division, so no rounding.
const TOKEN: u128 = 1_000_000_000;

/// A token bucket: limits the rate of all keys together, and remembers none. Follows client-go 0.37
/// (`TypedBucketRateLimiter`).
///
/// Each call takes a token. If there is none, the call reserves the next one, and the key waits for it. Tokens are counted
/// exactly, at any rate.
#[doc(alias("BucketRateLimiter", "TypedBucketRateLimiter"))]
pub struct Bucket {
    rate: u128,
    burst: u128,
    started: Instant,
    /// The taken tokens, and those that a full bucket has not gained, since the start.
    used: Mutex<u128>,
}

impl Bucket {
    /// Adds `rate` tokens each second, up to `burst`. The bucket is full at the beginning.
    pub fn per_second(rate: NonZeroU32, burst: NonZeroU32) -> Self {
        let burst = u128::from(burst.get()) * TOKEN;
        Self { rate: rate.get().into(), burst, started: now(), used: Mutex::new(0) }
    }

    /// Takes a token. Returns how long it takes until the token is available.
    fn reserve(&self) -> Duration {
        // Fits: the longest `Duration` has less than 2^94 ns, and the rate is less than 2^32.
        let gained = (now() - self.started).as_nanos() * self.rate;
        let debt = {
            let mut used = self.used.lock();
            *used = gained.max(*used).saturating_add(TOKEN);
            (*used - gained).saturating_sub(self.burst)
        };
        // Rounded up: not before the token is there.
        Duration::from_nanos(debt.div_ceil(self.rate).try_into().unwrap_or(u64::MAX))
    }
}

impl Default for Bucket {
    /// 10 tokens each second, up to 100, as in client-go's default limiter.
    fn default() -> Self {
        Self::per_second(NonZeroU32::MIN.saturating_add(9), NonZeroU32::MIN.saturating_add(99))
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn when(&self, _: &K) -> Duration {
        self.reserve()
    }

    fn forget(&self, _: &K) {}

    fn retries(&self, _: &K) -> u32 {
        0
    }

    fn failing(&self) -> usize {
        0
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").finish_non_exhaustive()
    }
}
