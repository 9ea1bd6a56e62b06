//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

mod auto_traits;
mod common;
mod depth;
mod golden;
mod hostile;
mod json;
mod list;
mod values;
mod watch;
