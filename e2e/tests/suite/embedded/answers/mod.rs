//! The embedded API server answers requests as kube-apiserver does: with the same codes, objects, managers and messages.
//!
//! Values that differ in every run are replaced: UIDs and versions by numbers in the order of their appearance, times by a
//! constant.

mod access;
mod admission;
mod applies;
mod builtin;
mod conversions;
mod deletions;
mod json_patches;
mod matrix;
mod objects;
mod policies;
mod schemas;
mod shards;

use std::collections::HashMap;

use e2e::{ControlPlane, Options};
use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{HeaderValue, Method, Request};
use kinformer_apiserver::{ApiServer, Builder};
use kube_client::Client;
use kube_client::client::Body;
use serde_json::Value;

use super::kubectl::compare;
use crate::planes;

/// A request that both servers receive.
#[derive(Clone, Debug)]
struct Call {
    method: Method,
    path: String,
    /// The media type of the body; empty for none.
    content: &'static str,
    /// The media types of the answer; empty for none.
    accept: &'static str,
    body: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Same(Value),
    /// The object that the server has, if any, with these changes: members, or null for those to remove.
    Changed(Value),
    Text(String),
}

impl Call {
    fn new(method: Method, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), content: "application/json", accept: "", body: Content::Same(body) }
    }

    fn patch(path: impl Into<String>, content: &'static str, body: Value) -> Self {
        Self { content, ..Self::new(Method::PATCH, path, body) }
    }

    fn change(path: impl Into<String>, changes: Value) -> Self {
        let path = path.into();
        Self { body: Content::Changed(changes), ..Self::new(Method::PUT, path, Value::Null) }
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = match &self.body {
            Content::Same(body) => body.to_string(),
            Content::Changed(changes) => format!("the stored object with {changes}"),
            Content::Text(text) => text.chars().take(200).collect(),
        };
        let Self { method, path, content, accept, .. } = self;
        write!(f, "{method} {path} {content} {accept} {body}")
    }
}

/// An answer, without the values that differ in every run.
#[derive(Debug, PartialEq)]
struct Answer {
    code: u16,
    media_type: String,
    warnings: Vec<String>,
    /// Text, if it is not JSON; an array, if it is several values.
    body: Value,
    text: String,
}

/// One of the servers.
#[derive(Clone)]
struct Server {
    client: Client,
    /// The numbers of UIDs, and of versions.
    numbers: [HashMap<String, usize>; 2],
}

impl Server {
    fn new(client: Client) -> Self {
        Self { client, numbers: Default::default() }
    }

    async fn send(&mut self, call: &Call) -> Answer {
        let body = match &call.body {
            Content::Same(Value::Null) => String::new(),
            Content::Same(body) => body.to_string(),
            Content::Text(text) => text.clone(),
            Content::Changed(changes) => {
                let (path, _) = call.path.split_once('?').unwrap_or((&call.path, ""));
                let (code, mut object) = self.raw(&Method::GET, path, "application/json", &Value::Null).await;
                if code != 200 {
                    object = Value::Null;
                }
                json_patch::merge(&mut object, changes);
                object.to_string()
            }
        };
        let headers = [(CONTENT_TYPE, call.content), (ACCEPT, call.accept)];
        let request = headers
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .fold(Request::builder().method(&call.method).uri(&call.path), |request, (name, value)| {
                request.header(name, value)
            });
        let mut answer = self.exchange(request.body(Body::from(body.into_bytes())).unwrap()).await;
        self.replace(&mut answer.body);
        answer
    }

    async fn raw(&self, method: &Method, path: &str, content: &str, body: &Value) -> (u16, Value) {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content);
        let answer = self.exchange(request.body(Body::from(bytes)).unwrap()).await;
        (answer.code, answer.body)
    }

    async fn exchange(&self, request: Request<Body>) -> Answer {
        let answer = self.client.send(request).await.unwrap();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let (code, headers) = (answer.status().as_u16(), answer.headers());
        let media_type = headers.get(CONTENT_TYPE).map(text).unwrap_or_default();
        let warnings = headers.get_all(WARNING).iter().map(text).collect();
        let bytes = answer.into_body().collect_bytes().await.unwrap();
        let values: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_slice(&bytes).into_iter().collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = values.map_or_else(|_| Value::String(text.clone()), one_or_all);
        Answer { code, media_type, warnings, body, text }
    }

    /// Replaces what differs in every run.
    fn replace(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(members) => {
                self.replace_names(members);
                for (name, value) in members {
                    match (name.as_str(), &mut *value) {
                        ("uid", Value::String(uid)) => {
                            *uid = format!("uid {}", number(&mut self.numbers[0], uid))
                        }
                        ("resourceVersion", Value::String(version)) => {
                            *version = format!("version {}", number(&mut self.numbers[1], version));
                        }
                        ("creationTimestamp" | "deletionTimestamp" | "time", Value::String(time)) => {
                            "(time)".clone_into(time);
                        }
                        ("message", Value::String(message)) => {
                            *message = without_version(&self.without_uids(message));
                        }
                        ("causes", Value::Array(causes)) => {
                            // kube-apiserver lists the conflicts of several managers in any order.
                            causes.sort_by_key(Value::to_string);
                        }
                        ("managedFields", Value::Array(entries)) => {
                            // Their order depends on their times, in seconds.
                            entries.sort_by_key(|entry| {
                                ["manager", "operation", "apiVersion", "subresource"]
                                    .map(|name| entry[name].as_str().unwrap_or_default().to_owned())
                            });
                            entries.iter_mut().for_each(|entry| self.replace(entry));
                        }
                        _ => self.replace(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// Replaces UIDs in the names of members: those of list items in managed fields.
    fn replace_names(&self, members: &mut serde_json::Map<String, Value>) {
        let keys: Vec<String> = members.keys().filter(|name| name.starts_with("k:")).cloned().collect();
        for key in keys {
            if let Some(value) = members.remove(&key) {
                members.insert(self.without_uids(&key), value);
            }
        }
    }

    fn without_uids(&self, text: &str) -> String {
        let uids = self.numbers[0].iter();
        let text =
            uids.fold(text.to_owned(), |text, (uid, number)| text.replace(uid, &format!("uid {number}")));
        let is_uid = |word: &&str| word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
        let words = text.split(|c: char| c != '-' && !c.is_ascii_hexdigit()).filter(is_uid);
        words.fold(text.clone(), |text, uid| text.replace(uid, "(uid)"))
    }

    /// Begins to number UIDs and versions again, so that a difference does not affect the objects after it.
    fn forget_numbers(&mut self) {
        self.numbers = Default::default();
    }
}

/// Returns the number of a value in the order of appearance.
fn number(numbers: &mut HashMap<String, usize>, value: &str) -> usize {
    let next = numbers.len();
    *numbers.entry(value.to_owned()).or_insert(next)
}

/// Returns the only value of a body, or all events of a watch. How many bookmarks follow one another depends on the time.
fn one_or_all(mut values: Vec<Value>) -> Value {
    let is_bookmark = |event: &Value| event["type"] == "BOOKMARK";
    values.dedup_by(|later, earlier| is_bookmark(later) && is_bookmark(earlier));
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}

/// Replaces the current version in a message.
fn without_version(message: &str) -> String {
    let before =
        [" in record (", "ResourceVersion in object meta: ", ", current: ", "too old resource version: 1 ("];
    let found = before.iter().find_map(|before| message.split_once(before).map(|parts| (before, parts)));
    let Some((before, (start, end))) = found else { return message.to_owned() };
    format!("{start}{before}{}", end.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Both servers.
#[derive(Clone)]
struct Servers {
    real: Server,
    ours: Server,
}

/// What runs while servers are compared.
struct Running {
    control_plane: ControlPlane,
    server: ApiServer,
}

impl Running {
    /// Ends both. Their objects would be in the way of other comparisons.
    async fn shutdown(self) {
        let Self { control_plane, server } = self;
        server.shutdown().await;
        drop(control_plane);
    }
}

impl Servers {
    async fn start(options: Options) -> (Running, Self) {
        Self::start_with(options, ApiServer::builder()).await
    }

    async fn start_with(options: Options, embedded: Builder) -> (Running, Self) {
        let control_plane = planes::take(options).await;
        let server = embedded.start().await.unwrap();
        let real = Server::new(control_plane.client().await.unwrap());
        let ours = Server::new(kinformer::client(server.config().unwrap()).unwrap());
        (Running { control_plane, server }, Self { real, ours })
    }

    /// Sends a request to both, and returns the code of kube-apiserver with the differences.
    async fn send(&mut self, call: &Call, ignored: &compare::Ignored<'_>) -> (u16, Found) {
        let (real, ours) = self.both(call).await;
        (real.code, Found::of(call, &real, &ours, ignored, ROWS))
    }

    async fn both(&mut self, call: &Call) -> (Answer, Answer) {
        tokio::join!(self.real.send(call), self.ours.send(call))
    }
}

/// How the answers of both servers compare.
enum Found {
    Same,
    /// They differ by design.
    Known(&'static str),
    Differences(Vec<String>),
}

impl Found {
    fn of(call: &Call, real: &Answer, ours: &Answer, ignored: &compare::Ignored<'_>, rows: &[Row]) -> Self {
        if let Some(row) = rows.iter().find(|row| (row.is)(call, real, ours)) {
            return Self::Known(row.why);
        }
        let mut found = Vec::new();
        if real.code != ours.code {
            found.push(format!("code {}, ours {}", real.code, ours.code));
        }
        if real.media_type != ours.media_type {
            found.push(format!("{}, ours {}", real.media_type, ours.media_type));
        }
        let of_kubernetes = |warning: &&String| !warning.contains(" of kinformer-apiserver: ");
        let warnings: Vec<&String> = ours.warnings.iter().filter(of_kubernetes).collect();
        // Those of strategies, which are about fields, are part of validation.
        let of_requests = |warning: &&String| !warning.starts_with("299 - \"spec.");
        if real.warnings.iter().filter(of_requests).ne(warnings.iter().copied()) {
            found.push(format!("warnings {:?}, ours {warnings:?}", real.warnings));
        }
        compare::json(&mut found, "", &real.body, &ours.body, ignored);
        if found.is_empty() { Self::Same } else { Self::Differences(found) }
    }
}

/// A difference by design.
struct Row {
    why: &'static str,
    is: fn(&Call, &Answer, &Answer) -> bool,
}

/// The differences by design. Each occurs in 50 seeds.
const ROWS: &[Row] = &[Row {
    why: "kube-apiserver cannot convert the scale of some custom resources",
    is: |call, real, _| {
        let message = real.body["message"].as_str().unwrap_or_default();
        call.path.contains("/scale?") && message.contains("request to convert CR to an invalid group/version")
    },
}];

/// Replaces the server in the addresses of webhooks, and removes the word after each mark, which differs in every run. A word
/// has letters, digits and the characters beside its mark.
fn neutral(value: &mut Value, marks: &[(&str, &str)]) {
    match value {
        Value::String(text) => {
            *text = text.replace("/real/", "/server/").replace("/ours/", "/server/");
            for (mark, others) in marks {
                let mut parts = text.split(mark);
                let mut plain = parts.next().unwrap_or_default().to_owned();
                for part in parts {
                    plain.push_str(mark);
                    plain.push_str(
                        part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || others.contains(c)),
                    );
                }
                *text = plain;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| neutral(item, marks)),
        Value::Object(members) => members.values_mut().for_each(|member| neutral(member, marks)),
        _ => {}
    }
}

/// Reports what differs, by requests.
fn report(problems: &[String]) {
    let shown: Vec<&str> = problems.iter().take(20).map(String::as_str).collect();
    assert!(problems.is_empty(), "{} requests:\n{}", problems.len(), shown.join("\n"));
}
