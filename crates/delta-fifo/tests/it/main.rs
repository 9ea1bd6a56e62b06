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
mod batch;
mod common;
mod delta_fifo;
mod exact;
mod fifo_and_heap;
mod model;
mod parts;
mod real_fifo;
mod user_code;
mod waiting;
