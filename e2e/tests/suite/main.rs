//! The suite against a real control plane. `cargo xtask e2e` builds the required programs and runs it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]
#![allow(clippy::too_many_lines, reason = "a test shows each step of a case")]

mod access;
mod alerts;
mod cache;
mod cluster;
mod connections;
mod controllers;
mod differential;
mod embedded;
mod examples;
mod failures;
mod kinds;
mod kubeconfigs;
mod main_job;
mod mode;
mod operator_metrics;
mod output;
mod planes;
mod recorder;
mod requests;
mod scheduler;
mod shards;
mod sources;
mod web_app;
