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

/// The time during which a process may write, since it holds a Lease: the part of a [`Leadership`](crate::Leadership) for
/// protocols of your own that hold Leases. It has no task. The owner of the Lease calls [`Self::renewed`] and [`Self::end`].
///
/// A term that has ended does not begin again: create another one.
pub struct Term {
    pub(crate) lease: Arc<str>,
    pub(crate) identity: Arc<str>,
    clock: Arc<dyn Clock>,
    lease_duration: Duration,
    renew_deadline: Duration,
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
    /// Begins a term. `since` is the time by this clock just before the write of the Lease was sent.
    ///
    /// Writes are refused when the renew deadline has passed since then. A write that is in flight is given up when the lease
    /// duration has passed, which should be longer.
    pub fn new(
        lease: impl Into<Arc<str>>,
        identity: impl Into<Arc<str>>,
        clock: Arc<dyn Clock>,
        lease_duration: Duration,
        renew_deadline: Duration,
        since: Duration,
    ) -> Self {
        Self {
            lease: lease.into(),
            identity: identity.into(),
            clock,
            lease_duration,
            renew_deadline,
            since: AtomicU64::new(nanoseconds(since)),
            unanswered: AtomicU64::new(0),
            last_error: Mutex::new(None),
            end: OnceLock::new(),
            ended: CancellationToken::new(),
            writes: TaskTracker::new(),
        }
    }

    /// The Lease was renewed by a write that was sent at this time.
    pub fn renewed(&self, since: Duration) {
        self.since.fetch_max(nanoseconds(since), Ordering::AcqRel);
        *self.last_error.lock() = None;
    }

    /// Ends the term. The first reason counts.
    pub fn end(&self, end: End) {
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

    /// A write has ended without a response. It may take effect until this time by the clock of the term.
    pub fn unanswered(&self, until: Duration) {
        self.unanswered.fetch_max(nanoseconds(until), Ordering::AcqRel);
    }

    /// Until when a write without a response may take effect, by the clock of the term: one of a wrapped client that has failed,
    /// or whose future was dropped.
    pub fn unanswered_until(&self) -> Duration {
        Duration::from_nanos(self.unanswered.load(Ordering::Acquire))
    }

    /// Waits until all writes have ended, and none without a response can take effect.
    pub(crate) async fn settled(&self) {
        self.writes.wait().await;
        loop {
            let left = self.unanswered_until().saturating_sub(self.now());
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
        self.renew_deadline.saturating_sub(self.age())
    }

    /// Returns for how long no other process acquires the Lease.
    ///
    /// # Errors
    /// The term has ended. It ends here if the renew deadline has passed.
    pub fn check(&self) -> Result<Duration, NotLeader> {
        self.expire_after(self.renew_deadline);
        match self.end.get() {
            None => Ok(self.lease_duration.saturating_sub(self.age())),
            Some(end) => Err(self.not_leader(end.clone())),
        }
    }

    /// Returns whether another process can hold the Lease now. Then the leadership has ended.
    pub(crate) fn end_if_over(&self) -> bool {
        self.expire_after(self.lease_duration)
            || matches!(self.end.get(), Some(End::HeldBy(_) | End::Removed))
    }

    /// Waits until another process can hold the Lease.
    pub(crate) async fn over(&self) {
        while !self.end_if_over() {
            let remaining = self.lease_duration.saturating_sub(self.age());
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
            .field("end", &self.end.get())
            .finish_non_exhaustive()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
