//! The locks, in one module so that a model checker can replace them.
//!
//! They do not poison: no user code except accessors runs while one is held, and a panicking accessor leaves the
//! guarded data consistent.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{self, AtomicUsize};

#[cfg(not(loom))]
pub(crate) use std::thread;

#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{self, AtomicUsize};

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::thread;

#[cfg(loom)]
pub(crate) use self::model::{Mutex, RwLock, wait};

/// Releases the lock until the condition is notified. May wake spuriously.
#[cfg(not(loom))]
pub(crate) fn wait<'a, V>(condition: &Condvar, mut guard: MutexGuard<'a, V>) -> MutexGuard<'a, V> {
    condition.wait(&mut guard);
    guard
}

#[cfg(loom)]
mod model {
    use std::sync::PoisonError;

    use loom::sync::{Condvar, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    pub(crate) fn wait<'a, V>(condition: &Condvar, guard: MutexGuard<'a, V>) -> MutexGuard<'a, V> {
        condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) struct Mutex<V>(loom::sync::Mutex<V>);

    impl<V> Mutex<V> {
        pub(crate) fn new(value: V) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, V> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    pub(crate) struct RwLock<V>(loom::sync::RwLock<V>);

    impl<V> RwLock<V> {
        pub(crate) fn new(value: V) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, V> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, V> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
