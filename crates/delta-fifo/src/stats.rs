//! Figures of a queue, for metrics and for people.

/// What a delta queue holds and has done, read at one moment.
///
/// What was ever queued is `popped + depth`, in deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Deltas that are queued. What the [bound](crate::Bound) is about.
    pub depth: usize,
    /// The most deltas that were ever queued at once.
    pub peak_depth: usize,
    /// Entries that are queued: keys in a [`DeltaFifo`](crate::DeltaFifo), deltas in a
    /// [`RealFifo`](crate::RealFifo).
    pub entries: usize,
    /// Keys that were popped and have not been processed. An atomic [`RealFifo`](crate::RealFifo) does not
    /// track them, and says 0.
    pub in_flight: usize,
    /// Deltas that were ever popped.
    pub popped: u64,
    /// Operations that were refused because the queue was full.
    pub refused: u64,
}
