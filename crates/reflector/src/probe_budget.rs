//! How often all sources of one server together may be asked for their newest version.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

/// So many questions at a time, and then one in each interval. As client-go's default for all requests of a client.
const BURST: u32 = 10;
const INTERVAL: Duration = Duration::from_millis(200);

/// Bounds how often all sources of one server together are asked for their newest version: 10 times at once, and
/// then 5 times a second. A question that finds no room waits its turn.
///
/// Clones share the bound. All sources that talk to the same server are to give the same one, so that a thousand
/// reflectors that lose their connections together do not ask a thousand questions at that moment.
#[derive(Clone, Debug, Default)]
pub struct ProbeBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Whoever is next waits for the bucket, the others for their turn.
    turn: Semaphore,
    /// When the bucket is full again.
    full_at: Mutex<Option<Instant>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), full_at: Mutex::default() }
    }
}

impl ProbeBudget {
    /// Nothing has been asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the turn. First come, first served.
    ///
    /// # Cancel safety
    /// A wait that is dropped takes nothing.
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
