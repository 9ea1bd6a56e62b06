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

mod admission;
mod auto_traits;
mod bucket;
mod client_go;
mod common;
mod controller_runtime;
mod fairness;
mod items;
mod metrics;
mod model;
mod rate_limiters;
mod shutdown;
mod user_code;
mod waiting;
