//! A cluster whose watches can be held back.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{FutureExt as _, StreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyStream, StreamBody};
use kinformer_apiserver::{ApiServer, Builder};
use kinformer_cache::{Cache, CacheBuilder};
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use tokio::sync::watch;
use tower::{BoxError, Service};

use crate::common::with_namespaces;

/// An API server, and a cache whose watches receive nothing while the gate is closed.
pub struct Gated {
    pub server: ApiServer,
    pub cache: Cache,
    /// The watches that are held back, by a part of their URI and of the types that they accept.
    gate: watch::Sender<Option<&'static str>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Gated {
    /// A started cache, with an open gate.
    pub async fn new(change: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Self {
        Self::of(ApiServer::builder(), change).await
    }

    pub async fn of(server: Builder, change: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Self {
        let server = with_namespaces(server).await;
        let gate = watch::Sender::new(None);
        let client = kinformer::client(server.config().unwrap()).unwrap();
        let namespace = client.default_namespace().to_owned();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let gated = GatedClient { client, gate: gate.clone(), requests: requests.clone() };
        let client = Client::new(gated, namespace);
        let cache = change(Cache::builder(client)).build().await.unwrap();
        cache.start().unwrap();
        Self { server, cache, gate, requests }
    }

    /// Returns the requests since the last call: `METHOD URI`.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock())
    }

    pub fn close(&self) {
        self.close_for("");
    }

    /// Closes the gate for the watches whose URI and accepted types have this part.
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
        let accept =
            request.headers().get("accept").and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let uri: Arc<str> = format!("{} {accept}", request.uri()).into();
        let is_watch = uri.contains("watch=");
        Box::pin(async move {
            let response = gated.client.send(request).await?;
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
