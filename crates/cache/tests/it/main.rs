//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

mod auto_traits;
mod common;
mod controllers;
mod defaults;
mod definitions;
mod disturbed;
mod gate;
mod informers;
mod lists;
mod live;
mod mapper;
mod options;
mod own_informer;
mod own_writes;
mod projections;
mod reads;
mod shapes;
mod tracker;
mod updates;
mod writes;
