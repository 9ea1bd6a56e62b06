//! The time during which this process is the leader.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::error::{End, NotLeader};
use crate::lease::Hold;
use crate::timing::Timing;

/// The state of a leadership: until when it lasts, and why it has ended.
pub(crate) struct Term {
    pub(crate) lease: Arc<str>,
    pub(crate) identity: Arc<str>,
    pub(crate) transitions: i32,
    clock: Arc<dyn Clock>,
    timing: Timing,
    /// When the last write of the Lease was sent, in nanoseconds of the clock.
    since: AtomicU64,
    /// Until when writes without a response may take effect, in nanoseconds of the clock.
    unanswered: AtomicU64,
    /// The error of the last renewal, if it has failed.
    pub(crate) last_error: Mutex<Option<Arc<str>>>,
    end: OnceLock<End>,
    pub(crate) ended: CancellationToken,
    /// The writes of wrapped clients that have not ended.
    pub(crate) writes: TaskTracker,
}

impl Term {
    pub(crate) fn new(
        lease: Arc<str>,
        identity: Arc<str>,
        hold: Hold,
        clock: Arc<dyn Clock>,
        timing: Timing,
    ) -> Self {
        Self {
            lease,
            identity,
            transitions: hold.transitions,
            clock,
            timing,
            since: AtomicU64::new(nanoseconds(hold.since)),
            unanswered: AtomicU64::new(0),
            last_error: Mutex::new(None),
            end: OnceLock::new(),
            ended: CancellationToken::new(),
            writes: TaskTracker::new(),
        }
    }

    pub(crate) fn renewed(&self, hold: Hold) {
        self.since.store(nanoseconds(hold.since), Ordering::Release);
        *self.last_error.lock() = None;
    }

    /// Ends the leadership. The first reason counts.
    pub(crate) fn end(&self, end: End) {
        if self.end.set(end).is_ok() {
            self.ended.cancel();
        }
    }

    /// Ends the leadership if it was not renewed for this time. Returns whether that is so.
    fn expire_after(&self, limit: Duration) -> bool {
        let is_expired = self.age() >= limit;
        if is_expired {
            let last_error = self.last_error.lock().clone();
            self.end(End::Expired(last_error));
        }
        is_expired
    }

    /// The time by the clock of this leadership.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// A write has ended without a response. It may take effect until this time.
    pub(crate) fn unanswered(&self, until: Duration) {
        self.unanswered.fetch_max(nanoseconds(until), Ordering::AcqRel);
    }

    /// Waits until all writes have ended, and none without a response can take effect.
    pub(crate) async fn settled(&self) {
        self.writes.wait().await;
        loop {
            let until = Duration::from_nanos(self.unanswered.load(Ordering::Acquire));
            let left = until.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }

    fn age(&self) -> Duration {
        self.now().saturating_sub(Duration::from_nanos(self.since.load(Ordering::Acquire)))
    }

    /// The time until the renew deadline; zero if it has passed.
    pub(crate) fn until_deadline(&self) -> Duration {
        self.timing.renew_deadline.saturating_sub(self.age())
    }

    /// Returns for how long no other process acquires the Lease, or ends the leadership if the renew deadline has passed.
    pub(crate) fn check(&self) -> Result<Duration, NotLeader> {
        self.expire_after(self.timing.renew_deadline);
        match self.end.get() {
            None => Ok(self.timing.lease_duration.saturating_sub(self.age())),
            Some(end) => Err(self.not_leader(end.clone())),
        }
    }

    /// Returns whether another process can hold the Lease now. Then the leadership has ended.
    pub(crate) fn end_if_over(&self) -> bool {
        self.expire_after(self.timing.lease_duration)
            || matches!(self.end.get(), Some(End::HeldBy(_) | End::Removed))
    }

    /// Waits until another process can hold the Lease.
    pub(crate) async fn over(&self) {
        while !self.end_if_over() {
            let remaining = self.timing.lease_duration.saturating_sub(self.age());
            tokio::select! {
                biased;
                () = sleep(remaining) => {}
                () = self.ended.cancelled(), if !self.ended.is_cancelled() => {}
            }
        }
    }

    /// The reason of a leadership that has ended.
    pub(crate) fn reason(&self) -> NotLeader {
        self.not_leader(self.end.get().cloned().unwrap_or(End::Released))
    }

    fn not_leader(&self, end: End) -> NotLeader {
        NotLeader { lease: self.lease.clone(), identity: self.identity.clone(), end }
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("lease", &self.lease)
            .field("identity", &self.identity)
            .field("transitions", &self.transitions)
            .field("end", &self.end.get())
            .finish_non_exhaustive()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
