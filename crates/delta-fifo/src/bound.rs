//! The bound of a queue.

/// The number of queued deltas at which producers have to wait.
///
/// A queue at its bound rejects writes: operations fail with `Error::Full`, nothing changes, and `ready` waits for
/// room. While there is any room, an operation is queued as a whole, so the backlog exceeds the bound by at most one
/// operation, usually one list.
///
/// ```
/// use kinformer_delta_fifo::{Bound, DeltaFifo, Keyed};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = DeltaFifo::builder().bound(Bound::Deltas(1)).build();
/// queue.add(Keyed::by(|_| "web", 80)?)?.into_result()?;
/// assert!(queue.add(Keyed::by(|_| "https", 443)?).is_err(), "a producer can wait with ready()");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// At most this many deltas. 0 counts as 1.
    Deltas(usize),
    /// No bound. For producers that are bounded themselves.
    Unbounded,
}

impl Default for Bound {
    /// Returns 10,000 deltas: ten of the largest batches.
    fn default() -> Self {
        Self::Deltas(10_000)
    }
}

impl Bound {
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::Deltas(limit) => limit.max(1),
            Self::Unbounded => usize::MAX,
        }
    }
}
