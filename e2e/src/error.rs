//! Errors of a control plane.

use std::time::Duration;

/// An error from starting or using a control plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or port could not be prepared.
    #[error("{what}: {source}")]
    Prepare {
        /// The failed step.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A component could not be started.
    #[error("{component} could not be started: {source}")]
    Start {
        /// The component.
        component: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The environment variable of a program is not set.
    #[error("{variable} is not set; run this by `cargo xtask e2e`, which builds what it names")]
    NotNamed {
        /// The variable.
        variable: &'static str,
    },
    /// The environment variable of a mode has an unknown value.
    #[error("{variable} has an unknown value; see `cargo xtask e2e --help`")]
    NoChoice {
        /// The variable.
        variable: &'static str,
    },
    /// A component ended unexpectedly.
    #[error("{component} has ended; the end of its log:\n{log}")]
    Ended {
        /// The component.
        component: &'static str,
        /// The last lines of its log.
        log: String,
    },
    /// A component did not become ready.
    #[error("{component} is not ready after {after:?}: {last}\nthe end of its log:\n{log}")]
    NotReady {
        /// The component.
        component: &'static str,
        /// The timeout.
        after: Duration,
        /// Its last response.
        last: String,
        /// The last lines of its log.
        log: String,
    },
    /// A request to etcd failed.
    #[error("etcd: {0}")]
    Etcd(String),
    /// The kubeconfig is invalid.
    #[error("the kubeconfig: {0}")]
    Kubeconfig(String),
}
