//! The locks of the model checker, with the methods of `parking_lot`'s, which the crates use without it.

use std::sync::PoisonError;

use loom::sync::{Condvar, RwLockReadGuard, RwLockWriteGuard};

pub use loom::sync::MutexGuard;

/// `parking_lot::Mutex` in a model.
pub struct Mutex<V>(loom::sync::Mutex<V>);

impl<V> Mutex<V> {
    /// Creates an unlocked mutex.
    pub fn new(value: V) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, V> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `parking_lot::RwLock` in a model.
pub struct RwLock<V>(loom::sync::RwLock<V>);

impl<V> RwLock<V> {
    /// Creates an unlocked lock.
    pub fn new(value: V) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    /// Waits for the lock, for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, V> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock, for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, V> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the lock until the condition is notified. May wake spuriously.
pub fn wait<'a, V>(condition: &Condvar, guard: MutexGuard<'a, V>) -> MutexGuard<'a, V> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
