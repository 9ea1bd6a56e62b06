//! What a process does with its slots.

use crate::slots::Slots;
use crate::view::{ListFrom, StopReason};

/// The work of a process on the slots that it owns: see [`Ring::run`](crate::Ring::run).
///
/// The functions are called one after another, in the order of the protocol. What they do before they return their future
/// happens in this order; the futures run as tasks, at the same time.
///
/// If a function or a future panics, the run ends with [`RunError::Panicked`](crate::RunError::Panicked), and all slots are
/// stopped, because it is unknown what still works on them.
pub trait Shards: Send + Sync + 'static {
    /// The process owns these slots from now on, until they are released or stopped. Lists their objects, and returns the
    /// resource version of the list when they are all processed like those of other slots.
    ///
    /// The list must be at this version or a later one. If an older one is returned, the function is called again.
    ///
    /// # Cancel safety
    /// The future is dropped if all of its slots are released or stopped before it ends.
    fn own(&self, slots: Slots, list: ListFrom) -> impl Future<Output = u64> + Send + 'static;

    /// Ends the work on these slots. Returns when no work on them is in progress and no write of an object of them is in
    /// flight: the next process begins then. It waits without a limit, but when the Lease is not renewed, the slots are stopped.
    ///
    /// Returns a resource version that is not older than the last write to an object of these slots, if there is one: the next
    /// process lists at this version, also from a cache of the server. With `None` it lists the most recent state.
    ///
    /// # Cancel safety
    /// The future is dropped if all of its slots are stopped before it ends.
    fn release(&self, slots: Slots) -> impl Future<Output = Option<u64>> + Send + 'static;

    /// Stops at once: another process may own these slots soon. Writes of [`Ring::client`](crate::Ring::client) are refused
    /// already, unless only some slots are lost, as after an edit of the table. It must not wait.
    fn stop(&self, slots: Slots, reason: StopReason);
}
