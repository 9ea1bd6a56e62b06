//! Waking those who sleep, at a price that does not depend on how many they are.

use crate::sync::{AtomicBool, Notify, Ordering, fence};

/// The writer rings, the pump wakes everybody who waits.
///
/// While nobody sleeps, ringing costs one fence and one load; else it wakes one task, the pump, however many
/// there are to be woken.
pub(crate) struct Bell {
    /// Whether somebody has gone to sleep since the pump was last woken.
    asleep: AtomicBool,
    closed: AtomicBool,
    sleepers: Notify,
    pump: Notify,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            sleepers: Notify::new(),
            pump: Notify::new(),
        }
    }

    /// To be called after what is to be seen was made visible.
    pub(crate) fn ring(&self) {
        // Either this sees the sleeper, or the sleeper's look after its own fence sees what was published.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst) {
            self.pump.notify_one();
        }
    }

    /// Wakes everybody for good.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.sleepers.notify_waiters();
        self.pump.notify_one();
    }

    /// Whether nothing will be published any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Waits until rung, unless `ready` says that there is something already. Wakes without a reason at times.
    /// Cancel-safe: it holds nothing but its place among the waiting.
    pub(crate) async fn wait(&self, ready: impl Fn() -> bool) {
        let woken = self.sleepers.notified();
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !ready() && !self.is_closed() {
            woken.await;
        }
    }

    /// Waits until the bell is rung for sleepers, and wakes them; false once it is closed.
    pub(crate) async fn pump_once(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        self.pump.notified().await;
        self.sleepers.notify_waiters();
        !self.is_closed()
    }
}
