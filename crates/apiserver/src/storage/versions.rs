//! The global resource version.

use std::sync::atomic::{AtomicU64, Ordering};

/// The global version: every write to any resource takes the next one.
///
/// A version is taken while the lock of its resource is held. A reader that holds this lock and reads the current
/// version therefore knows that the log has all events of this resource up to that version.
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
