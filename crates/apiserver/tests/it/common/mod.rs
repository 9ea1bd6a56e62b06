//! A small HTTP client for the tests: requests with JSON responses, and watches line by line.

use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::{Client as Hyper, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kinformer_apiserver::{ApiServer, FaultHeader};
use serde_json::{Value, json};

/// The time limit for every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn server() -> ApiServer {
    ApiServer::builder().fault_header(FaultHeader::Honoured).start().await.unwrap()
}

#[derive(Clone)]
pub(crate) struct Client {
    base: String,
    http: Hyper<HttpConnector, Full<Bytes>>,
}

pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Checks that the response is a `Status` with this code and reason, and returns its message.
    #[track_caller]
    pub(crate) fn status(&self, code: u16, reason: &str) -> String {
        assert_eq!(self.code.as_u16(), code, "{}", self.body);
        assert_eq!(self.body["kind"], "Status", "{}", self.body);
        assert_eq!(self.body["code"], code, "{}", self.body);
        assert_eq!(self.body["status"], "Failure", "{}", self.body);
        assert_eq!(self.body["reason"].as_str().unwrap_or(""), reason, "{}", self.body);
        self.body["message"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.code.is_success(), "{} {}", self.code, self.body);
        self.body
    }
}

impl Client {
    pub(crate) fn new(server: &ApiServer) -> Self {
        Self { base: server.url(), http: Hyper::builder(TokioExecutor::new()).build_http() }
    }

    /// Returns the same client with another base URL.
    pub(crate) fn with_base(&self, base: &str) -> Self {
        Self { base: base.to_owned(), http: self.http.clone() }
    }

    /// A client that speaks HTTP/2 over a single connection.
    pub(crate) fn over_http2(server: &ApiServer) -> Self {
        let http = Hyper::builder(TokioExecutor::new()).http2_only(true).build_http();
        Self { base: server.url(), http }
    }

    pub(crate) async fn raw(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<http::Response<Incoming>, hyper_util::client::legacy::Error> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        tokio::time::timeout(PATIENCE, self.http.request(request)).await.expect("a response in time")
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let response = self.raw(method, path, headers, body).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { code: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send(Method::GET, path, &[("accept", accept)], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[], body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, &[], body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], "").await
    }

    pub(crate) async fn patch(&self, path: &str, format: &str, body: &Value) -> Answer {
        let content_type = format!("application/{format}+json");
        self.send(Method::PATCH, path, &[("content-type", &content_type)], body.to_string()).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, &[]).await
    }

    pub(crate) async fn watch_as(&self, path: &str, headers: &[(&str, &str)]) -> Watch {
        let response = self.raw(Method::GET, path, headers, "").await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Watch { body: response.into_body(), buffer: Vec::new() }
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: Incoming,
    buffer: Vec<u8>,
}

/// How a watch ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    Regular,
    /// The connection broke, after this part of an unfinished line.
    Broken(String),
}

impl Watch {
    /// The next event, or the end.
    pub(crate) async fn next(&mut self) -> Result<Value, WatchEnd> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line).unwrap());
            }
            match tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("an event in time") {
                None => {
                    assert!(self.buffer.is_empty(), "half a line at a regular end");
                    return Err(WatchEnd::Regular);
                }
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(_)) => {
                    let rest = String::from_utf8_lossy(&self.buffer).into_owned();
                    return Err(WatchEnd::Broken(rest));
                }
            }
        }
    }

    /// The next event as its type, its object's name and its version.
    pub(crate) async fn event(&mut self) -> (String, String, u64) {
        let event = self.next().await.unwrap();
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
        let version = text("/object/metadata/resourceVersion").parse().unwrap();
        (text("/type"), text("/object/metadata/name"), version)
    }

    /// Type and name of the next event.
    pub(crate) async fn kind_and_name(&mut self) -> (String, String) {
        let (kind, name, _) = self.event().await;
        (kind, name)
    }
}

pub(crate) fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
        "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

pub(crate) fn job(name: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"key": value}})
}

pub(crate) fn widget_definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"color": {"type": "string"}}}}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1", true), version("v1beta1", false)]}})
}

pub(crate) fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"color": "red", "replicas": 1}, "status": {"ignored": true}})
}

/// The names in a list.
pub(crate) fn names(list: &Value) -> Vec<String> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
