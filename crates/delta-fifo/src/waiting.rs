//! Waiting for a condition: async, blocking, or with a deadline, all on one event.

#[cfg(not(loom))]
use event_listener::Listener;
use event_listener::{Event, IntoNotification};

#[cfg(not(loom))]
use crate::Error;
use crate::sync::{AtomicUsize, Ordering};

/// A condition guarded by a lock, for any number of waiters.
pub(crate) struct Condition {
    event: Event,
    /// Number of waiters, so that a notification without waiters costs one load.
    waiters: AtomicUsize,
}

/// Counts as a waiter while it lives.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Ordering::Relaxed);
        Self(waiters)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Condition {
    pub(crate) fn new() -> Self {
        Self { event: Event::new(), waiters: AtomicUsize::new(0) }
    }

    /// Wakes all waiters. Called after the lock under which the condition changed was released.
    ///
    /// All of them, because it does not matter which waiter succeeds, and a waiter that gives up then consumes no
    /// wake-up. A relaxed notification is enough: a waiter registers before it checks the condition, and the check
    /// takes the lock.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.event.notify(usize::MAX.relaxed());
        }
    }

    /// Waits until `attempt` returns a value.
    ///
    /// # Cancel safety
    /// A value returned by `attempt` is returned without a further await, so dropping the future loses nothing.
    pub(crate) async fn wait<R>(&self, mut attempt: impl FnMut() -> Option<R>) -> R {
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            // Registered before the last check, so that no later change is missed.
            let _waiter = Waiter::new(&self.waiters);
            let changed = self.event.listen();
            if let Some(result) = attempt() {
                return result;
            }
            changed.await;
        }
    }

    /// Like [`Self::wait`], but blocks the thread until the deadline at most.
    #[cfg(not(loom))]
    pub(crate) fn wait_blocking<R>(
        &self,
        deadline: Option<std::time::Instant>,
        mut attempt: impl FnMut() -> Option<Result<R, Error>>,
    ) -> Result<R, Error> {
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            let _waiter = Waiter::new(&self.waiters);
            let changed = self.event.listen();
            if let Some(result) = attempt() {
                return result;
            }
            match deadline {
                None => changed.wait(),
                Some(deadline) => {
                    if changed.wait_deadline(deadline).is_none() {
                        return attempt().unwrap_or(Err(Error::DeadlineExceeded));
                    }
                }
            }
        }
    }
}
