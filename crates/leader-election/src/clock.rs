//! The clock that leases are measured by.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A clock that leases are measured by. It needs to count the time during which the computer is suspended.
pub trait Clock: Send + Sync + 'static {
    /// Returns the time since a fixed moment. It must never go back, and no correction of the wall clock may change it.
    fn now(&self) -> Duration;

    /// Returns the wall clock, which is written into the Lease for people, and read nowhere. The default is the system's.
    #[expect(clippy::disallowed_methods, reason = "tokio has no wall clock")]
    fn wall_clock(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The system's clock since boot, which counts the time during which the computer is suspended.
///
/// `CLOCK_BOOTTIME` on Linux, `CLOCK_MONOTONIC` on other Unix systems, and `std::time::Instant` elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

#[cfg(unix)]
impl Clock for BootClock {
    fn now(&self) -> Duration {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let clock = nix::time::ClockId::CLOCK_BOOTTIME;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let clock = nix::time::ClockId::CLOCK_MONOTONIC;
        // Without a clock every lease has expired.
        clock.now().map_or(Duration::MAX, Duration::from)
    }
}

#[cfg(not(unix))]
impl Clock for BootClock {
    fn now(&self) -> Duration {
        static START: std::sync::LazyLock<std::time::Instant> =
            std::sync::LazyLock::new(std::time::Instant::now);
        START.elapsed()
    }
}

/// Tokio's clock, for tests that pause it: leases then expire in paused time, which the [`BootClock`] does not follow.
///
/// It does not count the time during which the computer is suspended: use it in tests only.
///
/// ```
/// use kinformer_leader_election::{LeaderElector, TokioClock, kube_client::Client};
///
/// # fn elector(client: Client) -> Result<LeaderElector, kinformer_leader_election::Error> {
/// LeaderElector::builder(client, "default", "my-operator").identity("a").clock(TokioClock::new()).build()
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    /// Returns a clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tokio_clock_follows_paused_time() {
        let clock = TokioClock::new();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(clock.now(), Duration::from_secs(3_600));
    }
}
