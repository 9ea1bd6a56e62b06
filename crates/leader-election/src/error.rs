//! The errors of this crate.

use std::fmt;
use std::sync::Arc;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is invalid.
    #[error("leader election: {0}")]
    InvalidOption(String),
    /// A request for the Lease failed.
    #[error("lease {lease}: {source}")]
    Request {
        /// Namespace and name of the Lease.
        lease: Arc<str>,
        /// The error of the request.
        source: kube_client::Error,
    },
    /// The Lease was changed between a read and the write that followed, by another process or by a change of its metadata.
    #[error("lease {lease} was changed while it was renewed; the next attempt reads it again")]
    Changed {
        /// Namespace and name of the Lease.
        lease: Arc<str>,
    },
    /// The Lease was not released in time. It expires by itself.
    #[error("lease {lease} was not released within the time limit; it expires by itself")]
    ReleaseTimedOut {
        /// Namespace and name of the Lease.
        lease: Arc<str>,
    },
}

impl Error {
    /// Whether the API server has answered.
    pub(crate) fn is_answer(&self) -> bool {
        match self {
            Self::Request { source, .. } => matches!(source, kube_client::Error::Api(_)),
            Self::Changed { .. } => true,
            Self::InvalidOption(_) | Self::ReleaseTimedOut { .. } => false,
        }
    }
}

/// This process is not the leader any more.
///
/// A [wrapped client](crate::Leadership::client) returns it inside `kube_client::Error::Service`: see [`Self::of`].
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_leader_election::NotLeader;
/// use kube_client::Api;
///
/// /// Writes with the client of a leadership.
/// async fn write(api: &Api<ConfigMap>, map: &ConfigMap) -> Result<(), kube_client::Error> {
///     match api.create(&Default::default(), map).await {
///         Err(error) if NotLeader::of(&error).is_some() => Ok(()), // the next leader writes it
///         created => created.map(|_| ()),
///     }
/// }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("not the leader: the hold of lease {lease} by {identity:?} {end}")]
#[non_exhaustive]
pub struct NotLeader {
    /// Namespace and name of the Lease.
    pub lease: Arc<str>,
    /// The identity of this process.
    pub identity: Arc<str>,
    /// Why the leadership has ended.
    pub end: End,
}

impl NotLeader {
    /// Returns the `NotLeader` in an error of a [wrapped client](crate::Leadership::client).
    pub fn of(error: &kube_client::Error) -> Option<&Self> {
        match error {
            kube_client::Error::Service(error) => {
                let mut error: &(dyn std::error::Error + 'static) = &**error;
                loop {
                    if let Some(found) = error.downcast_ref() {
                        return Some(found);
                    }
                    error = error.source()?;
                }
            }
            _ => None,
        }
    }
}

/// Why a leadership has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// This process has not become the leader yet.
    NotElected,
    /// The Lease was not renewed before the renew deadline. Has the last error, if there was one.
    Expired(Option<Arc<str>>),
    /// Another elector has written its identity into the Lease. An equal identity belongs to another elector too.
    HeldBy(Arc<str>),
    /// The Lease was deleted, or somebody else has removed its holder.
    Removed,
    /// This process has released or dropped its leadership.
    Released,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElected => write!(f, "has not begun"),
            Self::Expired(None) => write!(f, "has ended: it was not renewed in time"),
            Self::Expired(Some(error)) => {
                write!(f, "has ended: it was not renewed in time; last error: {error}")
            }
            Self::HeldBy(identity) => write!(f, "has ended: it is held by {identity:?}"),
            Self::Removed => write!(f, "has ended: the lease or its holder was removed"),
            Self::Released => write!(f, "has ended: it was released"),
        }
    }
}
