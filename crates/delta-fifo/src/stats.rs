//! Metrics of a delta queue.

/// Metrics of a delta queue, read at one moment.
///
/// The total number of deltas ever queued is `popped + depth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeltaQueueMetrics {
    /// Number of queued deltas. Limited by the [bound](crate::Bound).
    pub depth: usize,
    /// Highest number of deltas queued at the same time.
    pub peak_depth: usize,
    /// Number of queued entries: keys in a [`DeltaFifo`](crate::DeltaFifo), deltas in a [`RealFifo`](crate::RealFifo).
    pub entries: usize,
    /// Number of keys popped but not yet processed. Always 0 for an atomic [`RealFifo`](crate::RealFifo), which does
    /// not track keys.
    pub in_flight: usize,
    /// Total number of deltas popped.
    pub popped: u64,
    /// Total number of operations rejected because the queue was full.
    pub refused: u64,
}
