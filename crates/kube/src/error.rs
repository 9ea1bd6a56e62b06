//! Why there is no client, no lister-watcher, or no answer.

use kinformer_core::BoxError;
use kinformer_core::internal::with_causes;

/// Why there is no lister-watcher, or no client.
///
/// [`Redirect`](Error::Redirect), [`PathSegment`](Error::PathSegment) and [`ContentEncoding`](Error::ContentEncoding)
/// concern one request: they are the source of an [`SourceError::Other`](kinformer_reflector::SourceError::Other), and of a
/// `kube_client::Error::Service` where the client is used directly.
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
        /// What is wrong with it.
        source: BoxError,
    },
    /// The exec plugin of the configuration issued no credentials.
    #[error("the exec plugin {command:?} issued no credentials: {reason}")]
    ExecPlugin {
        /// The command that was run.
        command: String,
        /// What was wrong: its exit status, or what is missing in its output.
        reason: String,
    },
    /// The server redirects a request, and that redirect is not followed.
    #[error("a redirect ({status}) to {target:?} is not followed: {reason}")]
    Redirect {
        /// The HTTP code.
        status: u16,
        /// Where it leads to.
        target: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// A name cannot be a segment of a URL's path.
    #[error("the {what} {value:?} {problem}")]
    PathSegment {
        /// What it names: `namespace`, `resource`, `group`, `version` or `kind`.
        what: &'static str,
        /// The name.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The answer is compressed, and the client that was given decodes no such answer.
    #[error("the answer has the content encoding {encoding:?}, which was not asked for")]
    ContentEncoding {
        /// What its header says.
        encoding: String,
    },
}
