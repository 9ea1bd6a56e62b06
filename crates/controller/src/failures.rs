//! The last reconciliations that failed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;

/// How many failures are kept.
const KEPT: usize = 32;
/// The longest text of an error, in bytes.
const MAX_TEXT: usize = 2_048;

/// A reconciliation that failed: an error, a panic, or a timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedReconciliation<K> {
    /// The key.
    pub key: K,
    /// The error with its causes, in one line, cut after 2,048 bytes.
    pub error: String,
    /// The number of the attempt since the key last succeeded, from 1.
    pub attempt: u32,
    /// When it ended.
    pub time: SystemTime,
}

/// One line: `default/web, attempt 3: the error`.
impl<K: fmt::Debug> fmt::Display for FailedReconciliation<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, error, attempt, .. } = self;
        write!(f, "{key:?}, attempt {attempt}: {error}")
    }
}

/// The newest failures, up to [`KEPT`].
pub(crate) struct Failures<K>(Mutex<VecDeque<Arc<FailedReconciliation<K>>>>);

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K> Failures<K> {
    pub(crate) fn push(&self, key: K, mut error: String, attempt: u32) {
        let mut end = error.len().min(MAX_TEXT);
        while !error.is_char_boundary(end) {
            end -= 1;
        }
        error.truncate(end);
        let failure = Arc::new(FailedReconciliation { key, error, attempt, time: Timestamp::now().into() });
        let mut failures = self.0.lock();
        failures.push_back(failure);
        // Dropped without the lock: keys are of the program.
        let dropped = if failures.len() > KEPT { failures.pop_front() } else { None };
        drop(failures);
        drop(dropped);
    }

    pub(crate) fn read(&self) -> Vec<Arc<FailedReconciliation<K>>> {
        self.0.lock().iter().cloned().collect()
    }
}
