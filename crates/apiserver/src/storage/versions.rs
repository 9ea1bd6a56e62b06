//! The one version of everything.

use std::sync::atomic::{AtomicU64, Ordering};

/// The global version: every write of every resource takes the next one.
///
/// A version is taken while the lock of its resource is held. So whoever holds that lock and reads the
/// current version knows that every event of this resource up to it is in the log.
#[derive(Debug)]
pub(crate) struct Versions(AtomicU64);

impl Versions {
    pub(crate) fn starting_at(version: u64) -> Self {
        Self(AtomicU64::new(version))
    }

    pub(crate) fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }
}
