//! How long a queue may grow.

/// How many deltas a queue takes before its producers have to wait.
///
/// A queue at its bound takes nothing more: operations fail with `Error::Full`, nothing is changed, and
/// `ready` waits for room. One operation is taken whole as long as there is any room at all, so the backlog
/// never exceeds the bound by more than one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// At most this many deltas. Zero counts as one.
    Deltas(usize),
    /// No bound: for producers that are bounded themselves.
    Unbounded,
}

impl Default for Bound {
    /// 10,000 deltas: ten of the largest batches.
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
