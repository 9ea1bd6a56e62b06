//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

mod access;
mod admission;
mod apply;
mod bad_input;
mod builtin;
mod cluster;
mod common;
mod conversion;
mod differences;
mod discovery;
mod faults;
mod gc;
mod kube_runtime;
mod lists;
mod objects;
mod patches;
mod policies;
mod protobuf;
mod schema;
mod server;
mod validation;
mod watches;
