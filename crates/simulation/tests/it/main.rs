//! The integration tests.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by a panic")]

mod seeds;
