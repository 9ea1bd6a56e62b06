//! What can go wrong before anything is listed or watched.

use kinformer_core::with_causes;

/// Why there is no lister-watcher, or no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server does not serve this kind, or could not be asked.
    #[error("the server does not serve {api_version} {kind}, or could not be asked: {}", with_causes(&**source))]
    Discovery {
        /// The group and version that were looked for.
        api_version: String,
        /// The kind that was looked for.
        kind: String,
        /// What kube-client says.
        source: Box<kube_client::Error>,
    },
    /// The configuration does not make a client.
    #[error("no client can be made of this configuration: {}", with_causes(&**source))]
    Client {
        /// What kube-client says.
        source: Box<kube_client::Error>,
    },
}
