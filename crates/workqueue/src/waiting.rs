//! Waiting for a condition: async, or blocking with a deadline, on one event.

#[cfg(not(loom))]
use event_listener::Listener;
use event_listener::{Event, IntoNotification};

#[cfg(not(loom))]
use crate::error::DeadlineExceeded;
use crate::sync::{AtomicUsize, Instant, Ordering};

/// The result of checking a condition.
pub(crate) enum Check<R> {
    Done(R),
    /// Check again after a notification, or at this time.
    Wait(Option<Instant>),
}

/// The waiters for a condition that a lock guards.
pub(crate) struct Waiters {
    event: Event,
    /// Number of waiters, so that a notification without waiters costs one load.
    waiting: AtomicUsize,
}

/// Counts as a waiter while it lives.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { event: Event::new(), waiting: AtomicUsize::new(0) }
    }

    /// Wakes this many further waiters. Called after the lock under which the condition changed was released.
    ///
    /// A relaxed notification is enough: a waiter registers before it checks the condition, and the check takes the
    /// lock. A waiter that gives up passes its notification on.
    #[inline]
    pub(crate) fn notify(&self, count: usize) {
        if count > 0 && self.waiting.load(Ordering::Relaxed) > 0 {
            self.event.notify(count.additional().relaxed());
        }
    }

    /// Wakes all waiters.
    #[inline]
    pub(crate) fn notify_all(&self) {
        self.notify(usize::MAX);
    }

    /// Waits until `check` is done.
    ///
    /// # Cancel safety
    /// The result of `check` is returned without a further await, so dropping the future loses nothing.
    pub(crate) async fn wait<R>(&self, mut check: impl FnMut() -> Check<R>) -> R {
        let _waiter = Waiter::new(&self.waiting);
        loop {
            // Registered before the check, so that no later change is missed.
            let changed = self.event.listen();
            let until = match check() {
                Check::Done(result) => return result,
                Check::Wait(until) => until,
            };
            match until {
                #[cfg(not(loom))]
                Some(until) => drop(tokio::time::timeout_at(until, changed).await),
                _ => changed.await,
            }
        }
    }

    /// Like [`Self::wait`], but blocks the thread until the deadline at most.
    #[cfg(not(loom))]
    pub(crate) fn wait_blocking<R>(
        &self,
        deadline: Option<std::time::Instant>,
        mut check: impl FnMut() -> Check<R>,
    ) -> Result<R, DeadlineExceeded> {
        let _waiter = Waiter::new(&self.waiting);
        loop {
            let changed = self.event.listen();
            let until = match check() {
                Check::Done(result) => return Ok(result),
                Check::Wait(until) => until.map(Instant::into_std),
            };
            let Some(end) = until.into_iter().chain(deadline).min() else {
                changed.wait();
                continue;
            };
            if changed.wait_deadline(end).is_none() && deadline == Some(end) {
                return match check() {
                    Check::Done(result) => Ok(result),
                    Check::Wait(_) => Err(DeadlineExceeded),
                };
            }
        }
    }
}
