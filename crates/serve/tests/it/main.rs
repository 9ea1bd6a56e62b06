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

mod access;
mod checks;
mod common;
mod controllers;
mod delegated;
mod events;
mod explain;
mod health;
mod hidden;
mod large;
mod objects;
mod state;
#[cfg(feature = "rustls-tls")]
mod tls;
