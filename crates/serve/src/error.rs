//! The errors of this crate.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The error of a [`ServerBuilder`](crate::ServerBuilder) or of a [`Server`](crate::Server).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause; [`io::ErrorKind::AddrInUse`] if another program listens there.
        source: io::Error,
    },
    /// The address is not a loopback address, and neither a token nor access checks are set.
    #[error(
        "listening on {address} needs a token, or access checks: other machines can reach that address, and could read \
         every object that the informers hold"
    )]
    TokenRequired {
        /// The address.
        address: SocketAddr,
    },
    /// The token cannot be sent in an HTTP header: it is empty, or has other characters than printable ASCII.
    #[error("the token is empty or has characters that are not allowed in an HTTP header")]
    InvalidToken,
    /// A field cannot be hidden, because it identifies the object.
    #[error("the field {field:?} cannot be hidden: it identifies the object")]
    NotHideable {
        /// The path of the field.
        field: String,
    },
    /// The path of a hidden field has another syntax, and would hide nothing.
    #[error(
        "the field {field:?} cannot be hidden: its path is names with dots between them, such as spec.containers.env, \
         which goes through lists; there are no positions or wildcards"
    )]
    InvalidField {
        /// The path of the field.
        field: String,
    },
    /// An allowed host is no host name, and would match no request.
    #[error("the host {host:?} is no host name or address: it has no scheme, no port and no wildcard")]
    InvalidHost {
        /// The host.
        host: String,
    },
    /// Two informers have the same resource, cluster and scope, so no URL can name one of them.
    #[error("two informers of {resource:?} have the cluster {cluster:?} and the scope {scope:?}")]
    DuplicateInformer {
        /// The resource.
        resource: String,
        /// The cluster.
        cluster: String,
        /// The scope.
        scope: String,
    },
    /// Both a token and [access checks](crate::ServerBuilder::delegate_access) are set.
    #[error("a server has a token of its own, or lets the API server decide, not both")]
    TokenAndAccess,
    /// A file of the [certificate](crate::ServerBuilder::tls) is missing, unreadable, or no certificate or key.
    #[error("cannot use {}: {reason}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A named check cannot be added.
    #[error("the check {name:?} cannot be added: {reason}")]
    InvalidCheck {
        /// The name of the check.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// Two registries have metrics of the same name, so that no one could read `/metrics`.
    #[error("two registries have the metric {name:?}")]
    DuplicateMetric {
        /// The name of the family.
        name: String,
    },
    /// A registry cannot be written: a collector of it has failed, or panicked.
    #[error("the metrics cannot be written: {message}")]
    Metrics {
        /// The error of the collector.
        message: String,
    },
    /// The handler that records changes cannot be added, since the informer has stopped.
    #[error(transparent)]
    Informer(#[from] kinformer::Error),
}
