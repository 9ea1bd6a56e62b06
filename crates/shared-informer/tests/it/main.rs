//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

mod accessors;
mod arrival;
mod auto_traits;
mod common;
mod content;
mod healthy;
mod histories;
mod informer;
mod informer_loop;
mod keys;
mod left_out;
mod lifecycle;
mod lost;
mod metrics;
mod panics;
mod parts;
mod parts_common;
mod parts_random;
mod queue_with;
mod reentrant;
mod resync;
mod reuse;
mod scope;
mod versions;
mod wait_for;
