//! A model of the API server's leases and config maps in simulated time, and a clock that can jump.

mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kinformer_leader_election::{Clock, LeaderElector, LeaderElectorBuilder};
use kube_client::Client;
use tokio::time::Instant;

pub use server::{Response, Server};

pub const LEASE_DURATION: Duration = Duration::from_secs(15);
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// A clock in simulated time that jumps ahead on demand, as after a suspend.
#[derive(Clone)]
pub struct TestClock {
    start: Instant,
    jumped: Arc<AtomicU64>,
}

impl TestClock {
    pub fn new() -> Self {
        Self { start: Instant::now(), jumped: Arc::default() }
    }

    pub fn jump(&self, by: Duration) {
        self.jumped.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.start.elapsed() + Duration::from_millis(self.jumped.load(Ordering::Relaxed))
    }
}

/// The options of a candidate with the default periods.
pub fn candidate(client: &Client, identity: &str) -> LeaderElectorBuilder {
    LeaderElector::builder(client.clone(), "default", "test").identity(identity).clock(TestClock::new())
}

/// Waits in simulated time.
pub async fn after(duration: Duration) {
    tokio::time::sleep(duration).await;
}
