//! How a key is added, and in which order keys are handed out.

use std::num::NonZeroU32;
use std::time::Duration;

/// The priority of keys from initial lists and resyncs, as in controller-runtime: below the default of 0.
pub const LOW_PRIORITY: i64 = -100;

/// How a key is added: [`WorkQueue::add_with`](crate::WorkQueue::add_with). The default is at once, with priority 0.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_workqueue::{Add, WorkQueue};
///
/// let queue = WorkQueue::new();
/// queue.add_with("backup", Add::new().priority(-10));
/// queue.add_with("outage", Add::new().priority(10));
/// queue.add_with("report", Add::new().priority(10).after(Duration::from_secs(60)));
/// assert_eq!(queue.try_next().map(|item| *item.key()), Some("outage"));
/// assert_eq!(queue.try_next().map(|item| *item.key()), Some("backup"));
/// assert_eq!(queue.metrics().delayed, 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct Add {
    pub(crate) priority: i64,
    pub(crate) after: Option<Duration>,
    pub(crate) is_rate_limited: bool,
    pub(crate) marks: u32,
}

impl Add {
    /// At once, with priority 0.
    pub const fn new() -> Self {
        Self { priority: 0, after: None, is_rate_limited: false, marks: 0 }
    }

    /// Sets the priority; a higher one is handed out first.
    pub const fn priority(mut self, priority: i64) -> Self {
        self.priority = priority;
        self
    }

    /// Delays the key. Zero is at once.
    #[doc(alias = "ScheduleRequest")]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Delays the key for as long as the rate limiter says, or as [`Self::after`] says if that is shorter and not zero.
    pub const fn rate_limited(mut self) -> Self {
        self.is_rate_limited = true;
        self
    }

    /// Sets bits that say why the key is added, with a meaning that the program gives them. [`Item::marks`](crate::Item::marks)
    /// has those of all additions that led to a run.
    pub const fn marks(mut self, marks: u32) -> Self {
        self.marks |= marks;
        self
    }
}

/// How keys of low priorities progress while keys of higher ones are added constantly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fairness {
    /// While keys of several priorities wait, every so many handed out keys one is the key that has waited longest.
    ///
    /// A key that is queued behind `n` others is therefore handed out among the next `every * (n + 1)` keys, whatever
    /// is added later. A key whose priority is raised is queued anew.
    OldestEvery(NonZeroU32),
    /// Keys of a priority wait until there are none of a higher one, as in controller-runtime: they may wait forever.
    StrictPriorities,
}

impl Default for Fairness {
    /// Every tenth key.
    fn default() -> Self {
        const { Self::OldestEvery(NonZeroU32::MIN.saturating_add(9)) }
    }
}

impl Fairness {
    pub(crate) fn oldest_every(self) -> Option<NonZeroU32> {
        match self {
            Self::OldestEvery(every) => Some(every),
            Self::StrictPriorities => None,
        }
    }
}
