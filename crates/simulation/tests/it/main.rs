//! The integration tests.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by a panic"
)]

mod outages;
mod seeds;
mod server;
