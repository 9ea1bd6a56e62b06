//! The errors of this crate.

use std::sync::Arc;

use kinformer_core::KeyError;
use kinformer_core::internal::with_causes;
use kinformer_processor::Error as HandlerError;
use kinformer_shared_informer::Error as InformerError;
use kinformer_store::Error as StoreError;

use crate::SelectorError;

/// The error of this crate.
///
/// The errors of one informer ([`InformerError`]), of a handler's [registration](crate::Registration) and of a store are
/// converted into it by `?`.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer::{Error, Lister};
///
/// fn describe(pods: &Lister<Pod>, key: &str) -> String {
///     match pods.get(key) {
///         Ok(pod) => format!("{} exists", pod.key()),
///         Err(Error::NotFound { resource, key }) => format!("there is no {key} among the {resource}"),
///         Err(Error::NotStarted { .. }) => "the program has not started its informers".to_owned(),
///         Err(error) => error.to_string(), // such as a key with two slashes
///     }
/// }
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store has no object with this key.
    #[error("{resource} \"{key}\" not found")]
    NotFound {
        /// The resource; for a lister that has no resource name, the name of the object type.
        resource: Arc<str>,
        /// The requested key, as `namespace/name` or `name`.
        key: String,
    },
    /// The informer was never started, so its store is empty.
    #[error("the informer of {resource:?} was never started; call start() or run() before reading it")]
    NotStarted {
        /// The resource.
        resource: Arc<str>,
    },
    /// A string is not the key of a Kubernetes object (`namespace/name` or `name`).
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store has no index of this name.
    #[error("{resource}: {source}")]
    Index {
        /// The resource.
        resource: Arc<str>,
        /// The error of the store.
        source: Arc<StoreError>,
    },
    /// An error of one informer, of a handler or of the handler's registration.
    #[error(transparent)]
    Informer(#[from] InformerError),
    /// Informers had not synced before they stopped or the deadline passed.
    #[error("not synced: {}", list(informers))]
    NotSynced {
        /// The error of each informer.
        informers: Vec<InformerError>,
    },
    /// Informers have stopped, but some of their handlers did not return within the grace period.
    #[error("{}", list(informers))]
    Stuck {
        /// The error of each informer.
        informers: Vec<InformerError>,
    },
    /// Discovery of a resource failed: the server does not serve it, or did not answer.
    #[error("discovery of {what} failed: {}", with_causes(&**source))]
    Discovery {
        /// The resource or kind.
        what: Arc<str>,
        /// The error of the request.
        source: Arc<kube_client::Error>,
    },
    /// The server serves the group and version, but not this resource.
    #[error("the server has no resource {resource:?} in {group_version}")]
    NoSuchResource {
        /// The requested plural name.
        resource: Arc<str>,
        /// The group and version.
        group_version: Arc<str>,
    },
    /// A group or version cannot be a segment of a URL path; no request was sent.
    #[error(transparent)]
    Name(Arc<kinformer_kube::Error>),
    /// `start` was called outside a tokio runtime.
    #[error("informers can only be started within a tokio runtime")]
    NoRuntime,
    /// An object had not fulfilled a condition when its informer stopped or the deadline passed.
    #[error(
        "{resource} \"{key}\" had not fulfilled the condition when {}",
        if *is_stopped { "the informer stopped" } else { "the deadline passed" }
    )]
    ConditionNotMet {
        /// The resource.
        resource: Arc<str>,
        /// The key, as `namespace/name` or `name`.
        key: String,
        /// Whether the informer has stopped; otherwise the deadline has passed.
        is_stopped: bool,
    },
    /// The scope of an informer cannot change.
    #[error("the scope of {resource} cannot change: {reason}")]
    FixedScope {
        /// The resource.
        resource: Arc<str>,
        /// Why it cannot change.
        reason: FixedScope,
    },
    /// A label selector is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

/// Why the scope of an informer cannot change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FixedScope {
    /// The objects of the resource are in no namespace.
    #[error("its objects are not in namespaces")]
    ClusterScoped,
    /// The program has made the informer [itself](crate::ResourceOptions::informer).
    #[error("the informer has sources of the program")]
    OwnInformer,
}

impl Error {
    pub(crate) fn index(resource: &Arc<str>, source: StoreError) -> Self {
        Self::Index { resource: resource.clone(), source: Arc::new(source) }
    }
}

impl From<HandlerError> for Error {
    fn from(error: HandlerError) -> Self {
        Self::Informer(error.into())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Informer(error.into())
    }
}

fn list(errors: &[InformerError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

kinformer_core::debug_as_message!(Error);
