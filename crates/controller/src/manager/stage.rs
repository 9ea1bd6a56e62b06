//! The order of what runs.

/// When something begins. Later stages begin when earlier ones have begun, and end before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Servers.
    Servers,
    /// Informers.
    Caches,
    /// What each replica runs.
    Others,
    /// What only the leader runs.
    Leaders,
}

impl Stage {
    pub(crate) const COUNT: usize = 4;
}
