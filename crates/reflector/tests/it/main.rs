//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]

mod auto_traits;
mod common;
mod lists;
mod not_served;
mod not_watchable;
mod pager;
mod random;
mod requests;
mod retry_watcher;
mod running;
mod seams;
mod source_versions;
mod unidentified;
mod versions;
mod watch_lists;
mod watches;
