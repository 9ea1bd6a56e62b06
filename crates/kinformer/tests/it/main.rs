//! The integration tests, in one binary: a module for each subject.
#![allow(
    clippy::indexing_slicing,
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
mod damaged;
mod errors;
mod factory;
mod forms;
mod front_page;
mod handlers;
mod hostile;
mod kube_runtime;
mod leases;
mod listers;
#[cfg(feature = "prometheus")]
mod metrics;
mod namespaces;
mod not_served;
mod one_watch;
mod projections;
mod reentrant;
mod scope;
mod selectors;
mod selectors_of_a_server;
mod shards;
mod starts;
mod traffic;
mod views;
mod waits;
