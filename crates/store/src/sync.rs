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
pub(crate) use kinformer_core::internal::modelled::{Mutex, MutexGuard, RwLock, wait};

#[cfg(loom)]
pub(crate) use loom::sync::Condvar;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{self, AtomicUsize};

#[cfg(loom)]
pub(crate) use loom::thread;

/// Releases the lock until the condition is notified. May wake spuriously.
#[cfg(not(loom))]
pub(crate) fn wait<'a, V>(condition: &Condvar, mut guard: MutexGuard<'a, V>) -> MutexGuard<'a, V> {
    condition.wait(&mut guard);
    guard
}
