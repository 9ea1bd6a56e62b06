//! A token bucket for all keys together.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter as Governor};
use parking_lot::Mutex;

use crate::rate_limiter::RateLimiter;
use crate::sync::{Instant, now};

/// A token bucket: limits the rate of all keys together, and remembers none. Follows client-go 0.37
/// (`TypedBucketRateLimiter`).
///
/// Each call takes a token. If there is none, the call reserves the next one, and the key waits for it.
pub struct Bucket {
    /// Locked for as long as the clock shows the time of one reservation.
    cells: Mutex<Cells>,
    started: Instant,
}

type Cells = Governor<NotKeyed, InMemoryState, ReservedTime, NoOpMiddleware<Duration>>;

/// The clock of the bucket, which shows the time of the reservation that is made.
#[derive(Clone, Debug, Default)]
struct ReservedTime(std::sync::Arc<Mutex<Duration>>);

impl Clock for ReservedTime {
    type Instant = Duration;

    fn now(&self) -> Duration {
        *self.0.lock()
    }
}

impl Bucket {
    /// Adds `rate` tokens each second, up to `burst`. The bucket is full at the beginning.
    pub fn per_second(rate: NonZeroU32, burst: NonZeroU32) -> Self {
        let cells =
            Cells::direct_with_clock(Quota::per_second(rate).allow_burst(burst), ReservedTime::default());
        Self { cells: Mutex::new(cells), started: now() }
    }

    /// Takes a token. Returns how long it takes until the token is available.
    fn reserve(&self) -> Duration {
        let cells = self.cells.lock();
        let since_start = now() - self.started;
        let mut time = since_start;
        loop {
            *cells.clock().0.lock() = time;
            match cells.check() {
                Ok(()) => break,
                Err(denied) => time = denied.earliest_possible().max(time + Duration::from_nanos(1)),
            }
        }
        time.saturating_sub(since_start)
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

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").finish_non_exhaustive()
    }
}
