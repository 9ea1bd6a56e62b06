//! The bound of a queue.

/// The number of queued deltas at which producers have to wait.
///
/// A queue at its bound rejects writes: operations fail with `Error::Full`, nothing changes, and `ready` waits for
/// room. While there is any room, an operation is queued as a whole, so the backlog exceeds the bound by at most one
/// operation, usually one list.
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
