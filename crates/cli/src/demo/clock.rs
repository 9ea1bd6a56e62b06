//! How long it takes from a write to a handler.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kinformer::ResourceVersion;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How many writes, and how many measurements, are remembered: the newest.
const REMEMBERED: usize = 16 * 1024;

/// Notes when versions were written, and when they were heard of. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    written: VecDeque<(u64, Instant)>,
    took: VecDeque<Duration>,
}

/// Of all measurements that are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lag {
    pub(crate) median: Duration,
    pub(crate) percentile_99: Duration,
    pub(crate) most: Duration,
}

impl Clock {
    /// A write that will have this version begins now. Versions rise.
    pub(crate) fn writing(&self, version: u64) {
        let mut notes = self.0.lock();
        if notes.written.len() == REMEMBERED {
            notes.written.pop_front();
        }
        notes.written.push_back((version, Instant::now()));
    }

    /// A handler was told of this version. Of one that was not noted nothing is known.
    pub(crate) fn heard(&self, version: &ResourceVersion) {
        let Ok(version) = version.to_string().parse::<u64>() else { return };
        let mut notes = self.0.lock();
        let Ok(at) = notes.written.binary_search_by_key(&version, |(version, _)| *version) else { return };
        let Some((_, written)) = notes.written.get(at) else { return };
        let took = written.elapsed();
        if notes.took.len() == REMEMBERED {
            notes.took.pop_front();
        }
        notes.took.push_back(took);
    }

    /// What was measured; `None` when nothing was.
    pub(crate) fn lag(&self) -> Option<Lag> {
        let mut took: Vec<Duration> = self.0.lock().took.iter().copied().collect();
        took.sort_unstable();
        let last = took.len().checked_sub(1)?;
        let at = |place: usize| took.get(place).copied();
        Some(Lag { median: at(last / 2)?, percentile_99: at(last * 99 / 100)?, most: at(last)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lags_are_from_the_write_to_the_handler() {
        let clock = Clock::default();
        assert_eq!(clock.lag(), None);
        for (version, milliseconds) in [(5_u64, 1), (6, 3), (9, 2)] {
            clock.writing(version);
            tokio::time::advance(Duration::from_millis(milliseconds)).await;
            clock.heard(&version.into());
        }
        clock.heard(&7_u64.into());
        clock.heard(&"x".into());
        let milliseconds = Duration::from_millis;
        let expected = Lag { median: milliseconds(2), percentile_99: milliseconds(2), most: milliseconds(3) };
        assert_eq!(clock.lag(), Some(expected));
    }
}
