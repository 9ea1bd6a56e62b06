//! The periods of an election, and the leader that an elector has seen.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

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
