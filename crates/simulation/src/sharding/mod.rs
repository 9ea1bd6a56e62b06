//! Worlds whose processes share objects out by a ring: each has a manager with a sharded controller, in a runtime of its own.
//!
//! `world.rs` steps the runtimes as the world with an election does, and injects faults; `network.rs` carries requests and
//! responses, also those of watches, between them; `process.rs` is one process with its reconcile function; `judge.rs` sees each
//! reconciliation and each write, and compares the writes with the table at their version; `gaps.rs` measures for how long a slot
//! has no owner.

mod gaps;
mod judge;
mod network;
mod process;
mod world;

pub(crate) use world::run;
