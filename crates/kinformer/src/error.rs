//! What can go wrong.

use std::sync::Arc;

use kinformer_core::KeyError;
use kinformer_core::internal::with_causes;

use crate::SelectorError;

/// An error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store has no object with this key.
    #[error("{resource} \"{key}\" not found")]
    NotFound {
        /// Of which resource, or of which type where the lister was not told the resource.
        resource: Arc<str>,
        /// The key that was asked for, as `namespace/name` or `name`.
        key: String,
    },
    /// A text that was given for a key is not the key of a Kubernetes object, `namespace/name` or `name`.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store has no such index.
    #[error("{resource}: {source}")]
    Index {
        /// Of which resource.
        resource: Arc<str>,
        /// What the store says.
        source: Arc<kinformer_store::Error>,
    },
    /// Informers had not synced when they stopped or the deadline passed.
    #[error("not synced: {}", list(informers))]
    NotSynced {
        /// What each of them says.
        informers: Vec<kinformer_shared_informer::Error>,
    },
    /// Informers have stopped, but handlers of them did not return in time.
    #[error("{}", list(informers))]
    Stuck {
        /// What each of them says.
        informers: Vec<kinformer_shared_informer::Error>,
    },
    /// The server was asked about a resource and does not serve it, or did not answer.
    #[error("the server could not say what {what} is: {}", with_causes(&**source))]
    Discovery {
        /// What it was asked about.
        what: Arc<str>,
        /// What went wrong.
        source: Arc<kube_client::Error>,
    },
    /// The server serves the group and version, but no such resource in it.
    #[error("the server has no resource {resource:?} in {group_version}")]
    NoSuchResource {
        /// The plural name that was asked for.
        resource: Arc<str>,
        /// In which group and version.
        group_version: Arc<str>,
    },
    /// A group or version cannot be a segment of a URL's path; the server was not asked.
    #[error(transparent)]
    Name(Arc<kinformer_kube::Error>),
    /// Informers can be started within a tokio runtime only.
    #[error("informers can only be started within a tokio runtime")]
    NoRuntime,
    /// A label selector is none.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

fn list(errors: &[kinformer_shared_informer::Error]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
