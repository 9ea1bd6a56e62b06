//! The watch cache of a server: a reader of the history that may lag behind it.

use std::time::Duration;

use tokio::time::Instant;

use super::history::History;

/// How far a watch cache is behind the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lag {
    /// The cache has every change at once.
    #[default]
    None,
    /// The cache has each change this long after it was made.
    After(Duration),
    /// The cache receives no changes.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Cache {
    lag: Lag,
    /// All changes up to this version are in the cache.
    position: u64,
    /// Events up to this version are no longer in the cache.
    dropped: u64,
    restores: usize,
}

impl Cache {
    /// Creates a cache that begins with the newest state.
    pub(crate) fn new(history: &History) -> Self {
        Self {
            lag: Lag::None,
            position: history.newest(),
            dropped: history.newest(),
            restores: history.restores(),
        }
    }

    pub(crate) fn set_lag(&mut self, lag: Lag) {
        self.lag = lag;
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The oldest version from which a watch can continue.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Drops the events up to a version.
    pub(crate) fn drop_events(&mut self, version: u64) {
        self.dropped = self.dropped.max(version.min(self.position));
    }

    /// Reads the history as far as the lag allows. Never goes back, except after a restored backup.
    pub(crate) fn refresh(&mut self, history: &History, now: Instant) {
        if self.restores != history.restores() {
            self.restores = history.restores();
            self.position = history.origin();
            self.dropped = self.position;
        }
        let reached = match self.lag {
            Lag::None => history.newest(),
            Lag::Stopped => return,
            Lag::After(lag) => {
                let next = history.changes_after(self.position).find(|change| change.time + lag > now);
                next.map_or(history.newest(), |change| change.version - 1)
            }
        };
        self.position = self.position.max(reached);
    }

    /// Returns the time at which the cache receives its next change.
    pub(crate) fn next_change(&self, history: &History) -> Option<Instant> {
        let Lag::After(lag) = self.lag else { return None };
        history.changes_after(self.position).next().map(|change| change.time + lag)
    }
}
