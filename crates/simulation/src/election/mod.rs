//! Worlds with an election: processes that elect a leader by a Lease and write as long as they can.
//!
//! Each process has a runtime of its own (`host.rs`), so that it can be stopped: its tasks stand still, and its timers are
//! late. `world.rs` steps the runtimes of the processes and the server, `network.rs` carries requests between them,
//! `process.rs` is the user code, `faults.rs` has the faults, and `judge.rs` reads the history of the Lease and the
//! effects of the writes.

mod faults;
pub(crate) mod host;
mod judge;
pub(crate) mod network;
mod process;
mod world;

pub(crate) use world::run;
