//! Whether a server has watch-lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Records whether a server refuses watch-lists. All sources of the same server share it, so that the server refuses
/// once and not once for each reflector.
#[derive(Clone, Debug, Default)]
pub struct WatchListSupport {
    refused: Arc<AtomicBool>,
}

impl WatchListSupport {
    /// Creates a record without a refusal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the server refused a watch-list.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Records that the server does not support watch-lists.
    pub fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Clears a refusal, for example after an upgrade of the server.
    pub fn reset(&self) {
        self.refused.store(false, Ordering::Relaxed);
    }
}
