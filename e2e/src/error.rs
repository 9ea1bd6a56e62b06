//! What can go wrong with a control plane.

use std::time::Duration;

/// Why there is no control plane, or it does not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a port could not be had.
    #[error("{what}: {source}")]
    Prepare {
        /// What was being done.
        what: &'static str,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A component could not be started.
    #[error("{component} could not be started: {source}")]
    Start {
        /// Which one.
        component: &'static str,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A program that the suite needs is not named.
    #[error("{variable} is not set; run this by `cargo xtask e2e`, which builds what it names")]
    NotNamed {
        /// The variable.
        variable: &'static str,
    },
    /// A variable that chooses how informers read a server names none of its choices.
    #[error("{variable} has a value that it does not have; see `cargo xtask e2e --help`")]
    NoChoice {
        /// The variable.
        variable: &'static str,
    },
    /// A component has ended by itself.
    #[error("{component} has ended; the end of its log:\n{log}")]
    Ended {
        /// Which one.
        component: &'static str,
        /// The last lines of its log.
        log: String,
    },
    /// A component did not become ready.
    #[error("{component} is not ready after {after:?}: {last}\nthe end of its log:\n{log}")]
    NotReady {
        /// Which one.
        component: &'static str,
        /// How long it was waited for.
        after: Duration,
        /// Its last answer.
        last: String,
        /// The last lines of its log.
        log: String,
    },
    /// etcd did not do what it was asked to.
    #[error("etcd: {0}")]
    Etcd(String),
    /// The kubeconfig that was written is none.
    #[error("the kubeconfig: {0}")]
    Kubeconfig(String),
}
