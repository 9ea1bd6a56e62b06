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

/// When questions are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Never,
    AtTimes,
    /// In the whole run, as without the right to list: with this code, if their path contains this.
    Always(u16, &'static str),
}

impl Refused {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        match rng.u8(..5) {
            0 | 1 => Self::AtTimes,
            2 => {
                let code = pick(rng, [401, 403]);
                Self::Always(code, pick(rng, ["", "", "/secrets", "/namespaces/a/"]))
            }
            _ => Self::Never,
        }
    }
}

/// Refuses the questions of a cache. Clones are handles.
#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    refused: Refused,
    /// The status code of the next questions; 0 if they are answered.
    code: Arc<AtomicU16>,
    /// Whether a question was refused.
    were: Arc<AtomicBool>,
}

impl Refusals {
    pub(crate) fn new(refused: Refused) -> Self {
        let code = if let Refused::Always(code, _) = refused { code } else { 0 };
        Self { refused, code: Arc::new(code.into()), were: Arc::default() }
    }

    /// Refuses questions at some times.
    pub(crate) async fn run(self, mut rng: Rng, recorder: Recorder) {
        if self.refused != Refused::AtTimes {
            return;
        }
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

    /// Answers questions from now on, unless they are refused in the whole run.
    pub(crate) fn end(&self) {
        if self.refused == Refused::AtTimes {
            self.code.store(0, Ordering::Relaxed);
        }
    }

    /// The response to a request, if it is a question that is refused.
    pub(crate) fn response(&self, request: &Request<Body>) -> Option<Response<Body>> {
        let code = self.code.load(Ordering::Relaxed);
        let path = if let Refused::Always(_, path) = self.refused { path } else { "" };
        if code == 0 || !is_question(request) || !request.uri().path().contains(path) {
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
