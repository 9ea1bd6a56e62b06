//! The processing times of batches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in seconds. Longer durations are in no bucket.
const BOUNDS: [f64; 10] = [0.000_01, 0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Counts durations by size.
#[derive(Default)]
pub(crate) struct Latency {
    nanoseconds: AtomicU64,
    count: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len()],
}

/// The distribution of the durations of an operation.
#[doc(alias("HistogramMetric", "SummaryMetric"))]
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LatencySummary {
    /// The number of operations.
    pub count: u64,
    /// The sum of all durations.
    pub total: Duration,
    /// For each bucket, its upper bound in seconds and the number of durations above the previous bound and up to this
    /// one. Durations above the last bound are counted in `count` only.
    pub buckets: Vec<(f64, u64)>,
}

impl Latency {
    pub(crate) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.nanoseconds.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = bucket.and_then(|bucket| self.buckets.get(bucket)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count.load(Ordering::Relaxed),
            total: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
            buckets: BOUNDS
                .iter()
                .zip(&self.buckets)
                .map(|(bound, count)| (*bound, count.load(Ordering::Relaxed)))
                .collect(),
        }
    }
}
