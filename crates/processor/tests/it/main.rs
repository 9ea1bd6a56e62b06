//! The integration tests, in one binary: a module for each subject.
#![cfg(not(loom))]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

mod auto_traits;
mod buffers;
mod coalesce_model;
mod common;
mod delivery;
mod filter;
mod join;
mod lifecycle;
mod memory;
mod reentrant;
mod removal;
mod resync;
mod stepping;
