//! Metrics of a queue, under the names of client-go.

use std::time::Duration;

/// Metrics of a queue, read at one moment.
///
/// The names are those of client-go's metrics, with the prefix and the units of its provider for Prometheus. The
/// durations are zero in a queue that does not record them.
#[doc(alias("CounterMetric", "GaugeMetric", "MetricsProvider", "SetProvider", "SettableGaugeMetric"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueMetrics {
    /// `workqueue_depth`: number of queued keys, including keys in flight that are queued again after their run. Delayed
    /// keys are not included. [`WorkQueue::depths`](crate::WorkQueue::depths) has this number for each priority.
    pub depth: usize,
    /// `workqueue_adds_total`: total number of keys that were queued. A key that was queued already does not count, a
    /// delayed key counts when its delay is over.
    pub adds: u64,
    /// `workqueue_retries_total`: total number of requests with a delay.
    pub retries: u64,
    /// `workqueue_queue_duration_seconds`: how long keys were queued before they were handed out.
    pub queue_duration: Histogram,
    /// `workqueue_work_duration_seconds`: how long keys were in flight.
    pub work_duration: Histogram,
    /// How long the key that has waited longest has been queued. A key whose priority was raised is behind those that were
    /// queued before the raise. client-go has no such metric.
    pub oldest: Duration,
    /// `workqueue_unfinished_work_seconds`: how long the keys in flight have been in flight, as a sum.
    pub unfinished_work: Duration,
    /// `workqueue_longest_running_processor_seconds`: how long the longest of them has been in flight.
    pub longest_running: Duration,
    /// Number of keys in flight.
    pub in_flight: usize,
    /// Number of delayed keys.
    pub delayed: usize,
    /// Total number of requests that were rejected, because the queue was shut down or did not admit the key.
    pub rejected: u64,
    /// Number of keys with failures that the rate limiter remembers. A number that only grows is that of keys that are
    /// never forgotten.
    pub failing: usize,
}

/// The number of durations up to each of some bounds.
#[doc(alias("HistogramMetric", "SummaryMetric"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram<const N: usize = 12> {
    bounds: &'static [Duration; N],
    counts: [u64; N],
    count: u64,
    sum: Duration,
}

impl Histogram {
    /// The upper bounds of the buckets of a queue: powers of ten from 10 ns to 1,000 s, as in controller-runtime.
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_nanos(10),
        Duration::from_nanos(100),
        Duration::from_micros(1),
        Duration::from_micros(10),
        Duration::from_micros(100),
        Duration::from_millis(1),
        Duration::from_millis(10),
        Duration::from_millis(100),
        Duration::from_secs(1),
        Duration::from_secs(10),
        Duration::from_secs(100),
        Duration::from_secs(1000),
    ];
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(&Self::BOUNDS)
    }
}

impl<const N: usize> Histogram<N> {
    /// Creates a histogram without durations, for ascending bounds.
    pub const fn new(bounds: &'static [Duration; N]) -> Self {
        Self { bounds, counts: [0; N], count: 0, sum: Duration::ZERO }
    }

    /// Returns the bounds, each with the number of durations that are not longer: the cumulative buckets of Prometheus,
    /// without the last one, which is [`Self::count`].
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let cumulative = self.counts.into_iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        self.bounds.iter().copied().zip(cumulative)
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        let bucket = self.bounds.iter().position(|bound| duration <= *bound);
        if let Some(count) = bucket.and_then(|bucket| self.counts.get_mut(bucket)) {
            *count += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
    }
}
