//! The locks, in one module so that a model checker can replace them.
//!
//! They do not poison: no user code except accessors runs while one is held, and a panicking accessor leaves the
//! guarded data consistent.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{self, AtomicUsize};

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{self, AtomicUsize};

#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard;

#[cfg(loom)]
pub(crate) use self::model::{Mutex, RwLock};

#[cfg(loom)]
mod model {
    use std::sync::PoisonError;

    use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

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
