//! Waking the readers that sleep, at a cost to the writer that does not depend on their number.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::sync::{AtomicBool, Notify, Ordering, OwnedNotified, fence};

/// The writer rings, the pump wakes all sleepers.
///
/// While no reader sleeps, ringing costs one fence and one load; else it wakes one task, the pump, whatever the number
/// of sleepers.
pub(crate) struct Bell {
    /// Whether a reader has gone to sleep since the pump was last woken.
    asleep: AtomicBool,
    closed: AtomicBool,
    sleepers: Arc<Notify>,
    pump: Notify,
}

/// The wait of one reader. Its memory is allocated by the first wait and used again by all others.
#[derive(Default)]
pub(crate) struct Sleeper {
    woken: Option<Pin<Box<OwnedNotified>>>,
    /// Whether it waits since an earlier poll.
    waits: bool,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            sleepers: Arc::new(Notify::new()),
            pump: Notify::new(),
        }
    }

    /// To be called after the new data was made visible.
    pub(crate) fn ring(&self) {
        // Either this sees the sleeper, or the sleeper's check after its own fence sees what was published.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst) {
            self.pump.notify_one();
        }
    }

    /// Wakes all sleepers and the pump; no later wait sleeps.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.sleepers.notify_waiters();
        self.pump.notify_one();
    }

    /// Whether nothing will be published any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ready when the bell was rung or closed, and at once if `ready` returns true as the wait begins. May wake
    /// spuriously: a wait that was given up is continued by the next one.
    pub(crate) fn poll_wait(
        &self,
        sleeper: &mut Sleeper,
        ready: impl Fn() -> bool,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let Sleeper { woken, waits } = sleeper;
        let begins = !std::mem::replace(waits, true);
        let woken = match woken {
            Some(woken) => {
                if begins {
                    woken.set(self.sleepers.clone().notified_owned());
                }
                woken
            }
            None => woken.insert(Box::pin(self.sleepers.clone().notified_owned())),
        };
        if begins {
            self.asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if ready() || self.is_closed() {
                *waits = false;
                return Poll::Ready(());
            }
        }
        let polled = woken.as_mut().poll(context);
        *waits = polled.is_pending();
        polled
    }

    /// Waits as [`Self::poll_wait`] does. Cancel-safe.
    pub(crate) async fn wait(&self, sleeper: &mut Sleeper, ready: impl Fn() -> bool) {
        poll_fn(|context| self.poll_wait(sleeper, &ready, context)).await;
    }

    /// Wakes the sleepers whenever the bell is rung for them, until it is closed. One task has to run this while there
    /// are readers.
    pub(crate) async fn pump(&self) {
        while !self.is_closed() {
            self.pump.notified().await;
            self.sleepers.notify_waiters();
        }
    }
}
