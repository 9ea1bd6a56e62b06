//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test fails by a panic"
)]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

mod apply;
mod auto_traits;
#[cfg(feature = "prometheus")]
mod clients;
mod collector;
mod common;
mod conditions;
mod crds;
mod events;
mod finalizers;
mod informers_that_end;
mod managers;
mod outcomes;
mod owners;
mod predicates;
mod replicator;
mod reporter;
mod restarter;
mod serving;
mod sharding;
mod sharding_edges;
mod shutdown;
mod sync;
mod tasks;
mod triggers;
mod web_app;
mod writes;
