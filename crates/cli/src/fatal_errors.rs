//! Errors of a reflector that no retry can fix.
//!
//! An informer retries every error, since permissions may be granted later. For a user at a terminal, a missing
//! permission or an impossible request should fail at once. Until the first sync, and only then, such an error ends
//! the program.

use std::collections::HashMap;
use std::sync::Arc;

use kinformer::ClientError;
use kinformer_core::internal::with_causes;
use kinformer_reflector::{Failure, Recovery, SourceError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::exit::Error;

/// Receives the errors of all informers.
#[derive(Clone, Debug)]
pub(crate) struct FatalErrors {
    server: Arc<str>,
    /// By informer name.
    by_informer: Arc<Mutex<HashMap<String, ReflectorErrors>>>,
}

impl FatalErrors {
    pub(crate) fn new(server: &str) -> Self {
        Self { server: server.into(), by_informer: Arc::default() }
    }

    /// Registers an informer. `what` describes its requests, and completes "refuses to". The returned receiver
    /// resolves with the first fatal error.
    pub(crate) fn add(&self, informer: &str, what: &str) -> FatalError {
        let (errors, fatal_error) = ReflectorErrors::new(self.server.clone(), what);
        self.by_informer.lock().insert(informer.to_owned(), errors);
        fatal_error
    }

    /// Handles an error of any informer: the body of the error hook. Returns whether the error ends the program.
    pub(crate) fn report(&self, failure: &Failure<'_>) -> bool {
        let by_informer = self.by_informer.lock();
        let errors = informer_of(failure.reflector, by_informer.keys());
        let errors = errors.and_then(|informer| by_informer.get(informer)).cloned();
        drop(by_informer);
        errors.is_some_and(|errors| errors.report(failure))
    }
}

/// Returns the informer of a reflector: that of a part of several has the name of the part behind it, as in
/// `pods (team-a)`.
pub(crate) fn informer_of<'a>(
    reflector: &str,
    informers: impl Iterator<Item = &'a String>,
) -> Option<&'a String> {
    let is_of = |informer: &&String| {
        reflector
            .strip_prefix(informer.as_str())
            .is_some_and(|part| part.is_empty() || part.starts_with(" ("))
    };
    informers.filter(is_of).max_by_key(|informer| informer.len())
}

/// Receives the errors of one reflector.
#[derive(Clone, Debug)]
struct ReflectorErrors {
    server: Arc<str>,
    /// The request that fails; completes "refuses to" and "failed to".
    what: Arc<str>,
    sender: Arc<Mutex<Option<oneshot::Sender<Error>>>>,
}

/// Receives the first fatal error of an informer.
pub(crate) type FatalError = oneshot::Receiver<Error>;

impl ReflectorErrors {
    fn new(server: Arc<str>, what: &str) -> (Self, FatalError) {
        let (sender, fatal_error) = oneshot::channel();
        (Self { server, what: what.into(), sender: Arc::new(Mutex::new(Some(sender))) }, fatal_error)
    }

    fn report(&self, failure: &Failure<'_>) -> bool {
        if matches!(failure.recovery, Recovery::Skip | Recovery::FallBackToList) {
            return false;
        }
        let sender = || self.sender.lock().take();
        match self.classify(failure.error).and_then(|error| Some((error, sender()?))) {
            // The receiver is dropped after the first sync.
            Some((error, sender)) => sender.send(error).is_ok(),
            None => false,
        }
    }

    fn classify(&self, error: &SourceError) -> Option<Error> {
        let (server, what) = (self.server.to_string(), self.what.to_string());
        let reason = with_causes(error);
        if let SourceError::Other { source } = error {
            return match source.downcast_ref()? {
                ClientError::PathSegment { .. } => Some(Error::Usage(with_causes(&**source))),
                ClientError::Redirect { .. } | ClientError::ContentEncoding { .. } => {
                    Some(Error::BadResponse { server, what, reason })
                }
                _ => None,
            };
        }
        let status = error.status()?;
        match status.code {
            401 | 403 => Some(Error::Refused { server, what, reason }),
            400 | 404 | 405 | 406 | 415 | 422 => Some(Error::BadResponse { server, what, reason }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use kinformer_reflector::ApiStatus;

    use super::*;

    fn code(status: u16) -> Option<u8> {
        let (errors, _fatal_error) = ReflectorErrors::new("http://x".into(), "list pods");
        errors.classify(&ApiStatus::new(status, "", "no").into()).map(|error| error.code())
    }

    #[test]
    fn refusals_and_invalid_requests_are_fatal() {
        assert_eq!((code(401), code(403)), (Some(4), Some(4)));
        assert_eq!((code(400), code(404)), (Some(1), Some(1)));
    }

    #[test]
    fn parts_are_those_of_the_longest_name() {
        let informers = ["pods", "pods (metadata)", "pods.metrics.k8s.io"].map(str::to_owned);
        for (reflector, informer) in [
            ("pods", Some("pods")),
            ("pods (team-a)", Some("pods")),
            ("pods (metadata) (team-a)", Some("pods (metadata)")),
            ("podsets", None),
        ] {
            assert_eq!(informer_of(reflector, informers.iter()).map(String::as_str), informer, "{reflector}");
        }
    }

    #[test]
    fn transient_errors_are_not_fatal() {
        for status in [409, 410, 429, 500, 503, 504] {
            assert_eq!(code(status), None, "{status}");
        }
        let (errors, _fatal_error) = ReflectorErrors::new("http://x".into(), "list pods");
        assert!(errors.classify(&SourceError::other("connection reset")).is_none());
    }
}
