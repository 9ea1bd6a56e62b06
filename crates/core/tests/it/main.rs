//! The integration tests, in one binary: a module for each subject.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by a panic")]

mod auto_traits;
mod keys;
mod panics;
mod transform;
mod versions;
