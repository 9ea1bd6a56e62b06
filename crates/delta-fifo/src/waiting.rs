//! Waiting for something to change: async, blocking, or up to a deadline, all on one event.

#[cfg(not(loom))]
use event_listener::Listener;
use event_listener::{Event, IntoNotification};

#[cfg(not(loom))]
use crate::Error;

/// An event on which any number can wait for a condition that a lock guards.
pub(crate) struct Changes(Event);

impl Changes {
    pub(crate) fn new() -> Self {
        Self(Event::new())
    }

    /// Wakes everyone who waits; called after the lock under which the condition changed was released.
    ///
    /// Everyone, so that it does not matter who takes what, and a waiter who gives up takes no wake-up with
    /// him. Relaxed is enough, because a waiter registers before he looks, and looking takes the lock.
    pub(crate) fn notify(&self) {
        self.0.notify(usize::MAX.relaxed());
    }

    /// Waits until `attempt` gives something. Cancel-safe: what `attempt` has given is returned at once.
    pub(crate) async fn wait<R>(&self, mut attempt: impl FnMut() -> Option<R>) -> R {
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            // Registered before the last look, so that nothing that happens after the look is missed.
            let changed = self.0.listen();
            if let Some(result) = attempt() {
                return result;
            }
            changed.await;
        }
    }

    /// As [`Self::wait`], blocking the thread, but not beyond the deadline.
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
            let changed = self.0.listen();
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
