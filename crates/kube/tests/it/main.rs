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
mod bad_answers;
mod common;
mod configurations;
#[cfg(feature = "rustls-tls")]
mod connections;
#[cfg(all(unix, feature = "rustls-tls"))]
mod credentials;
mod damaged_responses;
mod discovery;
mod faults;
mod kinds;
#[cfg(all(unix, feature = "rustls-tls"))]
mod kubeconfigs;
mod object;
#[cfg(feature = "rustls-tls")]
mod proxies;
mod requests;
#[cfg(feature = "rustls-tls")]
mod server_certificates;
#[cfg(feature = "rustls-tls")]
mod shards;
mod tls;
#[cfg(feature = "rustls-tls")]
mod unprocessed;
#[cfg(feature = "rustls-tls")]
mod upgrades;
mod versions;
