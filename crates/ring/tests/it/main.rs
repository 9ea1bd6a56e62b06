//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic, and prints its figures"
)]

mod assignment;
mod edits;
mod formats;
mod leases;
mod model;
mod server;
mod simulation;
