//! An HTTP/1.1 server that answers each request by a script, and the log of its requests.
//!
//! A [`ScriptedServer`] listens on loopback, with or without TLS. [`in_process_client`] needs no socket, so that time can
//! be paused. Scripts and log are the same for both.
//!
//! ```
//! use kinformer_testing::scripted_http::{Answer, in_process_client};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), kube_client::Error> {
//! let (client, requests) = in_process_client(|request| match request.number {
//!     0 => Answer::failure(503, "ServiceUnavailable"),
//!     _ => Answer::json(&json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []})),
//! });
//! for status in [503, 200] {
//!     let request = http::Request::get("/api/v1/pods?limit=5").body(Vec::new().into()).unwrap();
//!     assert_eq!(client.send(request).await?.status(), status);
//! }
//! assert_eq!(requests.texts(), ["list - limit", "list - limit"]);
//! # Ok(())
//! # }
//! ```

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, StreamBody};
use hyper_util::rt::TokioIo;
use kube_client::{Client, Config};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::wait::within;

/// After this number of lists or watches the server stops answering, because paused time does not advance for a client
/// that sends requests without a pause.
const MAX_REQUESTS: usize = 2_000;

/// A received request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The time of arrival, since the start of the server.
    pub at: Duration,
    /// The path and the query.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, which is text.
    pub body: String,
    /// The client certificate.
    pub certificate: Option<CertificateDer<'static>>,
    /// The number of its connection, from 1; 0 without a socket.
    pub connection: usize,
    /// The number of earlier watches if this is a watch, otherwise the number of other earlier requests. Watch-lists
    /// count as watches.
    pub number: usize,
    params: Vec<(String, String)>,
}

impl Request {
    /// Returns the value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the bearer token.
    pub fn token(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    /// Returns the decoded value of a query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the requested version, which is empty if there is none.
    pub fn version(&self) -> &str {
        self.param("resourceVersion").unwrap_or_default()
    }

    /// Returns the size limit of a page.
    pub fn limit(&self) -> Option<u64> {
        self.param("limit")?.parse().ok()
    }

    /// Returns the continue token of a later page.
    pub fn continue_token(&self) -> Option<&str> {
        self.param("continue")
    }

    /// Returns whether this is a watch.
    pub fn is_watch(&self) -> bool {
        self.param("watch").is_some()
    }

    /// Returns whether this is a watch that begins with the current objects.
    pub fn is_watch_list(&self) -> bool {
        self.param("sendInitialEvents").is_some()
    }

    /// Returns whether this is a list of one object, which requests the newest version.
    pub fn is_probe(&self) -> bool {
        !self.is_watch() && self.limit() == Some(1)
    }

    /// Returns a short form: `list 7`, `list 7 limit`, `list continue token`, `watch 7`, `watch-list 7`. The version
    /// is a dash if there is none.
    pub fn text(&self) -> String {
        let version = self.param("resourceVersion").unwrap_or("-");
        match (self.is_watch(), self.continue_token()) {
            (true, _) if self.is_watch_list() => format!("watch-list {version}"),
            (true, _) => format!("watch {version}"),
            (false, Some(token)) => format!("list continue {token}"),
            (false, None) if self.param("limit").is_some() => format!("list {version} limit"),
            (false, None) => format!("list {version}"),
        }
    }
}

/// A scripted response.
#[derive(Debug)]
pub struct Answer {
    /// `None` sends nothing at all.
    status: Option<u16>,
    headers: Vec<(&'static str, String)>,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Bytes(Bytes),
    Received(mpsc::Receiver<Bytes>),
    After(Duration),
    Break,
    Hang,
}

impl Answer {
    /// A response that ends after its body.
    pub fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status: Some(status), headers, parts: vec![Part::Bytes(body.into())] }
    }

    /// A success with a body in JSON.
    pub fn json(body: &Value) -> Self {
        Self::new(200, "application/json", body.to_string())
    }

    /// A `Status` with this code and reason.
    pub fn failure(code: u16, reason: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code,
        });
        Self { status: Some(code), ..Self::json(&status) }
    }

    /// A watch in JSON with these lines, which then ends without an error.
    pub fn watch(lines: impl IntoIterator<Item = String>) -> Self {
        Self::new(200, "application/json", "").then(lines)
    }

    /// A request that is accepted and never answered.
    pub fn never() -> Self {
        Self { status: None, headers: Vec::new(), parts: Vec::new() }
    }

    /// Sets a header; an earlier value is replaced.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_string()));
        self
    }

    /// Adds lines to the body.
    #[must_use]
    pub fn then(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.parts.extend(lines.into_iter().map(|line| Part::Bytes(format!("{line}\n").into())));
        self
    }

    /// Adds a pause, and then these lines.
    #[must_use]
    pub fn then_after(mut self, pause: Duration, lines: impl IntoIterator<Item = String>) -> Self {
        self.parts.push(Part::After(pause));
        self.then(lines)
    }

    /// Adds the pieces of a channel until its senders are dropped.
    #[must_use]
    pub fn then_received(mut self, pieces: mpsc::Receiver<Bytes>) -> Self {
        self.parts.push(Part::Received(pieces));
        self
    }

    /// Sends nothing more and does not end the response.
    #[must_use]
    pub fn then_hang(mut self) -> Self {
        self.parts.push(Part::Hang);
        self
    }

    /// Breaks the connection.
    #[must_use]
    pub fn then_break(mut self) -> Self {
        self.parts.push(Part::Break);
        self
    }

    async fn respond(self) -> http::Response<StreamBody<impl Stream<Item = Piece> + Send>> {
        let Some(status) = self.status else {
            return std::future::pending().await;
        };
        let mut response = http::Response::builder().status(status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(StreamBody::new(stream::iter(self.parts).flat_map(Part::pieces))).unwrap()
    }
}

type Piece = Result<Frame<Bytes>, std::io::Error>;

impl Part {
    fn pieces(self) -> stream::BoxStream<'static, Piece> {
        let bytes = |bytes| Ok(Frame::data(bytes));
        match self {
            Self::Bytes(piece) if piece.is_empty() => stream::empty().boxed(),
            Self::Bytes(piece) => stream::iter([bytes(piece)]).boxed(),
            Self::Received(mut pieces) => {
                stream::poll_fn(move |context| pieces.poll_recv(context)).map(bytes).boxed()
            }
            Self::After(pause) => stream::once(tokio::time::sleep(pause)).filter_map(async |()| None).boxed(),
            Self::Break => stream::iter([Err(std::io::ErrorKind::ConnectionReset.into())]).boxed(),
            Self::Hang => stream::pending().boxed(),
        }
    }
}

/// The received requests.
#[derive(Clone, Debug)]
pub struct Requests(watch::Receiver<Vec<Request>>);

impl Requests {
    /// Returns all requests so far.
    pub fn all(&self) -> Vec<Request> {
        self.0.borrow().clone()
    }

    /// Returns the [short forms](Request::text) of all requests so far.
    pub fn texts(&self) -> Vec<String> {
        self.0.borrow().iter().map(Request::text).collect()
    }

    /// Waits until a request with this [short form](Request::text) was received.
    ///
    /// # Cancel safety
    /// The wait only observes the requests. Dropping it changes nothing.
    pub async fn wait_for(&self, text: &str) {
        let mut requests = self.0.clone();
        let received = requests.wait_for(|requests| requests.iter().any(|request| request.text() == text));
        let _ = within(&format!("the request {text}"), received).await;
    }
}

type AnswerFn = dyn FnMut(&Request) -> Answer + Send;

struct Script {
    answer: Mutex<Box<AnswerFn>>,
    requests: watch::Sender<Vec<Request>>,
    began: Instant,
}

/// The peer of a request.
#[derive(Clone, Default)]
struct Peer {
    certificate: Option<CertificateDer<'static>>,
    connection: usize,
}

impl Script {
    fn new(answer: impl FnMut(&Request) -> Answer + Send + 'static) -> Arc<Self> {
        let (requests, _) = watch::channel(Vec::new());
        Arc::new(Self { answer: Mutex::new(Box::new(answer)), requests, began: Instant::now() })
    }

    fn requests(&self) -> Requests {
        Requests(self.requests.subscribe())
    }

    async fn respond<B: Body<Error: std::fmt::Debug>>(
        self: Arc<Self>,
        peer: Peer,
        request: http::Request<B>,
    ) -> Result<http::Response<StreamBody<impl Stream<Item = Piece> + Send>>, Infallible> {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else {
            return Ok(Answer::never().respond().await);
        };
        let query = head.uri.query().unwrap_or_default();
        let mut request = Request {
            at: self.began.elapsed(),
            target: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            params: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            headers: head.headers,
            body: String::from_utf8(body.to_bytes().to_vec()).unwrap(),
            certificate: peer.certificate,
            connection: peer.connection,
            number: 0,
        };
        self.requests.send_modify(|all| {
            let before = all.iter().rev().find(|earlier| earlier.is_watch() == request.is_watch());
            request.number = before.map_or(0, |before| before.number + 1);
            all.push(request.clone());
        });
        let too_many = request.continue_token().is_none() && request.number > MAX_REQUESTS;
        let answer = if too_many { Answer::never() } else { (self.answer.lock())(&request) };
        Ok(answer.respond().await)
    }

    async fn serve(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
        let service = hyper::service::service_fn(move |request| self.clone().respond(peer.clone(), request));
        // The client sees an error of the connection as well.
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

/// Returns a client whose requests are answered by a script without a socket, and the log of its requests.
pub fn in_process_client(script: impl FnMut(&Request) -> Answer + Send + 'static) -> (Client, Requests) {
    let script = Script::new(script);
    let requests = script.requests();
    let service = tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
        script.clone().respond(Peer::default(), request)
    });
    (Client::new(service, "default"), requests)
}

/// A server on loopback. Dropping it closes its connections.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    scheme: &'static str,
    requests: Requests,
    task: JoinHandle<()>,
}

impl ScriptedServer {
    /// Starts a server without TLS on 127.0.0.1.
    ///
    /// # Cancel safety
    /// The server starts after the only await, in which it binds its port. Dropping the future before that starts none.
    pub async fn http(script: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        Self::listen("127.0.0.1", None, script).await
    }

    /// Starts a server with TLS on 127.0.0.1.
    ///
    /// # Cancel safety
    /// The server starts after the only await, in which it binds its port. Dropping the future before that starts none.
    pub async fn https(tls: ServerConfig, script: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        Self::listen("127.0.0.1", Some(tls), script).await
    }

    /// Starts a server on a free port of a host.
    ///
    /// # Cancel safety
    /// The server starts after the only await, in which it binds its port. Dropping the future before that starts none.
    pub async fn listen(
        host: &str,
        tls: Option<ServerConfig>,
        script: impl FnMut(&Request) -> Answer + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Script::new(script);
        let (requests, scheme) = (script.requests(), if tls.is_some() { "https" } else { "http" });
        let acceptor = tls.map(|tls| TlsAcceptor::from(Arc::new(tls)));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            let mut connection = 0;
            while let Ok((stream, _)) = listener.accept().await {
                connection += 1;
                let (acceptor, script) = (acceptor.clone(), script.clone());
                connections.spawn(async move {
                    let Some(acceptor) = acceptor else {
                        return script.serve(stream, Peer { certificate: None, connection }).await;
                    };
                    // A client that does not trust the certificate closes the connection.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let certificate = certificate.map(|certificate| certificate.clone().into_owned());
                    script.serve(stream, Peer { certificate, connection }).await;
                });
            }
        });
        Self { address, scheme, requests, task }
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the configuration of a client, without credentials.
    pub fn config(&self) -> Config {
        Config::new(format!("{}://{}", self.scheme, self.address).parse().unwrap())
    }

    /// Returns the log of its requests.
    pub fn log(&self) -> &Requests {
        &self.requests
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.all()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
