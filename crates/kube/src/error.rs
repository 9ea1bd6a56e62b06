//! The errors of this crate.

use kinformer_core::BoxError;
use kinformer_core::internal::with_causes;

/// The error of creating a client or a lister-watcher, and of single requests.
///
/// [`Redirect`](Error::Redirect), [`Proxy`](Error::Proxy), [`NotRepeatable`](Error::NotRepeatable),
/// [`PathSegment`](Error::PathSegment) and [`ContentEncoding`](Error::ContentEncoding) concern one request: they are the
/// source of an [`SourceError::Other`](kinformer_reflector::SourceError::Other), and of a `kube_client::Error::Service` if
/// the client is used directly.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Discovery of a kind failed: the server does not serve it, or the request failed.
    #[error("discovery of {api_version} {kind} failed: {}", with_causes(&**source))]
    Discovery {
        /// The requested group and version.
        api_version: String,
        /// The requested kind.
        kind: String,
        /// The error of kube-client.
        source: Box<kube_client::Error>,
    },
    /// No client can be created from the configuration.
    #[error("cannot create a client from this configuration: {}", with_causes(&**source))]
    Client {
        /// The problem of the configuration.
        source: BoxError,
    },
    /// A kubeconfig cannot be read, or has no such context.
    #[error("{origin}: {reason}")]
    Kubeconfig {
        /// The file.
        origin: String,
        /// The problem.
        reason: String,
    },
    /// There is neither a kubeconfig nor the configuration of a pod.
    #[error("no kubeconfig names a cluster, and this program does not run in a pod: {}", with_causes(&**source))]
    NoCluster {
        /// The problem of the configuration of the pod.
        source: BoxError,
    },
    /// A field of the configuration is invalid. The message does not repeat its value, which may be secret.
    #[error("the {field} of the configuration {problem}")]
    Config {
        /// The field, as kubeconfigs name it.
        field: &'static str,
        /// The problem; completes a sentence.
        problem: String,
    },
    /// The exec plugin of the configuration issued no credentials.
    #[error("the exec plugin {command:?} issued no credentials: {reason}")]
    ExecPlugin {
        /// The command.
        command: String,
        /// The exit status, or the part that is missing in the output.
        reason: String,
    },
    /// The server redirected a request, and the redirect is not followed.
    #[error("a redirect ({status}) to {target:?} is not followed: {reason}")]
    Redirect {
        /// The HTTP status code.
        status: u16,
        /// The target of the redirect.
        target: String,
        /// The reason for not following it.
        reason: &'static str,
    },
    /// No connection to the server can be opened through the proxy.
    #[error("cannot connect through the proxy {proxy}: {}", with_causes(&**source))]
    Proxy {
        /// The URL of the proxy, without a user.
        proxy: String,
        /// The problem of the proxy, or of the connection through it.
        source: BoxError,
    },
    /// The server did not process a request, and the request cannot be repeated: its body is a stream.
    #[error("the server did not process the request, whose body cannot be sent again: {}", with_causes(&**source))]
    NotRepeatable {
        /// The error of the request.
        source: BoxError,
    },
    /// A name cannot be a segment of a URL path.
    #[error("the {what} {value:?} {problem}")]
    PathSegment {
        /// The kind of name: `namespace`, `resource`, `group`, `version` or `kind`.
        what: &'static str,
        /// The name.
        value: String,
        /// The rule that the name violates.
        problem: &'static str,
    },
    /// The response is compressed, and the client does not decompress responses.
    #[error("the response has the content encoding {encoding:?}, which was not requested")]
    ContentEncoding {
        /// The value of the `Content-Encoding` header.
        encoding: String,
    },
}

kinformer_core::debug_as_message!(Error);
