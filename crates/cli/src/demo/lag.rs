//! Measures the time from a write to its handler.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kinformer::ResourceVersion;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How many writes, and how many samples, are kept: the newest.
const REMEMBERED: usize = 16 * 1024;

/// Records when versions are written and when they are delivered. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct LagRecorder(Arc<Mutex<Samples>>);

#[derive(Debug, Default)]
struct Samples {
    written: VecDeque<(u64, Instant)>,
    took: VecDeque<Duration>,
}

/// Statistics of the samples that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lag {
    pub(crate) median: Duration,
    pub(crate) percentile_99: Duration,
    pub(crate) maximum: Duration,
}

impl LagRecorder {
    /// Records that the write of this version starts now. Versions must increase.
    pub(crate) fn write_started(&self, version: u64) {
        let mut samples = self.0.lock();
        if samples.written.len() == REMEMBERED {
            samples.written.pop_front();
        }
        samples.written.push_back((version, Instant::now()));
    }

    /// Records that a handler received this version. Versions whose write was not recorded are ignored.
    pub(crate) fn delivered(&self, version: &ResourceVersion) {
        let Ok(version) = version.to_string().parse::<u64>() else { return };
        let mut samples = self.0.lock();
        let Ok(index) = samples.written.binary_search_by_key(&version, |(version, _)| *version) else {
            return;
        };
        let Some((_, written)) = samples.written.get(index) else { return };
        let took = written.elapsed();
        if samples.took.len() == REMEMBERED {
            samples.took.pop_front();
        }
        samples.took.push_back(took);
    }

    /// Returns the statistics; `None` without samples.
    pub(crate) fn lag(&self) -> Option<Lag> {
        let mut took: Vec<Duration> = self.0.lock().took.iter().copied().collect();
        took.sort_unstable();
        let last = took.len().checked_sub(1)?;
        let sample = |index: usize| took.get(index).copied();
        Some(Lag {
            median: sample(last / 2)?,
            percentile_99: sample(last * 99 / 100)?,
            maximum: sample(last)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lags_are_measured_from_write_to_handler() {
        let lag = LagRecorder::default();
        assert_eq!(lag.lag(), None);
        for (version, milliseconds) in [(5_u64, 1), (6, 3), (9, 2)] {
            lag.write_started(version);
            tokio::time::advance(Duration::from_millis(milliseconds)).await;
            lag.delivered(&version.into());
        }
        lag.delivered(&7_u64.into());
        lag.delivered(&"x".into());
        let milliseconds = Duration::from_millis;
        let expected =
            Lag { median: milliseconds(2), percentile_99: milliseconds(2), maximum: milliseconds(3) };
        assert_eq!(lag.lag(), Some(expected));
    }
}
