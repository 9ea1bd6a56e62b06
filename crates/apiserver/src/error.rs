//! Errors of the server itself.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::Status;

/// An error from starting a server or from one of its in-process operations.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The address is not a loopback address, and [`Builder::listen`](crate::Builder::listen) allows no other.
    #[error(
        "{address} can be reached from other machines; use Builder::listen_beyond_loopback if that is intended"
    )]
    NotLoopback {
        /// The configured address.
        address: SocketAddr,
    },
    /// The bearer token is not valid in an HTTP header.
    #[error("the token is empty or has characters that are not allowed in an HTTP header")]
    Token,
    /// A line of a token file is malformed.
    #[error("line {line} of the token file: {reason}")]
    TokenFile {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong. It does not contain the token.
        reason: &'static str,
    },
    /// The certificate could not be generated.
    #[error("cannot set up TLS: {reason}")]
    Tls {
        /// The cause.
        reason: String,
    },
    /// The client configuration could not be built.
    #[error("cannot make a client configuration for {url}: {reason}")]
    Client {
        /// The URL of the server.
        url: String,
        /// The cause.
        reason: String,
    },
    /// The API rejected the operation, with the response that a client would have received.
    #[error(transparent)]
    Status(#[from] Status),
    /// There is no resource for this `apiVersion` and `kind`.
    #[error("no resource for kind {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// The `apiVersion` of the object.
        api_version: String,
        /// The `kind` of the object.
        kind: String,
    },
    /// A file or a folder of manifests cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A manifest is not valid, or the API rejected its object.
    #[error("{file}, document {document}{}{object}: {reason}", if object.is_empty() { "" } else { ", " })]
    Manifest {
        /// The path of the file, or `YAML` for a text.
        file: String,
        /// The number of the document in the file, from 1; documents without content do not count.
        document: usize,
        /// Kind and key of the object: `ConfigMap default/settings`; empty if the document is no object.
        object: String,
        /// What is wrong.
        reason: String,
    },
    /// A Rust value cannot be written as an object, or an object does not have the fields of its Rust type.
    #[error("{kind} {key:?} does not convert: {source}")]
    Convert {
        /// The kind of the object.
        kind: String,
        /// The key of the object, as far as it is known.
        key: String,
        /// The error of the conversion.
        source: serde_json::Error,
    },
    /// The value is not a JSON object.
    #[error("an object must be a JSON object")]
    NotAnObject,
}

/// Formats the message, which Rust prints if `main` returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
