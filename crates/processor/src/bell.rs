//! Wakes sleeping readers at a cost to the writer that does not depend on their number.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::sync::{AtomicBool, Notify, Ordering, OwnedNotified, fence};

/// A wake-up signal: the writer rings the bell, and the pump, a task, wakes all sleepers.
///
/// While no reader sleeps, ringing costs one fence and one load. Otherwise it wakes the pump, for any number of
/// sleepers.
pub(crate) struct Bell {
    /// Whether a reader has started to sleep since the pump was last woken.
    asleep: AtomicBool,
    closed: AtomicBool,
    sleepers: Arc<Notify>,
    pump: Notify,
}

/// The wait of one reader. The first wait allocates its memory, and later waits reuse it.
#[derive(Default)]
pub(crate) struct Sleeper {
    woken: Option<Pin<Box<OwnedNotified>>>,
    /// Whether a wait from an earlier poll is in progress.
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

    /// Wakes the sleepers. Must be called after the new data was made visible.
    pub(crate) fn ring(&self) {
        // Either this load sees the sleeper, or the sleeper's check after its own fence sees the published data.
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

    /// Returns whether the bell is closed: nothing more will be published.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ready when the bell was rung or closed, and at once if `ready` returns `true` at the start of the wait. May wake
    /// spuriously: the next wait continues an abandoned one.
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

    /// Waits as [`Self::poll_wait`]. Cancel-safe: the next wait continues an abandoned one.
    pub(crate) async fn wait(&self, sleeper: &mut Sleeper, ready: impl Fn() -> bool) {
        poll_fn(|context| self.poll_wait(sleeper, &ready, context)).await;
    }

    /// Wakes the sleepers each time the bell is rung, until it is closed. One task must run this while there are
    /// readers.
    pub(crate) async fn pump(&self) {
        while !self.is_closed() {
            self.pump.notified().await;
            self.sleepers.notify_waiters();
        }
    }
}
