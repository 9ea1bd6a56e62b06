//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]

mod api_server;
mod cluster;
mod common;
mod demo;
mod discovery;
mod get;
mod logs;
mod serve;
mod shell;
mod terminal;
mod token;
mod watch;
