//! The clocks of a simulated process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use kinformer_controller::kinformer_leader_election::Clock;
use tokio::time::Instant;

/// The time of the wall clocks at the beginning of a run.
const BEGINNING: Duration = Duration::from_secs(1_700_000_000);

/// The clocks of a process: one that counts suspends, and a wall clock that jumps. Clones share them.
#[derive(Clone)]
pub(crate) struct ProcessClock {
    began: Instant,
    /// The milliseconds during which the process was suspended.
    suspended: Arc<AtomicU64>,
    /// The milliseconds by which the wall clock was set.
    set: Arc<AtomicI64>,
}

impl ProcessClock {
    /// Creates clocks of a process that begins now, in its runtime.
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), suspended: Arc::default(), set: Arc::default() }
    }

    /// Counts a time during which the timers of the process did not advance.
    pub(crate) fn suspended(&self, time: Duration) {
        self.suspended.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sets the wall clock ahead or back.
    pub(crate) fn set(&self, milliseconds: i64) {
        self.set.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Duration {
        self.began.elapsed() + Duration::from_millis(self.suspended.load(Ordering::Relaxed))
    }

    fn wall_clock(&self) -> SystemTime {
        let set = self.set.load(Ordering::Relaxed);
        let time = BEGINNING + self.now();
        let jump = Duration::from_millis(set.unsigned_abs());
        SystemTime::UNIX_EPOCH + if set < 0 { time.saturating_sub(jump) } else { time + jump }
    }
}
