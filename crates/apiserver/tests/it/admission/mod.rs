//! Admission webhooks.

mod calls;
mod failures;
mod objects;
mod operator;
mod requests;

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kinformer_apiserver::ApiServer;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, pki_types::PrivateKeyDer};

use crate::common::Answer;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// What a webhook answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// The fields of the response, with the UID of the request.
    Response(Value),
    /// A status code, a media type and a body.
    Raw(u16, &'static str, String),
    Never,
}

impl Reply {
    fn allowed() -> Self {
        Self::Response(json!({"allowed": true}))
    }

    fn denied(status: Value) -> Self {
        Self::Response(json!({"allowed": false, "status": status}))
    }

    fn patch(operations: &Value) -> Self {
        let patch = STANDARD.encode(operations.to_string());
        Self::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
    }
}

/// The server of webhooks of an operator, over TLS. Dropping it ends it.
pub(crate) struct WebhookServer {
    pub(crate) address: SocketAddr,
    /// Its certificate, in PEM and base64.
    pub(crate) authority: String,
    /// The received reviews, with the paths of their requests.
    reviews: Arc<Mutex<Vec<(String, Value)>>>,
    task: JoinHandle<()>,
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WebhookServer {
    /// Starts a server that answers by the path and the request of each review.
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::certified(&["localhost", "127.0.0.1", "hooks.default.svc"], |_| {}, answer).await
    }

    /// As [`Self::start`], with a certificate for these names.
    async fn certified(
        names: &[&str],
        change: impl FnOnce(&mut rcgen::CertificateParams),
        answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        change(&mut params);
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
        let address = listener.local_addr().unwrap();
        let reviews = Arc::default();
        let task = tokio::spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            Arc::new(answer),
            Arc::clone(&reviews),
        ));
        Self { address, authority: STANDARD.encode(cert.pem()), reviews, task }
    }

    /// Returns the received reviews, and forgets them.
    pub(crate) fn take(&self) -> Vec<Value> {
        let reviews = std::mem::take(&mut *self.reviews.lock());
        reviews.into_iter().map(|(_, review)| review["request"].clone()).collect()
    }

    /// Returns the paths of the received reviews, and forgets them.
    fn take_paths(&self) -> Vec<String> {
        std::mem::take(&mut *self.reviews.lock()).into_iter().map(|(path, _)| path).collect()
    }

    /// A webhook for all operations on config maps at this path, with these other fields.
    fn hook(&self, path: &str, fields: &Value) -> Value {
        let url = format!("https://{}/{path}", self.address);
        let mut hook = json!({
            "name": format!("{path}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": self.authority},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        });
        for (field, value) in fields.as_object().unwrap() {
            hook[field] = value.clone();
        }
        hook
    }
}

type Answers = Arc<dyn Fn(&str, &Value) -> Reply + Send + Sync>;

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answer: Answers,
    reviews: Arc<Mutex<Vec<(String, Value)>>>,
) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answer, reviews) = (acceptor.clone(), answer.clone(), reviews.clone());
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request| respond(request, answer.clone(), reviews.clone()));
            let connection = hyper::server::conn::http1::Builder::new();
            // Clients close their connections without a notice.
            _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    answer: Answers,
    reviews: Arc<Mutex<Vec<(String, Value)>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path_and_query().unwrap().to_string();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    reviews.lock().push((path.clone(), review.clone()));
    let name = path.trim_start_matches('/').split('?').next().unwrap_or("");
    let reply = answer(name, &review["request"]);
    let (code, media_type, body) = match reply {
        Reply::Never => std::future::pending().await,
        Reply::Raw(code, media_type, body) => (code, media_type, body),
        Reply::Response(mut response) => {
            response["uid"] = review["request"]["uid"].clone();
            let answer =
                json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response});
            (200, "application/json", answer.to_string())
        }
    };
    let response = Response::builder().status(code).header("content-type", media_type);
    Ok(response.body(Full::new(body.into())).unwrap())
}

/// Stores a configuration of webhooks.
fn configure(server: &ApiServer, kind: &str, name: &str, hooks: Value) {
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name}, "webhooks": hooks});
    server.create(object).unwrap();
}

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
}
