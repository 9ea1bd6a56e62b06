//! A server of webhooks, which both API servers reach.
//!
//! The path of a request names the API server, the phase and the behaviour: `/real/mutating/label`.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, pki_types::PrivateKeyDer};

/// The received reviews by API server: the path without it, and the review.
type Reviews = Arc<Mutex<HashMap<String, Vec<(String, Value)>>>>;

/// Makes the answer of a behaviour to a review: code, media type and body.
type Behave = fn(&str, &Value) -> (u16, &'static str, String);

pub(in super::super) struct Hooks {
    pub(in super::super) server: Listener,
    /// A server whose certificate is that of an authority.
    pub(in super::super) authority: Listener,
    reviews: Reviews,
}

pub(in super::super) struct Listener {
    pub(in super::super) url: String,
    /// Its certificate, in PEM and base64.
    pub(in super::super) bundle: String,
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hooks {
    pub(in super::super) async fn start() -> Self {
        Self::answering(answer).await
    }

    /// Starts servers whose answers are made of the behaviour and the review.
    pub(in super::super) async fn answering(answer: Behave) -> Self {
        let reviews = Reviews::default();
        let server = Listener::start(rcgen::IsCa::NoCa, reviews.clone(), answer).await;
        let is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self { server, authority: Listener::start(is_ca, reviews.clone(), answer).await, reviews }
    }

    /// Returns the reviews from an API server, and forgets them.
    pub(super) fn take(&self, server: &str) -> Vec<(String, Value)> {
        self.reviews.lock().remove(server).unwrap_or_default()
    }
}

impl Listener {
    async fn start(is_ca: rcgen::IsCa, reviews: Reviews, answer: Behave) -> Self {
        let mut params =
            rcgen::CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(serve(listener, acceptor, reviews, answer));
        Self { url, bundle: STANDARD.encode(cert.pem()), task }
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, reviews: Reviews, answer: Behave) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, acceptor.clone(), reviews.clone(), answer));
    }
}

/// Answers the requests of a connection, each with a length.
async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    reviews: Reviews,
    answer: Behave,
) -> Option<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await.ok()?);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if path.is_empty() {
                path = line.split(' ').nth(1)?.to_owned();
            } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            } else if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let review: Value = serde_json::from_slice(&body).ok()?;
        let (server, rest) = path.trim_start_matches('/').split_once('/')?;
        let behaviour = rest.split(['/', '?']).nth(1)?.to_owned();
        if behaviour != "probe" {
            reviews.lock().entry(server.to_owned()).or_default().push((rest.to_owned(), review.clone()));
        }
        let (code, media_type, answer) = match behaviour.as_str() {
            "hang" => std::future::pending().await,
            "close" => return None,
            behaviour => answer(behaviour, &review),
        };
        let head = format!(
            "HTTP/1.1 {code} Answer\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let stream = stream.get_mut();
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(answer.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
    }
}

const JSON: &str = "application/json";

/// Returns the answer of a behaviour: code, media type and body.
fn answer(behaviour: &str, review: &Value) -> (u16, &'static str, String) {
    let request = &review["request"];
    let uid = &request["uid"];
    let of = |response: Value| {
        let mut response = response;
        if response["uid"].is_null() {
            response["uid"] = uid.clone();
        }
        json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})
    };
    let ok = |response: Value| (200, JSON, of(response).to_string());
    let patch = |operations: &str| json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations)});
    let has_object = !request["object"].is_null();
    let deny = |status: Value| ok(json!({"allowed": false, "status": status}));
    match behaviour {
        "deny" => deny(json!({"message": "no"})),
        "deny-bare" => ok(json!({"allowed": false})),
        "deny-reason" => deny(json!({"reason": "NotNow", "code": 409})),
        "deny-success" => deny(json!({"status": "Success", "code": 200, "message": "fine"})),
        "deny-full" => deny(json!({"code": 422, "reason": "Invalid", "message": "bad", "metadata": {"resourceVersion": "7"},
            "details": {"name": "n", "group": "g", "kind": "k", "retryAfterSeconds": 2,
                "causes": [{"reason": "FieldValueInvalid", "message": "m", "field": "f"}]}})),
        "warn" => ok(json!({"allowed": true, "warnings": ["first", "second \"quoted\"", "first"], "auditAnnotations": {"a": "b"}})),
        "warn-deny" => ok(json!({"allowed": false, "warnings": ["denied"], "status": {"message": "no"}})),
        "label" if has_object && request["object"]["metadata"]["labels"].is_null() => {
            ok(patch(r#"[{"op":"add","path":"/metadata/labels","value":{"added":"label"}}]"#))
        }
        "label" if has_object => ok(patch(r#"[{"op":"add","path":"/metadata/labels/added","value":"label"}]"#)),
        "finalizer" if has_object => ok(patch(
            r#"[{"op":"add","path":"/metadata/finalizers","value":["example.com/added"]}]"#,
        )),
        "once" if has_object && request["object"]["metadata"]["annotations"]["once"].is_null() => {
            ok(patch(r#"[{"op":"add","path":"/metadata/annotations","value":{"once":"1"}}]"#))
        }
        "unknown-field" if has_object => ok(patch(r#"[{"op":"add","path":"/unknown","value":1}]"#)),
        "identity" if has_object => ok(patch(r#"[{"op":"test","path":"/metadata/none","value":null}]"#)),
        "empty-patch" => ok(patch("[]")),
        "rename" if has_object && request["name"] != "applied" => ok(patch(r#"[{"op":"add","path":"/metadata/name","value":"renamed"}]"#)),
        "replicas" if has_object => ok(patch(r#"[{"op":"add","path":"/spec","value":{"replicas":7}}]"#)),
        "managers" if has_object => ok(patch(r#"[{"op":"add","path":"/metadata/managedFields","value":[{"operation":"Other"}]}]"#)),
        "namespace" if has_object => ok(patch(r#"[{"op":"add","path":"/metadata/namespace","value":"default"}]"#)),
        "owners" if has_object => {
            // of a kind that does not exist, so that the object is not collected
            let owner = r#"{"apiVersion":"missing.example.com/v1","kind":"Missing","name":"owner","uid":"1"}"#;
            ok(patch(&format!(r#"[{{"op":"add","path":"/metadata/ownerReferences","value":[{owner},{owner}]}}]"#)))
        }
        "fields" if !request["object"]["metadata"]["managedFields"].is_null() => {
            ok(patch(r#"[{"op":"add","path":"/metadata/managedFields/0/fieldsV1","value":{"x":{}}}]"#))
        }
        "invalid" if has_object => ok(patch(r#"[{"op":"add","path":"/metadata/labels","value":{"a b":"c"}}]"#)),
        "delete-patch" if !has_object => ok(patch(r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]"#)),
        "undecodable" => ok(patch("{}")),
        "patch-type" => ok(json!({"allowed": true, "patchType": "Merge", "patch": STANDARD.encode("[{\"op\":\"remove\",\"path\":\"/a\"}]")})),
        "no-type" => ok(json!({"allowed": true, "patch": STANDARD.encode("[]")})),
        "no-patch" => ok(json!({"allowed": true, "patchType": "JSONPatch"})),
        "absent" => (200, JSON, json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}).to_string()),
        "uid" => ok(json!({"uid": "other", "allowed": true})),
        "untyped" => (200, JSON, json!({"response": {"uid": uid, "allowed": true}}).to_string()),
        "other-version" => {
            (200, JSON, json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "response": {"uid": uid, "allowed": true}}).to_string())
        }
        "other-kind" => (200, JSON, json!({"kind": "Pod", "apiVersion": "v1"}).to_string()),
        "status" => (200, JSON, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "a status", "code": 418}).to_string()),
        "empty" => (200, JSON, String::new()),
        "text" => (200, "text/plain", "hello".into()),
        "500" => (500, "text/plain", "broken\n".into()),
        "500-json" => (500, JSON, json!({"error": "broken"}).to_string()),
        "500-status" => (500, JSON, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "a status"}).to_string()),
        "400" => (400, "text/plain", "bad".into()),
        "403" => (403, "text/plain", "not you".into()),
        "404" => (404, "text/plain", "none".into()),
        "418" => (418, "text/plain", "teapot".into()),
        "probe" => deny(json!({"message": "probe"})),
        _ => ok(json!({"allowed": true})),
    }
}
