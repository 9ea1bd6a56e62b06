//! Which handlers are due for a resync, and how often that is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// No handler is resynced more often, as upstream.
const MINIMUM: Duration = Duration::from_secs(1);

/// The handlers that one resync is for.
///
/// Returned by [`take_due_handlers`](crate::SharedProcessor::take_due_handlers) and consumed by the resync that is
/// published for them, so that no later check changes which handlers receive it.
#[must_use = "these handlers wait for a resync"]
pub struct DueHandlers {
    /// In ascending order.
    ids: Arc<[u64]>,
}

pub(crate) struct Schedule {
    /// The period of handlers without one of their own.
    default: Option<Duration>,
    /// The check period; fixed at the start.
    check: Option<Duration>,
    started: bool,
    entries: BTreeMap<u64, Entry>,
    /// Handlers that a check has found due, and whose resync has not begun.
    due: BTreeSet<u64>,
}

struct Entry {
    period: Duration,
    /// `None` where no [`Instant`] is that late.
    next: Option<Instant>,
}

/// The resync period of a handler, and the requested one where it differs.
pub(crate) enum Period {
    Never,
    AsRequested(Duration),
    Longer {
        requested: Duration,
        period: Duration,
    },
    /// There is no resync before the start, so that none is ever checked for.
    Unchecked {
        requested: Duration,
    },
}

impl DueHandlers {
    pub(crate) fn contains(&self, id: u64) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// For one more batch of the same resync.
    pub(crate) fn share(&self) -> Self {
        Self { ids: self.ids.clone() }
    }
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

    /// Not under a lock: a subscriber is the user's.
    pub(crate) fn log(&self, handler: &str) {
        match self {
            Self::Never | Self::AsRequested(_) => {}
            Self::Longer { requested, period } => tracing::warn!(
                handler,
                ?requested,
                ?period,
                "resync period longer than requested: the check interval was fixed at the start",
            ),
            Self::Unchecked { requested } => tracing::warn!(
                handler, period = ?requested,
                "no resyncs for this handler: none were requested before the start",
            ),
        }
    }
}

/// A period that is a period: neither zero nor so long that its end cannot be expressed.
fn finite(period: Duration) -> Option<Duration> {
    let never = period.is_zero() || Instant::now().checked_add(period).is_none();
    (!never).then(|| period.max(MINIMUM))
}

impl Schedule {
    pub(crate) fn new(default: Duration) -> Self {
        let default = finite(default);
        Self { default, check: default, started: false, entries: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// From now on the check period stays as it is.
    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    pub(crate) fn check_period(&self) -> Option<Duration> {
        self.check
    }

    /// Takes a handler in. `requested` is its own period, zero for never, `None` for the default.
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

    /// Marks the handlers whose period is over. Returns whether any is marked.
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

    /// The marked handlers, which are marked no longer.
    pub(crate) fn take_due(&mut self) -> Option<DueHandlers> {
        let due = std::mem::take(&mut self.due);
        (!due.is_empty()).then(|| DueHandlers { ids: due.into_iter().collect() })
    }
}
