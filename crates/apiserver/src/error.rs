//! What can go wrong with the server itself.

use std::net::SocketAddr;

use crate::Status;

/// Why a server did not start, or an operation on it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address as it was asked for.
        address: SocketAddr,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The address is not a loopback address, and nobody said that this is meant.
    #[error(
        "{address} can be reached from other machines; use Builder::listen_beyond_loopback if that is meant"
    )]
    NotLoopback {
        /// The address as it was asked for.
        address: SocketAddr,
    },
    /// The bearer token cannot stand in an HTTP header.
    #[error("the token is empty or has characters that cannot stand in an HTTP header")]
    Token,
    /// No certificate could be made.
    #[error("cannot set up TLS: {reason}")]
    Tls {
        /// Why not.
        reason: String,
    },
    /// No client configuration could be made for this server.
    #[error("cannot make a client configuration for {url}: {reason}")]
    Client {
        /// The address of the server.
        url: String,
        /// Why not.
        reason: String,
    },
    /// The API refused an operation: what a client would have been told.
    #[error(transparent)]
    Status(#[from] Status),
    /// No resource is served for this `apiVersion` and `kind`.
    #[error("no resource for kind {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// As the object says.
        api_version: String,
        /// As the object says.
        kind: String,
    },
    /// What was to be written is no JSON object.
    #[error("an object must be a JSON object")]
    NotAnObject,
}
