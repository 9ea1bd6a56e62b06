//! The error of a write to the API server.

/// A write to the API server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The object has no name, so no request was sent.
    #[error("the object has no name")]
    NoName,
    /// The object has no `apiVersion` or no `kind`, so no request was sent.
    #[error("{name:?} has no apiVersion or no kind")]
    NoType {
        /// The name of the object.
        name: String,
    },
    /// The object has no UID or no resource version: it was not read from the API server. No request was sent.
    #[error("{name:?} has no UID or no resource version")]
    NotStored {
        /// The name of the object.
        name: String,
    },
    /// The object could not be serialized, so no request was sent.
    #[error("{name:?} cannot be serialized: {source}")]
    Serialize {
        /// The name of the object.
        name: String,
        /// The error of the serialization.
        source: serde_json::Error,
    },
    /// The request failed, or the API server refused it.
    #[error("{name:?} was not written: {source}")]
    Request {
        /// The name of the object.
        name: String,
        /// The error of the request.
        source: Box<kube_client::Error>,
    },
}

impl WriteError {
    pub(crate) fn request(name: &str, source: kube_client::Error) -> Self {
        Self::Request { name: name.to_owned(), source: Box::new(source) }
    }

    /// Whether the API server has no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Request { source, .. }
            if matches!(&**source, kube_client::Error::Api(status) if status.code == 404))
    }
}
