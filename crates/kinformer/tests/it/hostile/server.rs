//! A server that answers each request by a script, without a socket, so that time can be paused.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use kube_client::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

/// After this number of lists or watches the server stops answering, because paused time does not advance for a client
/// that sends requests without a pause.
const MAX_REQUESTS: usize = 2_000;

/// A request as the server sees it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The time of arrival, since the start.
    pub(crate) at: Duration,
    pub(crate) watch: bool,
    /// Whether this is a watch that begins with the current objects.
    pub(crate) watch_list: bool,
    /// Empty if there is none.
    pub(crate) version: String,
    pub(crate) limit: Option<u64>,
    pub(crate) continue_token: Option<String>,
    /// The number of earlier lists, or watches; watch-lists count as watches.
    pub(crate) number: usize,
}

impl Request {
    /// Whether this is a list of one object, which requests the newest version.
    pub(crate) fn is_probe(&self) -> bool {
        !self.watch && self.limit == Some(1)
    }
}

/// The reaction of the server to a request.
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    parts: Vec<Part>,
}

enum Part {
    Bytes(Bytes),
    After(Duration),
    /// The connection breaks.
    Break,
    /// Nothing more is sent, and the answer does not end.
    Hang,
}

impl Answer {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status, headers, parts: vec![Part::Bytes(body.into())] }
    }

    pub(crate) fn json(body: &Value) -> Self {
        Self::new(200, "application/json", body.to_string())
    }

    /// A list of pods.
    pub(crate) fn list(version: &str, items: Vec<Value>) -> Self {
        Self::json(&list(version, items))
    }

    /// A Status of this code and reason.
    pub(crate) fn status(code: u16, reason: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code,
        });
        Self { status: code, ..Self::json(&status) }
    }

    /// A watch of these lines, which then ends without an error.
    pub(crate) fn watch(lines: impl IntoIterator<Item = String>) -> Self {
        let mut answer = Self::new(200, "application/json", "");
        answer.parts = lines.into_iter().map(|line| Part::Bytes(format!("{line}\n").into())).collect();
        answer
    }

    /// The request is accepted and never answered.
    pub(crate) fn never() -> Self {
        Self { status: 0, headers: Vec::new(), parts: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_string()));
        self
    }

    /// Adds a pause, and then these lines.
    pub(crate) fn then_after(mut self, pause: Duration, lines: impl IntoIterator<Item = String>) -> Self {
        self.parts.push(Part::After(pause));
        self.parts.extend(lines.into_iter().map(|line| Part::Bytes(format!("{line}\n").into())));
        self
    }

    /// The answer does not end.
    pub(crate) fn then_hang(mut self) -> Self {
        self.parts.push(Part::Hang);
        self
    }

    pub(crate) fn then_break(mut self) -> Self {
        self.parts.push(Part::Break);
        self
    }
}

/// A pod that carries a value.
pub(crate) fn pod(name: &str, version: u64, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": {"value": value},
        },
    })
}

pub(crate) fn list(version: &str, items: Vec<Value>) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

/// A line of a watch.
pub(crate) fn event(event_type: &str, object: Value) -> String {
    json!({"type": event_type, "object": object}).to_string()
}

pub(crate) fn bookmark(version: &str) -> String {
    event("BOOKMARK", json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version}}))
}

/// The same line with a byte that JSON does not allow, in the field name of the metadata.
pub(crate) fn damaged(line: &str) -> String {
    let damaged = line.replace("\"metadata\"", "\"metad\u{1}ta\"");
    assert_ne!(damaged, line);
    damaged
}

/// All requests so far.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Request>>>);

impl Log {
    pub(crate) fn all(&self) -> Vec<Request> {
        self.0.lock().clone()
    }
}

/// A client of such a server, and the requests that the server receives.
pub(crate) fn client(script: impl FnMut(&Request) -> Answer + Send + 'static) -> (Client, Log) {
    let (log, script, began) = (Log::default(), Arc::new(Mutex::new(script)), Instant::now());
    let seen = log.clone();
    let service = tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
        let query = request.uri().query().unwrap_or_default();
        let query: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let watch = query.contains_key("watch");
        let mut all = seen.0.lock();
        let request = Request {
            at: began.elapsed(),
            watch,
            watch_list: query.contains_key("sendInitialEvents"),
            version: query.get("resourceVersion").cloned().unwrap_or_default(),
            limit: query.get("limit").and_then(|limit| limit.parse().ok()),
            continue_token: query.get("continue").cloned(),
            number: all.iter().filter(|earlier| earlier.watch == watch).count(),
        };
        all.push(request.clone());
        let too_many = request.continue_token.is_none() && request.number > MAX_REQUESTS;
        drop(all);
        let answer = if too_many { Answer::never() } else { script.lock()(&request) };
        async move { Ok::<_, Infallible>(respond(answer).await) }
    });
    (Client::new(service, "default"), log)
}

async fn respond(
    answer: Answer,
) -> http::Response<impl http_body::Body<Data = Bytes, Error = std::io::Error> + Send> {
    if answer.status == 0 {
        futures::future::pending::<()>().await;
    }
    let parts = stream::iter(answer.parts).filter_map(|part| async move {
        match part {
            Part::Bytes(bytes) => Some(Ok(Frame::data(bytes))),
            Part::After(pause) => {
                tokio::time::sleep(pause).await;
                None
            }
            Part::Break => Some(Err(std::io::ErrorKind::ConnectionReset.into())),
            Part::Hang => futures::future::pending().await,
        }
    });
    let mut response = http::Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(StreamBody::new(parts)).unwrap()
}
