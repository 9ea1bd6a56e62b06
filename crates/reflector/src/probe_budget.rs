//! The rate limit on requests for the newest version of a server.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

/// The size of a burst, followed by one request an interval: client-go's default for all requests of a client.
const BURST: u32 = 10;
const INTERVAL: Duration = Duration::from_millis(200);

/// Limits the rate of requests for the newest version, for all sources of one server together: a burst of 10, then 5 a
/// second. Further requests wait in order.
///
/// Clones share the limit. All sources of the same server must return the same budget, so that a thousand reflectors
/// that lose their connections together do not send a thousand requests at that moment.
#[derive(Clone, Debug, Default)]
pub struct ProbeBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Held by the request that waits for the bucket; the others wait for this permit.
    turn: Semaphore,
    /// The time at which the bucket is full again.
    full_at: Mutex<Option<Instant>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), full_at: Mutex::default() }
    }
}

impl ProbeBudget {
    /// Creates a budget with a full burst.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until the limit admits a request, in the order of arrival.
    ///
    /// # Cancel safety
    /// A wait that is dropped consumes nothing of the budget and loses its place.
    pub(crate) async fn admission(&self) {
        // The semaphore is never closed.
        let _turn = self.0.turn.acquire().await;
        while let Err(free_at) = self.take(Instant::now()) {
            sleep_until(free_at).await;
        }
    }

    fn take(&self, now: Instant) -> Result<(), Instant> {
        let mut full_at = self.0.full_at.lock();
        let full = full_at.map_or(now, |full_at| full_at.max(now));
        if full > now + INTERVAL * (BURST - 1) {
            return Err(full - INTERVAL * (BURST - 1));
        }
        *full_at = Some(full + INTERVAL);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// A dropped wait consumes nothing of the budget, and the next one takes its place.
    // contract: R-22d
    #[tokio::test(start_paused = true)]
    async fn dropped_admission_consumes_nothing() {
        let budget = ProbeBudget::new();
        for _ in 0..BURST {
            budget.admission().now_or_never().unwrap();
        }
        let mut first = Box::pin(budget.admission());
        let mut second = Box::pin(budget.admission());
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(first);
        let before = Instant::now();
        second.await;
        budget.admission().await;
        assert_eq!(before.elapsed().as_millis() / INTERVAL.as_millis(), 2);
    }
}
