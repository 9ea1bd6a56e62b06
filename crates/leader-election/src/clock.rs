//! The clock that leases are measured by.

use std::time::{Duration, SystemTime};

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
