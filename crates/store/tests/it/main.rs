//! The integration tests, in one binary: a module for each subject.
#![cfg(not(loom))]
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

mod auto_traits;
mod bad_input;
mod common;
mod contract;
mod expiring;
mod lazy;
mod model;
mod mutation_cache;
mod parts;
mod revision;
mod suite;
mod threads;
mod undelta;
mod wait;
