//! A small API server of ConfigMaps and Secrets: one history, lists in pages, watches, watch-lists.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::judge::{Change, Objects, objects_at};
use crate::trace::Recorder;

type Piece = Result<Frame<Bytes>, std::io::Error>;

/// The server. Clones are handles.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    recorder: Recorder,
}

struct State {
    rng: Rng,
    version: u64,
    /// The history of each resource.
    history: BTreeMap<String, Vec<Change>>,
    /// Versions below this are gone.
    compacted: u64,
    /// The status codes of the next requests.
    failures: Vec<u16>,
    /// The number of the last order to break all connections.
    broken: u64,
    requests: u64,
}

impl Server {
    /// Creates a server without objects.
    pub(crate) fn new(seed: u64, recorder: Recorder) -> Self {
        let state = State {
            rng: Rng::with_seed(seed),
            version: 1,
            history: BTreeMap::new(),
            compacted: 0,
            failures: Vec::new(),
            broken: 0,
            requests: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::new(Notify::new()), recorder }
    }

    /// Returns a client whose requests this server answers.
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.respond(request).await) }
        });
        Client::new(service, "default")
    }

    /// Reads the history of a resource.
    pub(crate) fn history<R>(&self, plural: &str, read: impl FnOnce(&[Change]) -> R) -> R {
        read(self.state.lock().history.get(plural).map_or(&[], Vec::as_slice))
    }

    /// Returns the objects of a resource.
    pub(crate) fn objects(&self, plural: &str) -> Objects {
        self.history(plural, |history| objects_at(history, u64::MAX))
    }

    fn objects_of(&self, scope: &Scope, version: u64) -> Objects {
        let mut objects = self.history(&scope.plural, |history| objects_at(history, version));
        objects.retain(|key, _| scope.has(key));
        objects
    }

    /// Creates or replaces an object. Returns its version.
    pub(crate) fn put(&self, plural: &str, key: &str, value: &str) -> u64 {
        let before = self.objects(plural).remove(key);
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version;
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let uid = match before.as_ref().and_then(|object| object.pointer("/metadata/uid")) {
            Some(uid) => uid.clone(),
            None => json!(format!("uid-{version}")),
        };
        let object = json!({
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid, "resourceVersion": version.to_string(),
            },
            "data": {"value": value},
        });
        let change = Change { version, key: key.into(), state: Some(object) };
        state.history.entry(plural.into()).or_default().push(change);
        drop(state);
        self.changed.notify_waiters();
        version
    }

    /// Deletes an object. Returns the version of the deletion, or `None` if there is no such object.
    pub(crate) fn delete(&self, plural: &str, key: &str) -> Option<u64> {
        self.objects(plural).remove(key)?;
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version;
        let change = Change { version, key: key.into(), state: None };
        state.history.entry(plural.into()).or_default().push(change);
        drop(state);
        self.changed.notify_waiters();
        Some(version)
    }

    /// Makes all versions before the current one unavailable.
    pub(crate) fn compact(&self) -> u64 {
        let mut state = self.state.lock();
        state.compacted = state.version;
        state.version
    }

    /// Answers the next requests with these status codes.
    pub(crate) fn fail_next(&self, statuses: impl IntoIterator<Item = u16>) {
        self.state.lock().failures.extend(statuses);
    }

    /// Breaks all connections of watches.
    pub(crate) fn break_watches(&self) {
        self.state.lock().broken += 1;
        self.changed.notify_waiters();
    }

    async fn respond(self, request: Request<Body>) -> Response<BoxBody> {
        let query: BTreeMap<String, String> =
            form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        let scope = Scope::of(request.uri().path());
        let (number, failure, latency) = {
            let mut state = self.state.lock();
            state.requests += 1;
            let failure = if state.failures.is_empty() { None } else { Some(state.failures.remove(0)) };
            (state.requests, failure, state.rng.u64(..20_000))
        };
        let actor = format!("request {number}");
        self.recorder.note(&actor, format_args!("{}{} {query:?}", scope.prefix, scope.plural));
        tokio::time::sleep(Duration::from_micros(latency)).await;
        let answer = match failure {
            Some(status) => Err(status),
            None if query.contains_key("watch") => self.watch(&actor, scope, &query),
            None => self.list(&actor, &scope, &query),
        };
        answer.unwrap_or_else(|status| {
            self.recorder.note(&actor, status);
            let body = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
                "reason": if status == 410 { "Expired" } else { "InternalError" }, "message": "failed",
            });
            response(status, stream::iter([piece(&body)]).boxed())
        })
    }

    fn list(
        &self,
        actor: &str,
        scope: &Scope,
        query: &BTreeMap<String, String>,
    ) -> Result<Response<BoxBody>, u16> {
        let (newest, compacted) = {
            let state = self.state.lock();
            (state.version, state.compacted)
        };
        let continued = query.get("continue").and_then(|token| token.split_once(' '));
        let (version, after) = match continued {
            Some((version, after)) => (version.parse().map_err(|_| 400_u16)?, after),
            None => (newest, ""),
        };
        if version < compacted {
            return Err(410);
        }
        let limit = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let objects = self.objects_of(scope, version);
        let mut rest = objects.iter().filter(|(key, _)| key.as_str() > after);
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let next = rest.next().and(page.last()).map(|(key, _)| format!("{version} {key}"));
        self.recorder.note(actor, format_args!("list of {} at {version}", page.len()));
        let items: Vec<_> = page.into_iter().map(|(_, object)| object).collect();
        let kind = format!("{}List", kind_of(&scope.plural));
        let metadata = json!({"resourceVersion": version.to_string(), "continue": next.unwrap_or_default()});
        let body = json!({"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items});
        Ok(response(200, self.pieces(format!("{body}").into())))
    }

    fn watch(
        &self,
        actor: &str,
        scope: Scope,
        query: &BTreeMap<String, String>,
    ) -> Result<Response<BoxBody>, u16> {
        let (newest, compacted, broken) = {
            let state = self.state.lock();
            (state.version, state.compacted, state.broken)
        };
        let initial = query.get("sendInitialEvents").is_some_and(|send| send == "true");
        let from: u64 = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        let seconds = query.get("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(300);
        if !initial && from < compacted {
            return Err(410);
        }
        let mut ready = String::new();
        if initial {
            for object in self.objects_of(&scope, newest).into_values() {
                ready.push_str(&event("ADDED", &scope.plural, object));
            }
            let metadata = json!({
                "resourceVersion": newest.to_string(), "annotations": {"k8s.io/initial-events-end": "true"},
            });
            ready.push_str(&event("BOOKMARK", &scope.plural, json!({"metadata": metadata})));
        }
        let watch = Watch {
            server: self.clone(),
            actor: actor.to_owned(),
            scope,
            at: if initial { newest } else { from },
            until: Instant::now() + Duration::from_secs(seconds),
            broken,
        };
        let events = stream::unfold(watch, Watch::next).flat_map(|piece| piece);
        Ok(response(200, self.pieces(ready.into()).chain(events).boxed()))
    }

    /// Cuts bytes into pieces of random size, with pauses.
    fn pieces(&self, bytes: Bytes) -> BoxStream<'static, Piece> {
        let mut rng = self.state.lock().rng.fork();
        stream::unfold((bytes, rng.fork()), |(mut rest, mut rng)| async move {
            if rest.is_empty() {
                return None;
            }
            if rng.u8(..8) == 0 {
                tokio::time::sleep(Duration::from_micros(rng.u64(..3_000))).await;
            }
            let most = if rng.bool() { rest.len() } else { rest.len().min(40) };
            let piece = rest.split_to(rng.usize(1..=most));
            Some((Ok(Frame::data(piece)), (rest, rng)))
        })
        .boxed()
    }
}

type BoxBody = StreamBody<BoxStream<'static, Piece>>;

struct Watch {
    server: Server,
    actor: String,
    scope: Scope,
    /// The version of the last sent event.
    at: u64,
    until: Instant,
    broken: u64,
}

impl Watch {
    async fn next(mut self) -> Option<(BoxStream<'static, Piece>, Self)> {
        loop {
            let changed = self.server.changed.clone();
            let mut changed = std::pin::pin!(changed.notified());
            changed.as_mut().enable();
            let broken = self.server.state.lock().broken;
            if broken == u64::MAX || broken != self.broken {
                self.server.recorder.note(&self.actor, "breaks");
                self.broken = u64::MAX;
                return (broken != u64::MAX).then(|| {
                    (stream::iter([Err(std::io::ErrorKind::ConnectionReset.into())]).boxed(), self)
                });
            }
            if let Some((version, text)) = self.event() {
                self.at = version;
                return Some((self.server.pieces(text.into()), self));
            }
            let ended = tokio::time::timeout_at(self.until, changed).await.is_err();
            if ended {
                self.server.recorder.note(&self.actor, "ends");
                return None;
            }
        }
    }
}

impl Watch {
    /// Returns the next event with its version.
    fn event(&self) -> Option<(u64, String)> {
        let Scope { plural, .. } = &self.scope;
        let change = self.server.history(plural, |history| {
            let mut changes = history.iter().filter(|change| change.version > self.at);
            changes.find(|change| self.scope.has(&change.key)).cloned()
        })?;
        let before = self.server.objects_of(&self.scope, self.at).remove(&change.key);
        let text = match (change.state, before) {
            (Some(object), None) => event("ADDED", plural, object),
            (Some(object), Some(_)) => event("MODIFIED", plural, object),
            (None, Some(mut object)) => {
                if let Some(version) = object.pointer_mut("/metadata/resourceVersion") {
                    *version = json!(change.version.to_string());
                }
                event("DELETED", plural, object)
            }
            (None, None) => String::new(),
        };
        Some((change.version, text))
    }
}

/// The objects that a request is about.
struct Scope {
    plural: String,
    /// The beginning of their keys: empty for all namespaces.
    prefix: String,
}

impl Scope {
    fn of(path: &str) -> Self {
        let plural = path.rsplit('/').next().unwrap_or_default().to_owned();
        let namespace = path.split_once("/namespaces/").and_then(|(_, rest)| rest.split_once('/'));
        Self { plural, prefix: namespace.map_or_else(String::new, |(namespace, _)| format!("{namespace}/")) }
    }

    fn has(&self, key: &str) -> bool {
        key.starts_with(&self.prefix)
    }
}

fn kind_of(plural: &str) -> &'static str {
    if plural == "secrets" { "Secret" } else { "ConfigMap" }
}

fn event(event_type: &str, plural: &str, mut object: Value) -> String {
    if let Some(object) = object.as_object_mut() {
        object.insert("kind".into(), json!(kind_of(plural)));
        object.insert("apiVersion".into(), json!("v1"));
    }
    format!("{}\n", json!({"type": event_type, "object": object}))
}

fn piece(body: &Value) -> Piece {
    Ok(Frame::data(body.to_string().into()))
}

fn response(status: u16, pieces: impl Stream<Item = Piece> + Send + 'static) -> Response<BoxBody> {
    let mut response = Response::new(StreamBody::new(pieces.boxed()));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}
