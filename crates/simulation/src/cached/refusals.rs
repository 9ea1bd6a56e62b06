//! Refused questions: the lists of one object by which a cache finds out about the writes of its client (C-08j).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::{Request, Response, header};
use kube_client::client::Body;
use tokio::time::sleep;

use crate::random::pick;
use crate::server::Status;
use crate::trace::Recorder;

/// Refuses the questions of a cache. Clones are handles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    /// The status code of the next questions; 0 if they are answered.
    code: Arc<AtomicU16>,
    /// Whether a question was refused.
    were: Arc<AtomicBool>,
}

impl Refusals {
    /// Refuses questions at some times.
    pub(crate) async fn run(self, mut rng: Rng, recorder: Recorder) {
        for _ in 0..rng.usize(1..6) {
            let code = pick(&mut rng, [401, 403]);
            recorder.note("refusals", format_args!("questions are refused: {code}"));
            self.code.store(code, Ordering::Relaxed);
            sleep(Duration::from_millis(rng.u64(..20_000))).await;
            recorder.note("refusals", "questions are answered");
            self.end();
            sleep(Duration::from_millis(rng.u64(..10_000))).await;
        }
    }

    /// Answers questions from now on.
    pub(crate) fn end(&self) {
        self.code.store(0, Ordering::Relaxed);
    }

    /// The response to a request, if it is a question that is refused.
    pub(crate) fn response(&self, request: &Request<Body>) -> Option<Response<Body>> {
        let code = self.code.load(Ordering::Relaxed);
        if code == 0 || !is_question(request) {
            return None;
        }
        let status = Body::from(Status::of_code(code).to_json().to_string().into_bytes());
        Response::builder().status(code).header(header::CONTENT_TYPE, "application/json").body(status).ok()
    }

    /// Notes the status code of a response to a question.
    pub(crate) fn note(&self, code: u16) {
        if matches!(code, 401 | 403) {
            self.were.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a question was refused. Reads then wait for any later version after a write without one (C-08t), which may
    /// be before it.
    pub(crate) fn were(&self) -> bool {
        self.were.load(Ordering::Relaxed)
    }
}

/// Whether a request is a list of one object, as no informer and no user sends it.
pub(crate) fn is_question(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.starts_with('&') && query.split('&').any(|parameter| parameter == "limit=1")
}
