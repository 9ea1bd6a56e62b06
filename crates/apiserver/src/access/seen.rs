//! What the controllers of access have already done.

use parking_lot::Mutex;

/// The last writes of namespaces, service accounts and cluster roles that the controllers have seen; `None` without
/// controllers.
#[derive(Debug, Default)]
pub(crate) struct Seen(Option<Mutex<[u64; 3]>>);

impl Seen {
    pub(crate) fn new(has_controllers: bool) -> Self {
        Self(has_controllers.then(Mutex::default))
    }

    /// Whether there are controllers.
    pub(super) fn has_controllers(&self) -> bool {
        self.0.is_some()
    }

    /// Calls `work` unless nothing was written since the last call. One thread works at a time; a write that another
    /// thread makes meanwhile is seen by its own call.
    pub(super) fn unless_current(&self, mut last: impl FnMut() -> [u64; 3], work: impl FnOnce()) {
        let Some(seen) = &self.0 else { return };
        let mut seen = seen.lock();
        if *seen != last() {
            work();
            *seen = last();
        }
    }
}
