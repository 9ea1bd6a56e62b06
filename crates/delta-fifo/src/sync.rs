//! The lock and the counter, replaceable by the model checker's.

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(loom)]
pub(crate) use kinformer_core::internal::modelled::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
