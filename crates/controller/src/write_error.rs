//! The error of a write to the API server.

use kube_core::Status;

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
    /// The function that changes the object has changed its name or its resource version, so no request was sent.
    #[error("the name or the resource version of {name:?} was changed")]
    OtherObject {
        /// The name of the object.
        name: String,
    },
    /// The object was changed since it was read. A retry with the newest state mends this.
    #[error("{name:?} was not written: it was changed since it was read")]
    Changed {
        /// The name of the object.
        name: String,
        /// The error of the request.
        error: Box<kube_client::Error>,
    },
    /// The request failed, or the API server refused it. The message has all causes, in one line.
    #[error("{name:?} was not written: {}", error_line(&**error))]
    Request {
        /// The name of the object.
        name: String,
        /// The error of the request.
        error: Box<kube_client::Error>,
    },
}

impl WriteError {
    pub(crate) fn request(name: &str, error: kube_client::Error) -> Self {
        Self::Request { name: name.to_owned(), error: Box::new(error) }
    }

    /// As [`Self::request`], for a JSON patch: a failed test means that the object has changed.
    pub(crate) fn tested(name: &str, error: kube_client::Error) -> Self {
        // An invalid object has causes by field. A patch that does not apply has none, or one for the patch itself.
        let is_invalid = |status: &Status| {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            causes.into_iter().any(|cause| cause.field.starts_with("metadata"))
        };
        match error {
            kube_client::Error::Api(status) if status.code == 422 && !is_invalid(&status) => {
                Self::Changed { name: name.to_owned(), error: Box::new(kube_client::Error::Api(status)) }
            }
            error => Self::request(name, error),
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Request { error, .. } | Self::Changed { error, .. } => code(error),
            _ => None,
        }
    }

    /// Whether the API server has no such object.
    #[doc(alias = "IgnoreNotFound")]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the object was changed or created since it was read, so that a retry with the newest state may succeed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Changed { .. }) || self.code() == Some(409)
    }
}

fn code(error: &kube_client::Error) -> Option<u16> {
    match error {
        kube_client::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether an error, or one of its causes, is a conflict of a write: [`WriteError::is_conflict`], or a response of the API server
/// with the code 409.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let own = error.downcast_ref().map(WriteError::is_conflict);
        let of_client = || error.downcast_ref().map(|error| code(error) == Some(409));
        if let Some(is_conflict) = own.or_else(of_client) {
            return is_conflict;
        }
        cause = error.source();
    }
    false
}

/// Returns an error and its causes in one line, each once. The response of the API server is its code, reason and message;
/// kube-client prints all fields of it as well.
pub(crate) fn error_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = String::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let response = match error.downcast_ref() {
            Some(kube_client::Error::Api(status)) => Some(status),
            _ => None,
        };
        let text = match response {
            Some(status) => {
                let Status { code, reason, message, .. } = &**status;
                [format!("{code} {reason}"), message.clone()].join(": ")
            }
            None => error.to_string(),
        };
        if !line.contains(&text) {
            let separator = if line.is_empty() { "" } else { ": " };
            line = format!("{line}{separator}{}", text.replace('\n', " "));
        }
        // The cause of a response is the response.
        cause = if response.is_some() { None } else { error.source() };
    }
    line
}
