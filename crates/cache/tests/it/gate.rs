//! A cluster whose watches can be held back.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::{FutureExt as _, StreamExt as _};
use http::{Method, Request, Response};
use http_body_util::{BodyStream, StreamBody};
use kinformer_apiserver::ApiServer;
use kinformer_cache::{Cache, CacheBuilder};
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tower::{BoxError, Service};

use crate::common::server;

/// An API server, and a cache whose watches receive nothing while the gate is closed.
pub struct Gated {
    pub server: ApiServer,
    pub cache: Cache,
    /// The watches that are held back, by a part of their URI.
    gate: watch::Sender<Option<&'static str>>,
    requests: Arc<Mutex<Vec<String>>>,
    has_versions_in_statuses: Arc<AtomicBool>,
}

impl Gated {
    /// A started cache, with an open gate.
    pub async fn new(change: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Self {
        let server = server().await;
        let gate = watch::Sender::new(None);
        let client = kinformer::client(server.config().unwrap()).unwrap();
        let namespace = client.default_namespace().to_owned();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let has_versions_in_statuses = Arc::<AtomicBool>::default();
        let gated = GatedClient {
            client,
            gate: gate.clone(),
            requests: requests.clone(),
            has_versions_in_statuses: has_versions_in_statuses.clone(),
        };
        let client = Client::new(gated, namespace);
        let cache = change(Cache::builder(client)).build().await.unwrap();
        cache.start().unwrap();
        Self { server, cache, gate, requests, has_versions_in_statuses }
    }

    /// Makes the Status of a write have the server's version, as that of Kubernetes 1.38.
    pub fn add_versions_to_statuses(&self) {
        self.has_versions_in_statuses.store(true, Ordering::Relaxed);
    }

    /// Returns the requests since the last call: `METHOD URI`.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock())
    }

    pub fn close(&self) {
        self.close_for("");
    }

    /// Closes the gate for the watches whose URI has this part.
    pub fn close_for(&self, part: &'static str) {
        self.gate.send_replace(Some(part));
    }

    pub fn open(&self) {
        self.gate.send_replace(None);
    }

    /// A read that waits while the gate is closed, and ends when it is open. Closes it again.
    pub async fn waits<T>(&self, read: impl Future<Output = T>) -> T {
        let mut read = pin!(read);
        // Reads that do not wait end at the first poll: their informers have synced.
        assert!(
            poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending())).await,
            "the read waits"
        );
        self.open();
        let read = tokio::time::timeout(std::time::Duration::from_secs(60), read).await.unwrap();
        self.close();
        read
    }

    /// A read that does not wait.
    pub fn at_once<T>(&self, read: impl Future<Output = T>) -> T {
        read.now_or_never().unwrap() // none if it waits
    }

    pub async fn shutdown(self) {
        self.open();
        self.cache.shutdown().await.unwrap();
        self.server.shutdown().await;
    }
}

#[derive(Clone)]
struct GatedClient {
    client: Client,
    /// The watches that are held back, by a part of their URI.
    gate: watch::Sender<Option<&'static str>>,
    requests: Arc<Mutex<Vec<String>>>,
    has_versions_in_statuses: Arc<AtomicBool>,
}

impl GatedClient {
    /// Sends a request, and adds the version of the server to a Status in its response.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let is_write =
            request.method() != Method::GET && self.has_versions_in_statuses.load(Ordering::Relaxed);
        let response = self.client.send(request).await?;
        if !is_write {
            return Ok(response);
        }
        let (mut head, body) = response.into_parts();
        let body = body.collect_bytes().await?;
        let mut answer: Value = serde_json::from_slice(&body)?;
        if answer["kind"] != "Status" {
            return Ok(Response::from_parts(head, Body::from(body)));
        }
        let list = Request::get("/api/v1/nodes?limit=1").body(Vec::new())?;
        let list: Value = serde_json::from_str(&self.client.request_text(list).await?)?;
        answer["metadata"] = list["metadata"].clone();
        head.headers.remove(http::header::CONTENT_LENGTH);
        Ok(Response::from_parts(head, Body::from(serde_json::to_vec(&answer)?)))
    }
}

type Frame = Result<http_body::Frame<bytes::Bytes>, BoxError>;
type Frames = StreamBody<Pin<Box<dyn futures::Stream<Item = Frame> + Send>>>;

impl Service<Request<Body>> for GatedClient {
    type Response = Response<Frames>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let gated = self.clone();
        gated.requests.lock().push(format!("{} {}", request.method(), request.uri()));
        let uri: Arc<str> = request.uri().to_string().into();
        let is_watch = uri.contains("watch=");
        Box::pin(async move {
            let response = gated.send(request).await?;
            Ok(response.map(|body| {
                let frames = BodyStream::new(body).then(move |frame| {
                    let (mut closed, uri) = (gated.gate.subscribe(), uri.clone());
                    async move {
                        if is_watch {
                            _ = closed.wait_for(|closed| closed.is_none_or(|part| !uri.contains(part))).await;
                        }
                        frame.map_err(BoxError::from)
                    }
                });
                StreamBody::new(frames.boxed())
            }))
        })
    }
}
