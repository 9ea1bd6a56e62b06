//! Who is due for a resync, and how often that is asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// No handler is resynced more often, as upstream.
const MINIMUM: Duration = Duration::from_secs(1);

pub(crate) struct Schedule {
    /// The period of handlers that do not name one.
    default: Option<Duration>,
    /// How often it is asked; fixed at the start.
    check: Option<Duration>,
    started: bool,
    entries: Vec<Entry>,
    due: Arc<[u64]>,
}

struct Entry {
    id: u64,
    period: Duration,
    next: Instant,
}

impl Schedule {
    pub(crate) fn new(default: Duration) -> Self {
        let default = (!default.is_zero()).then(|| default.max(MINIMUM));
        Self { default, check: default, started: false, entries: Vec::new(), due: Arc::default() }
    }

    /// From now on the smallest period stays as it is.
    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    pub(crate) fn check_period(&self) -> Option<Duration> {
        self.check
    }

    /// Takes a handler in; says with which period. `asked` is what it wants, zero for never, nothing for the default.
    pub(crate) fn add(&mut self, id: u64, name: &str, asked: Option<Duration>) -> Option<Duration> {
        let wanted = match asked {
            Some(asked) => (!asked.is_zero()).then(|| asked.max(MINIMUM)),
            None => self.default,
        }?;
        let period = match (self.started, self.check) {
            (false, check) => {
                self.check = Some(check.map_or(wanted, |check| check.min(wanted)));
                wanted
            }
            (true, Some(check)) => wanted.max(check),
            (true, None) => {
                tracing::warn!(
                    handler = name, period = ?wanted,
                    "no resync for this handler: none was asked for before the start",
                );
                return None;
            }
        };
        if period > wanted {
            tracing::warn!(
                handler = name, asked = ?wanted, period = ?period,
                "the resync period is longer than asked: it was fixed at the start",
            );
        }
        self.entries.push(Entry { id, period, next: Instant::now() + period });
        Some(period)
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// Notes who is due now, and says whether anyone is.
    pub(crate) fn should_resync(&mut self) -> bool {
        let now = Instant::now();
        let mut due = Vec::new();
        for entry in &mut self.entries {
            if entry.next <= now {
                entry.next = now + entry.period;
                due.push(entry.id);
            }
        }
        due.sort_unstable();
        self.due = due.into();
        !self.due.is_empty()
    }

    /// Whether a resync is for anyone now.
    pub(crate) fn is_anyone_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(crate) fn due(&self) -> Arc<[u64]> {
        self.due.clone()
    }
}
