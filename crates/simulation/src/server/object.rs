//! Requests for single objects: reads and writes.

use std::io;
use std::time::Duration;

use futures::future::pending;
use http::{Method, Request, Response};
use kube_client::client::Body;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::body::AnswerBody;
use super::faults::{Fault, Verb};
use super::history::{History, Key};
use super::request::Query;
use super::service::Server;
use super::status::Status;
use crate::state::{State, field, text_of};

/// A request for one object.
#[derive(Clone, Debug)]
struct ObjectRequest {
    query: Query,
    method: Method,
    /// The name in the path; `None` for a creation.
    name: Option<String>,
    body: Value,
}

impl Server {
    /// Answers a request for one object. Of a fault that loses or delays something, the request or the response is hit.
    pub(super) async fn respond_to_object(self, request: Request<Body>) -> io::Result<Response<AnswerBody>> {
        let (number, fault, mut rng) = self.shared.with(|state, _| {
            state.requests += 1;
            let fault = state.faults.take(Verb::Object, &mut state.rng);
            (state.requests, fault, state.rng.fork())
        });
        self.note(number, &format!("{} {}", request.method(), request.uri()));
        if let Some(fault) = fault {
            self.note(number, &format!("{fault:?}"));
        }
        // No client can know that an object exists if the server says that it does not.
        let is_read = request.method() == http::Method::GET;
        let is_response = rng.bool();
        let mut sender = self.sender(self.shared.connection(), rng);
        let request = ObjectRequest::of(request).await?;
        let limit = request.time_limit();
        match fault {
            Some(Fault::Refused) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Fault::NoAnswer) if !is_response => return pending().await,
            Some(Fault::Status { code, retry_after }) => {
                let status = Status::of_code(if is_read && code == 404 { 500 } else { code });
                let status = retry_after.map_or(status.clone(), |seconds| status.retry_after(seconds));
                return self.answer(number, Err(status), retry_after, sender);
            }
            Some(Fault::Busy { code, seconds }) => {
                return self.answer(number, Err(Status::of_code(code)), Some(seconds), sender);
            }
            Some(Fault::Stop { bytes, stop }) => sender.stop = Some((bytes, stop)),
            _ => {}
        }
        let apply = {
            let cluster = self.shared.cluster.clone();
            move || cluster.write(|history| request.apply(history))
        };
        let result = match fault {
            Some(Fault::Delay(delay)) if !is_response => delayed(delay, limit, apply).await?,
            _ => apply(),
        };
        match fault {
            Some(Fault::NoAnswer) => return pending().await,
            Some(Fault::Delay(delay)) if is_response => sleep(delay).await,
            _ => {}
        }
        self.answer(number, result, None, sender)
    }
}

/// Applies a request after a delay. A client that gives up does not end the request.
async fn delayed<T: Send + 'static>(
    delay: Duration,
    limit: Duration,
    apply: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> io::Result<Result<T, Status>> {
    let late = tokio::spawn(async move {
        match timeout(limit, sleep(delay)).await {
            Ok(()) => apply(),
            Err(_) => Err(Status::of_code(504)),
        }
    });
    late.await.map_err(io::Error::other)
}

impl ObjectRequest {
    async fn of(request: Request<Body>) -> io::Result<Self> {
        let query = Query::of(&request).map_err(|_| io::Error::other("the model has no such resource"))?;
        let name = Query::split(request.uri().path()).1.map(str::to_owned);
        let method = request.method().clone();
        let body = request.into_body().collect_bytes().await.map_err(io::Error::other)?;
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
        Ok(Self { query, method, name, body })
    }

    /// The time after which the server gives up the request. A minute by default, as in kube-apiserver.
    fn time_limit(&self) -> Duration {
        let limit = self.query.param("timeout").strip_suffix("ms").and_then(|limit| limit.parse().ok());
        limit.map_or(Duration::from_secs(60), Duration::from_millis)
    }

    /// Reads or writes the object. Returns its state.
    fn apply(&self, history: &mut History) -> Result<Value, Status> {
        let name = self.name.as_deref().or_else(|| text_of(&self.body, ["metadata", "name"]));
        if name.is_none() && self.method == Method::DELETE {
            return Ok(self.delete_collection(history));
        }
        let generated = text_of(&self.body, ["metadata", "generateName"])
            .map(|prefix| format!("{prefix}{}", history.newest().saturating_add(1)));
        let name = name.or(generated.as_deref());
        let key = self.query.key(name.ok_or_else(|| Status::of_code(422))?)?;
        let found = history.object(&key).cloned();
        let Some(before) = found else {
            return match self.method {
                Method::POST => Ok(self.put(history, key, self.body.clone())),
                _ => Err(Status::of_code(404)),
            };
        };
        match self.method {
            Method::GET => Ok(self.query.object(&before)),
            Method::POST => Err(Status::new(409, "AlreadyExists", format!("{key} already exists"))),
            Method::PUT => {
                check(field(&self.body, ["metadata"]), &before, &key)?;
                Ok(self.replace(history, key, &before, self.body.clone()))
            }
            Method::PATCH => {
                check(field(&self.body, ["metadata"]), &before, &key)?;
                let mut object = before.as_ref().clone();
                merge(&mut object, &self.body);
                Ok(self.replace(history, key, &before, object))
            }
            Method::DELETE => {
                check(field(&self.body, ["preconditions"]), &before, &key)?;
                Ok(self.delete(history, key, &before))
            }
            _ => Err(Status::new(405, "MethodNotAllowed", "the model has no such method")),
        }
    }

    /// Deletes an object, or begins that if it has finalizers.
    fn delete(&self, history: &mut History, key: Key, before: &State) -> Value {
        if let Some(ending) = end(history, &key, before) {
            return self.query.object(&ending);
        }
        let deleted = history.delete(key, None).unwrap_or_default();
        let uid = match deleted % 5 {
            // As for pods.
            0 => return self.query.object(before),
            // The status of kube-apiserver has the UID, that of other servers may not.
            1 => None,
            _ => field(before, ["metadata", "uid"]),
        };
        let details = uid.map_or_else(|| json!({}), |uid| json!({"uid": uid}));
        json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details})
    }

    /// Deletes the objects of a collection. Returns them as they were before.
    fn delete_collection(&self, history: &mut History) -> Value {
        let objects = history.objects_at(history.newest()).into_iter();
        let objects: Vec<(Key, State)> = objects
            .filter(|(key, object)| self.query.has_key(key) && self.query.matches(object))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        let items: Vec<Value> = objects.iter().map(|(_, object)| self.query.item(object)).collect();
        for (key, before) in objects {
            if end(history, &key, &before).is_none() {
                history.delete(key, None);
            }
        }
        self.query.list(&json!({"resourceVersion": history.newest().to_string()}), &items)
    }

    /// Replaces an object, and deletes it if that removes the last finalizer of one whose deletion has begun. A write that
    /// changes nothing has no new version.
    fn replace(&self, history: &mut History, key: Key, before: &State, mut object: Value) -> Value {
        if let Some(time) = field(before, ["metadata", "deletionTimestamp"])
            && !has_finalizers(&object)
        {
            history.delete(key, None);
            // The response of kube-apiserver is the update, with the version before.
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("deletionTimestamp".into(), time.clone());
                for name in ["name", "namespace", "uid", "resourceVersion"] {
                    metadata
                        .insert(name.into(), field(before, ["metadata", name]).cloned().unwrap_or_default());
                }
            }
            return self.query.object(&object);
        }
        let of_server = |object: &Value| {
            let mut content = content(object.clone());
            if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
                for field in ["name", "namespace", "uid", "resourceVersion", "deletionTimestamp"] {
                    metadata.remove(field);
                }
            }
            content
        };
        match of_server(&object) == of_server(before) {
            true => self.query.object(before),
            false => self.put(history, key, object),
        }
    }

    fn put(&self, history: &mut History, key: Key, object: Value) -> Value {
        history.put(key.clone(), content(object).into());
        history.object(&key).map(|object| self.query.object(object)).unwrap_or_default()
    }
}

fn has_finalizers(object: &Value) -> bool {
    let finalizers = field(object, ["metadata", "finalizers"]).and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

/// Begins the deletion of an object with finalizers. Returns its state then.
fn end(history: &mut History, key: &Key, before: &State) -> Option<State> {
    if !has_finalizers(before) {
        return None;
    }
    if field(before, ["metadata", "deletionTimestamp"]).is_none() {
        let mut object = before.as_ref().clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("deletionTimestamp".into(), json!("2026-01-01T00:00:00Z"));
        }
        history.put(key.clone(), object);
    }
    history.object(key).cloned()
}

/// Returns the members of an object that the history has.
fn content(object: Value) -> Map<String, Value> {
    let Value::Object(mut members) = object else { return Map::new() };
    members.remove("kind");
    members.remove("apiVersion");
    members
}

/// Checks the version and the UID that a request asks for.
fn check(asked: Option<&Value>, found: &Value, key: &Key) -> Result<(), Status> {
    for name in ["resourceVersion", "uid"] {
        let asked = asked.and_then(|asked| asked.get(name)).filter(|asked| !asked.is_null());
        if asked.is_some_and(|asked| Some(asked) != field(found, ["metadata", name])) {
            return Err(Status::new(409, "Conflict", format!("{key} has been modified")));
        }
    }
    Ok(())
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(members) = object.as_object_mut() else { return };
    for (name, value) in patch {
        match value {
            Value::Null => _ = members.remove(name),
            value => merge(members.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}
