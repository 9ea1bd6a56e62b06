//! The schedule of resyncs: the check interval, and the handlers that are due.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// The shortest resync period, as in client-go.
const MINIMUM: Duration = Duration::from_secs(1);

/// The handlers that receive one resync.
///
/// Returned by [`take_due_handlers`](crate::SharedProcessor::take_due_handlers) and consumed by
/// [`send_resync`](crate::SharedProcessor::send_resync), so that no later check changes the receiving handlers.
#[must_use = "these handlers wait for a resync"]
pub struct DueHandlers {
    pub(crate) ids: Vec<u64>,
}

pub(crate) struct Schedule {
    /// The period of handlers that request none.
    default: Option<Duration>,
    /// The check interval; fixed at the start.
    check: Option<Duration>,
    started: bool,
    entries: BTreeMap<u64, Entry>,
    /// The handlers that are marked as due, and whose resync has not started.
    due: BTreeSet<u64>,
}

struct Entry {
    period: Duration,
    /// The time of the next resync; `None` if an [`Instant`] cannot represent it.
    next: Option<Instant>,
}

/// The resync period of a handler, and the requested period if it differs.
pub(crate) enum Period {
    Never,
    AsRequested(Duration),
    Longer {
        requested: Duration,
        period: Duration,
    },
    /// No period was requested before the start, so the processor never checks for due handlers.
    Unchecked {
        requested: Duration,
    },
}

impl fmt::Debug for DueHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DueHandlers").field("handlers", &self.ids.len()).finish()
    }
}

impl Period {
    pub(crate) fn get(&self) -> Option<Duration> {
        match *self {
            Self::Never | Self::Unchecked { .. } => None,
            Self::AsRequested(period) | Self::Longer { period, .. } => Some(period),
        }
    }

    /// Logs a period that differs from the request. Must not be called under a lock: a subscriber is user code.
    pub(crate) fn log(&self, handler: &str) {
        match self {
            Self::Never | Self::AsRequested(_) => {}
            Self::Longer { requested, period } => tracing::warn!(
                handler,
                ?requested,
                ?period,
                "resync period is longer than requested: the check interval was fixed at the start",
            ),
            Self::Unchecked { requested } => tracing::warn!(
                handler, period = ?requested,
                "no resyncs for this handler: none were requested before the start",
            ),
        }
    }
}

/// Returns the period, at least [`MINIMUM`]; `None` if it is zero or its end cannot be represented.
fn finite(period: Duration) -> Option<Duration> {
    let never = period.is_zero() || Instant::now().checked_add(period).is_none();
    (!never).then(|| period.max(MINIMUM))
}

impl Schedule {
    pub(crate) fn new(default: Duration) -> Self {
        let default = finite(default);
        Self { default, check: default, started: false, entries: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// Fixes the check interval.
    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    pub(crate) fn check_period(&self) -> Option<Duration> {
        self.check
    }

    /// Adds a handler. `requested` is its requested period: zero for never, `None` for the default.
    pub(crate) fn add(&mut self, id: u64, requested: Option<Duration>) -> Period {
        let Some(wanted) = requested.map_or(self.default, finite) else { return Period::Never };
        let period = match (self.started, self.check) {
            (false, check) => {
                self.check = Some(check.map_or(wanted, |check| check.min(wanted)));
                wanted
            }
            (true, Some(check)) => wanted.max(check),
            (true, None) => return Period::Unchecked { requested: wanted },
        };
        self.entries.insert(id, Entry { period, next: Instant::now().checked_add(period) });
        if period > wanted {
            Period::Longer { requested: wanted, period }
        } else {
            Period::AsRequested(period)
        }
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.entries.remove(&id);
        self.due.remove(&id);
    }

    /// Marks the handlers whose period is over. Returns whether any handler is marked.
    pub(crate) fn mark_due(&mut self) -> bool {
        let now = Instant::now();
        for (id, entry) in &mut self.entries {
            if entry.next.is_some_and(|next| next <= now) {
                entry.next = now.checked_add(entry.period);
                self.due.insert(*id);
            }
        }
        !self.due.is_empty()
    }

    /// Restarts the period of a handler whose resync has been published, and removes its mark.
    pub(crate) fn restart(&mut self, id: u64) {
        self.due.remove(&id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.next = Instant::now().checked_add(entry.period);
        }
    }

    /// Returns the marked handlers and removes their marks.
    pub(crate) fn take_due(&mut self) -> Option<DueHandlers> {
        let due = std::mem::take(&mut self.due);
        (!due.is_empty()).then(|| DueHandlers { ids: due.into_iter().collect() })
    }
}
