//! The global resource version.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Signals writes to those that wait for a state of the server.
pub(crate) type Activity = Arc<watch::Sender<()>>;

/// The global version: every write to any resource takes the next one.
///
/// A version is taken while the lock of its resource is held. A reader that holds this lock and reads the current
/// version therefore knows that the log has all events of this resource up to that version.
#[derive(Debug)]
pub(crate) struct Versions {
    current: AtomicU64,
    activity: Activity,
}

impl Versions {
    #[cfg(test)]
    pub(crate) fn starting_at(version: u64) -> Self {
        Self::new(version, Activity::default())
    }

    /// The activity is signalled by each write.
    pub(crate) fn new(version: u64, activity: Activity) -> Self {
        Self { current: AtomicU64::new(version), activity }
    }

    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    pub(crate) fn next(&self) -> u64 {
        self.current.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Signals a write whose lock is released.
    pub(super) fn signal(&self) {
        // Without a receiver, which is the rule, it costs nothing.
        if self.activity.receiver_count() > 0 {
            self.activity.send_replace(());
        }
    }
}
