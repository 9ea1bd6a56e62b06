//! Failures of a reflector that no retry will mend.
//!
//! An informer goes on whatever happens: rights may come back. A person who asks for what they may not see is
//! better told at once. So until the first sync, and only then, such a failure ends the program.

use std::collections::HashMap;
use std::sync::Arc;

use kinformer::ClientError;
use kinformer_core::internal::with_causes;
use kinformer_reflector::{Failure, Recovery, SourceError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::exit::Error;

/// Takes the failures of all informers.
#[derive(Clone, Debug)]
pub(crate) struct Judges {
    server: Arc<str>,
    /// By the name of the informer.
    judges: Arc<Mutex<HashMap<String, Judge>>>,
}

impl Judges {
    pub(crate) fn new(server: &str) -> Self {
        Self { server: server.into(), judges: Arc::default() }
    }

    /// From now on those of this informer too, which is to do this: completes "refuses to".
    pub(crate) fn add(&self, informer: &str, what: &str) -> Verdict {
        let (judge, verdict) = Judge::new(self.server.clone(), what);
        self.judges.lock().insert(informer.to_owned(), judge);
        verdict
    }

    /// What the error hook is to call.
    pub(crate) fn hear(&self, failure: &Failure<'_>) {
        let judge = self.judges.lock().get(failure.reflector).cloned();
        if let Some(judge) = judge {
            judge.hear(failure);
        }
    }
}

/// Takes the failures of one reflector.
#[derive(Clone, Debug)]
struct Judge {
    server: Arc<str>,
    /// What is done when it fails: completes "refuses to".
    what: Arc<str>,
    verdict: Arc<Mutex<Option<oneshot::Sender<Error>>>>,
}

/// Waits for the first failure that is final.
pub(crate) type Verdict = oneshot::Receiver<Error>;

impl Judge {
    fn new(server: Arc<str>, what: &str) -> (Self, Verdict) {
        let (tell, verdict) = oneshot::channel();
        (Self { server, what: what.into(), verdict: Arc::new(Mutex::new(Some(tell))) }, verdict)
    }

    fn hear(&self, failure: &Failure<'_>) {
        if matches!(failure.recovery, Recovery::Skip | Recovery::FallBackToList) {
            return;
        }
        if let Some(error) = self.finally(failure.error)
            && let Some(tell) = self.verdict.lock().take()
        {
            // Nobody waits for it any more after the first sync.
            let _ = tell.send(error);
        }
    }

    fn finally(&self, error: &SourceError) -> Option<Error> {
        let (server, what) = (self.server.to_string(), self.what.to_string());
        let reason = with_causes(error);
        if let SourceError::Other { source } = error {
            return match source.downcast_ref()? {
                ClientError::PathSegment { .. } => Some(Error::Usage(with_causes(&**source))),
                ClientError::Redirect { .. } | ClientError::ContentEncoding { .. } => {
                    Some(Error::Answer { server, what, reason })
                }
                _ => None,
            };
        }
        let status = error.status()?;
        match status.code {
            401 | 403 => Some(Error::Refused { server, what, reason }),
            400 | 404 | 405 | 406 | 415 | 422 => Some(Error::Answer { server, what, reason }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use kinformer_reflector::ApiStatus;

    use super::*;

    fn code(status: u16) -> Option<u8> {
        let (judge, _verdict) = Judge::new("http://x".into(), "list pods");
        judge.finally(&ApiStatus::new(status, "", "no").into()).map(|error| error.code())
    }

    #[test]
    fn refusals_and_senseless_requests_are_final() {
        assert_eq!((code(401), code(403)), (Some(4), Some(4)));
        assert_eq!((code(400), code(404)), (Some(1), Some(1)));
    }

    #[test]
    fn what_may_pass_is_not() {
        for status in [409, 410, 429, 500, 503, 504] {
            assert_eq!(code(status), None, "{status}");
        }
        let (judge, _verdict) = Judge::new("http://x".into(), "list pods");
        assert!(judge.finally(&SourceError::other("connection reset")).is_none());
    }
}
