//! The errors of this crate.

use std::sync::Arc;
use std::time::Duration;

use kinformer::ResourceVersion;
use kinformer_core::internal::with_causes;

/// The error of a read or an informer of a [`Cache`](crate::Cache).
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use kinformer_cache::{Cache, Error};
///
/// async fn describe(cache: &Cache, key: &str) -> Result<String, Error> {
///     match cache.get::<Secret>(key).await {
///         Ok(secret) => Ok(format!("{} exists", secret.key())),
///         Err(Error::NotFound { .. }) => Ok(format!("{key} does not exist")),
///         Err(Error::UnknownNamespace { .. }) => Ok(format!("{key} may exist; its namespace is not cached")),
///         Err(error) => Err(error), // such as a missing permission, after the timeout
///     }
/// }
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cache has no object with this key.
    #[error("{resource} \"{key}\" not found")]
    NotFound {
        /// The resource.
        resource: Arc<str>,
        /// The requested key, as `namespace/name` or `name`.
        key: String,
    },
    /// The cache was not started, so no informer runs.
    #[doc(alias = "ErrCacheNotStarted")]
    #[error("{resource} cannot be read: the cache was not started; call Cache::start before reading")]
    NotStarted {
        /// The resource.
        resource: Arc<str>,
    },
    /// The cache starts no informers for reads, and nothing has requested one of this resource.
    ///
    /// Follows controller-runtime 0.25 (`ErrResourceNotCached`).
    #[doc(alias = "ErrResourceNotCached")]
    #[error("{resource} are not cached; request their informer before the first read")]
    NotCached {
        /// The resource.
        resource: Arc<str>,
    },
    /// The cache does not have the objects of this namespace.
    #[error(
        "{resource} of the namespace {namespace:?} are not cached; add it to the namespaces of the cache"
    )]
    UnknownNamespace {
        /// The resource.
        resource: Arc<str>,
        /// The requested namespace.
        namespace: Arc<str>,
    },
    /// The informer had not synced when the timeout had passed. It continues, and a later read may succeed.
    #[error("not synced within {timeout:?}: {source}")]
    NotSynced {
        /// The timeout of the cache.
        timeout: Duration,
        /// The error of the informer, with its name and last error.
        source: kinformer::Error,
    },
    /// The cache does not reflect a write of its [client](crate::Cache::client) within the timeout for writes. A later read
    /// may succeed; [`Kind::allow_stale`](crate::Kind::allow_stale) does not wait.
    #[error("{}", not_seen(resource, key.as_deref(), written.as_ref(), read, *timeout))]
    WriteNotSeen {
        /// The resource.
        resource: Arc<str>,
        /// The written key, as `namespace/name` or `name`; `None` for older writes and for deleted collections.
        key: Option<String>,
        /// The version of the write; `None` if the server has not returned one, as for a deletion.
        written: Option<ResourceVersion>,
        /// The version of the cache.
        read: ResourceVersion,
        /// The timeout.
        timeout: Duration,
    },
    /// The server was asked for the version of a write, and did not answer until the deadline, or with an error other than 401,
    /// 403, 408, 429 and 5xx.
    #[error("the version of a write to {resource} is not known: {}", with_causes(&**source))]
    Request {
        /// The resource.
        resource: Arc<str>,
        /// The error of the request.
        source: Arc<kube_client::Error>,
    },
    /// A field selector cannot be answered by indexes, or is invalid.
    #[error("the field selector {selector:?} cannot be answered by the cache: {problem}")]
    FieldSelector {
        /// The selector.
        selector: Arc<str>,
        /// The requirement, and what to do.
        problem: Arc<str>,
    },
    /// A read from the server failed.
    #[error("{resource} cannot be read from the server: {}", with_causes(&**source))]
    LiveRead {
        /// The resource.
        resource: Arc<str>,
        /// The error of the request.
        source: Arc<kube_client::Error>,
    },
    /// A list by a field has no index by which it could be answered.
    #[error(
        "{resource} cannot be listed by {field:?}: there is no index of this field; add it with Kind::index_by_field"
    )]
    NoFieldIndex {
        /// The resource.
        resource: Arc<str>,
        /// The field.
        field: Arc<str>,
    },
    /// The server does not serve this kind. It is requested again after some seconds, so a definition that is installed
    /// later is found.
    #[error(
        "the server does not serve the kind {kind} of {api_version}; install its definition, or correct its version"
    )]
    UnknownKind {
        /// The kind.
        kind: Arc<str>,
        /// The group and version.
        api_version: Arc<str>,
    },
    /// Namespaces were set for a resource that is not in namespaces. Namespaces that are set for all resources
    /// have no effect on it.
    #[error("namespaces were set for {resource}, which are not in namespaces; remove them")]
    ClusterScoped {
        /// The resource.
        resource: Arc<str>,
    },
    /// Any other error of an informer, of discovery or of a key.
    #[error(transparent)]
    Informer(#[from] kinformer::Error),
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

fn not_seen(
    resource: &str,
    key: Option<&str>,
    written: Option<&ResourceVersion>,
    read: &ResourceVersion,
    timeout: Duration,
) -> String {
    let key = key.map(|key| format!(" \"{key}\"")).unwrap_or_default();
    let written = written.map(|version| format!(" at version {version}")).unwrap_or_default();
    format!(
        "a write of {resource}{key}{written} was not seen within {timeout:?}: the cache is at version {read}"
    )
}
