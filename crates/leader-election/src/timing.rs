//! The periods of an election, and the leader that an elector has seen.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// A candidate tries again after the retry period and up to this many further ones, so that candidates do not try at the
/// same time.
pub(crate) const JITTER: f64 = 1.2;

/// The periods of an election.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
}

impl Timing {
    /// The time limit of one attempt, so that a connection that hangs does not use up all of the renew deadline.
    pub(crate) fn attempt(self) -> Duration {
        self.renew_deadline / 2
    }
}

/// The identity of the leader that an elector has seen last.
#[derive(Clone)]
pub(crate) struct ObservedLeader(watch::Sender<Option<Arc<str>>>);

impl Default for ObservedLeader {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl ObservedLeader {
    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.0.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.0.subscribe()
    }

    pub(crate) fn set(&self, leader: Option<Arc<str>>) {
        self.0.send_if_modified(|observed| {
            let is_new = *observed != leader;
            *observed = leader;
            is_new
        });
    }
}

/// A wait for the leadership, read at one moment: see [`LeaderElector::candidacy`](crate::LeaderElector::candidacy).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidacy {
    /// For how long this elector has been waiting.
    pub waiting: Duration,
    /// How long ago the API server last answered a request for the Lease, whatever the answer; `None` if it has not since the wait
    /// began.
    pub answered: Option<Duration>,
    /// The error of the last attempt; `None` if it has found another leader.
    pub error: Option<Arc<str>>,
}

/// The waits of an elector and of its clones: the time of the first one, and the outcome of the last attempt.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Wait>);

#[derive(Default)]
struct Wait {
    waiting: usize,
    since: Option<Instant>,
    answered: Option<Instant>,
    error: Option<Arc<str>>,
}

impl Waits {
    pub(crate) fn read(&self) -> Option<Candidacy> {
        let wait = self.0.lock();
        Some(Candidacy {
            waiting: wait.since?.elapsed(),
            answered: wait.answered.map(|answered| answered.elapsed()),
            error: wait.error.clone(),
        })
    }

    /// Begins a wait, which ends when the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Waiting {
        let mut wait = self.0.lock();
        wait.waiting += 1;
        wait.since.get_or_insert_with(Instant::now);
        Waiting(self.clone())
    }
}

pub(crate) struct Waiting(Arc<Waits>);

impl Waiting {
    /// An attempt has ended.
    pub(crate) fn attempted(&self, is_answered: bool, error: Option<Arc<str>>) {
        let mut wait = self.0.0.lock();
        wait.error = error;
        if is_answered {
            wait.answered = Some(Instant::now());
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut wait = self.0.0.lock();
        wait.waiting -= 1;
        if wait.waiting == 0 {
            *wait = Wait::default();
        }
    }
}
