//! The handlers with back-pressure, which can make a publisher wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::listener::Listener;

/// The handlers with back-pressure, separate from all others so that publishing does not visit the others.
pub(crate) struct Limits {
    listeners: Mutex<BTreeMap<u64, Arc<Listener>>>,
    /// The number of listeners, readable without the lock.
    count: AtomicUsize,
    /// Notified when there may be room again.
    space: Arc<Notify>,
}

impl Limits {
    pub(crate) fn new() -> Self {
        Self { listeners: Mutex::new(BTreeMap::new()), count: AtomicUsize::new(0), space: Arc::default() }
    }

    pub(crate) fn space(&self) -> &Arc<Notify> {
        &self.space
    }

    /// Adds a listener if it has back-pressure.
    pub(crate) fn add(&self, listener: &Arc<Listener>) {
        if listener.room().is_some() {
            let mut listeners = self.listeners.lock();
            listeners.insert(listener.id, listener.clone());
            self.count.store(listeners.len(), Ordering::Relaxed);
        }
    }

    /// Returns whether a listener has back-pressure.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.listeners.lock().contains_key(&id)
    }

    pub(crate) fn remove(&self, id: u64) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut listeners = self.listeners.lock();
        // Dropped after the lock is released: this may be the last reference to the listener.
        let removed = listeners.remove(&id);
        self.count.store(listeners.len(), Ordering::Relaxed);
        drop(listeners);
        drop(removed);
    }

    /// Returns the number of events that may be published before a handler makes the publisher wait; `None` without
    /// such handlers. O(1) without such handlers, else linear in their number.
    pub(crate) fn room(&self) -> Option<usize> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.listeners.lock().values().filter_map(|listener| listener.room()).min()
    }

    /// Waits until no handler makes the publisher wait. Cancel-safe: the wait reserves no room.
    pub(crate) async fn ready(&self) {
        loop {
            let changed = self.space.notified();
            if self.room() != Some(0) {
                return;
            }
            changed.await;
        }
    }
}
