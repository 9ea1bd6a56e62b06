//! The time during which a source does not serve a resource (404).

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::lengthened;

/// The time for which the delays of the backoff apply: a resource that is being installed is found soon.
const INSTALLING: Duration = Duration::from_secs(30);
/// The shortest delay between requests after that time.
const PERIOD: Duration = Duration::from_secs(60);
/// The shortest delay before a request that was asked for.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// The time after which the objects count as deleted. Long, because a proxy may answer 404 by mistake.
pub(crate) const DELETED_AFTER: Duration = Duration::from_secs(600);

/// The time during which each answer was a 404.
pub(crate) struct NotServed {
    since: Instant,
    /// Whether the objects were deleted.
    deleted: bool,
}

impl NotServed {
    pub(crate) fn starting_now() -> Self {
        Self { since: Instant::now(), deleted: false }
    }

    pub(crate) fn lasted(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns the shortest delay before the next request.
    pub(crate) fn shortest_delay(&self) -> Duration {
        if self.lasted() < INSTALLING { Duration::ZERO } else { lengthened(PERIOD, PERIOD / 2) }
    }

    /// Returns whether the objects are to be deleted now. `true` once.
    pub(crate) fn take_due_deletion(&mut self) -> bool {
        let is_due = !self.deleted && self.lasted() >= DELETED_AFTER;
        self.deleted |= is_due;
        is_due
    }
}
