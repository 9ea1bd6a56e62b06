//! Connections shared by requests.

use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, Either, select};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kinformer_core::BoxError;
use kube_client::Config;
use kube_client::client::Body;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::{Semaphore, SemaphorePermit};
use tower::Service;

use super::connecting::{CONNECT, Versions};
use super::dial::{Dialer, End, Proxy};
use super::outgoing::{Outgoing, Sent};
use super::repeat::{Unsent, repeat, repetitions};
use super::tls;
use crate::Error;

/// The maximum number of requests per connection. On a server that allows fewer concurrent streams, further requests
/// would wait, and watches do not end. Conservative servers and load balancers allow this number; kube-apiserver allows
/// 1000.
const MAX_STREAMS: usize = 100;
/// The time without received data after which a ping is sent, as in client-go.
const PING_AFTER: Duration = Duration::from_secs(30);
/// The time limit for the response to a ping, as in client-go.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the pool keeps a connection after its last request started. Longer than a watch lasts, since the pool does
/// not track open watches. Idle connections are pinged too, and kube-apiserver closes them much earlier.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// The number of unread bytes at which a watch stops receiving, as in Go.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
/// The number of unread bytes per connection. Large enough that a watch that is not read does not stop the others.
const CONNECTION_WINDOW: u32 = 1024 * 1024 * 1024;

type Connector = TimeoutConnector<HttpsConnector<Dialer>>;

fn connector(
    config: &Config,
    proxy: Option<&Proxy>,
    tls: ClientConfig,
    versions: Versions,
) -> Result<Connector, BoxError> {
    let dialer = Dialer::new(proxy, tls.clone());
    let mut tls = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = name.try_into().map_err(|error| Error::Config {
            field: "tls-server-name",
            problem: format!("is not the name of a server: {error}"),
        })?;
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = match versions {
        Versions::All => tls.enable_all_versions().wrap_connector(dialer),
        Versions::Http1 => tls.enable_http1().wrap_connector(dialer),
    };
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(connector)
}

/// Pools with at most [`MAX_STREAMS`] requests each. With HTTP/2 a pool is one connection.
#[derive(Clone)]
pub(super) struct Connections(Arc<Shared>);

struct Shared {
    connector: Connector,
    /// For requests that upgrade their connection, which HTTP/2 does not.
    upgrades: legacy::Client<Connector, Outgoing>,
    /// The maximum time that a request waits for another one to connect.
    max_wait: Duration,
    open: Mutex<Vec<Pool>>,
    proxy: Option<Proxy>,
    /// Credentials for a proxy that receives the requests.
    proxy_authorization: Option<HeaderValue>,
}

#[derive(Clone)]
struct Pool {
    client: legacy::Client<Connector, Outgoing>,
    gate: Arc<Gate>,
    /// Cloned by each request, until its response has been read or dropped.
    requests: Arc<()>,
}

impl Connections {
    pub(super) fn new(config: &Config, versions: Versions) -> Result<Self, BoxError> {
        let proxy = config.proxy_url.as_ref().map(Proxy::new).transpose()?;
        let authorization = proxy.as_ref().map(|proxy| proxy.authorization_of_requests(&config.cluster_url));
        let tls = tls::client_config(config)?;
        let connector = |versions| connector(config, proxy.as_ref(), tls.clone(), versions);
        let upgrades = connector(Versions::Http1)?;
        Ok(Self(Arc::new(Shared {
            connector: connector(versions)?,
            upgrades: legacy::Builder::new(TokioExecutor::new()).pool_max_idle_per_host(0).build(upgrades),
            max_wait: config.connect_timeout.unwrap_or(CONNECT),
            open: Mutex::default(),
            proxy_authorization: authorization.transpose()?.flatten(),
            proxy,
        })))
    }
}

impl Shared {
    /// Returns a pool with fewer than [`MAX_STREAMS`] requests. Creates a pool if all are full.
    fn pool(&self) -> Pool {
        let mut open = self.open.lock();
        let with_room = open.iter().find(|pool| Arc::strong_count(&pool.requests) <= MAX_STREAMS);
        if let Some(pool) = with_room {
            return pool.clone();
        }
        let client = legacy::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .build(self.connector.clone());
        let pool = Pool { client, gate: Arc::new(Gate::new(self.max_wait)), requests: Arc::new(()) };
        open.push(pool.clone());
        pool
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Counted>, BoxError> {
        if let Some(authorization) = &self.proxy_authorization {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        let (mut request, sent) = Outgoing::new(request);
        let connection = capture_connection(&mut request);
        let captured = connection.clone();
        let answer = async {
            if request.headers().contains_key(header::UPGRADE) {
                (self.upgrades.request(request).await, Arc::default())
            } else {
                let Pool { client, gate, requests } = self.pool();
                (gate.request(&client, request, captured).await, requests)
            }
        };
        let Some((answer, requests)) = unless_lost(answer, connection, &sent, self.max_wait).await else {
            return Err(Unsent { source: None }.into());
        };
        match (answer, &self.proxy) {
            (Ok(answer), _) => Ok(answer.map(|body| Counted { body, _requests: requests })),
            (Err(error), Some(proxy)) if error.is_connect() => {
                Err(Error::Proxy { proxy: proxy.name(), source: error.into() }.into())
            }
            (Err(source), _) if is_dropped(&source) && sent.is_unsent() => {
                Err(Unsent { source: Some(source) }.into())
            }
            (Err(error), _) => Err(error.into()),
        }
    }
}

impl Service<Request<Body>> for Connections {
    type Response = Response<Counted>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move { repeat(request, |request| shared.send(request), repetitions).await })
    }
}

/// Returns the answer to a request; `None` if hyper lost the request.
///
/// hyper loses a request that it passes to a connection in the moment in which the connection stops to accept requests:
/// the request stays in the connection's queue without an answer (hyper 1.12, issue 4122 of hyperium/hyper).
async fn unless_lost<T>(
    answer: impl Future<Output = T>,
    connection: CaptureConnection,
    sent: &Sent,
    max_wait: Duration,
) -> Option<T> {
    match select(pin!(answer), pin!(lost(connection, sent, max_wait))).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(((), _)) => None,
    }
}

/// Completes if the connection of a request has ended without taking the request. Then the server did not receive it.
async fn lost(mut connection: CaptureConnection, sent: &Sent, max_wait: Duration) {
    loop {
        let end = connection.wait_for_connection_metadata().await.as_ref().and_then(End::of);
        let Some(mut end) = end else { return pending().await };
        end.reached().await;
        // hyper reports the end of the connection, or connects again.
        tokio::time::sleep(max_wait.min(CONNECT)).await;
        if sent.is_taken() {
            // Its stream reports the end.
            return pending().await;
        }
        let current = connection.connection_metadata().as_ref().and_then(End::of);
        if current.is_some_and(|current| current.is_of_same_connection(&end)) {
            return;
        }
    }
}

/// Whether hyper dropped a request. It drops those that wait for a stream when their connection ends, without a hint that
/// they were not sent.
fn is_dropped(error: &legacy::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    source.is_some_and(hyper::Error::is_user)
}

/// The queue in which the requests of a pool wait for a connection.
///
/// hyper's pool connects once for each request that finds no connection, and keeps one or two of these connections. So
/// only one request at a time requests a connection: with HTTP/2, the next one finds the connection of the first.
struct Gate {
    /// Held by the request that may connect. With an open connection, a turn takes a single poll.
    turn: Semaphore,
    /// The maximum wait for a turn, in case the request that holds it is not polled or its peer does not respond.
    max_wait: Duration,
    /// Whether the last connection was HTTP/1.1. Then each request needs its own connection and does not wait for a
    /// turn.
    http1: AtomicBool,
}

impl Gate {
    fn new(max_wait: Duration) -> Self {
        Self { turn: Semaphore::new(1), max_wait, http1: AtomicBool::new(false) }
    }

    /// Sends a request when it is its turn.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request and passes the turn to the next one.
    async fn request(
        &self,
        client: &legacy::Client<Connector, Outgoing>,
        request: Request<Outgoing>,
        connection: CaptureConnection,
    ) -> Result<Response<Incoming>, legacy::Error> {
        let turn = self.turn(request.uri()).await;
        let mut connecting = connection.clone();
        let connected = pin!(async move { drop(connecting.wait_for_connection_metadata().await) });
        // The pool reports a connection after other requests can find it.
        let first = select(client.request(request), connected).await;
        if let Some(connected) = connection.connection_metadata().as_ref() {
            self.http1.store(!connected.is_negotiated_h2(), Ordering::Relaxed);
        }
        drop(turn);
        match first {
            Either::Left((answer, _)) => answer,
            Either::Right(((), answer)) => answer.await,
        }
    }

    async fn turn(&self, to: &Uri) -> Option<SemaphorePermit<'_>> {
        if self.is_open(to) {
            return None;
        }
        let turn = tokio::time::timeout(self.max_wait, self.turn.acquire()).await.ok()?.ok();
        // If the first connection turned out to be HTTP/1.1, all waiting requests connect at once.
        turn.filter(|_| !self.is_open(to))
    }

    fn is_open(&self, to: &Uri) -> bool {
        to.scheme() != Some(&Scheme::HTTPS) || self.http1.load(Ordering::Relaxed)
    }
}

/// A response body that counts as a request of its pool until it is dropped.
pub(super) struct Counted {
    body: Incoming,
    _requests: Arc<()>,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use hyper::rt::Executor;
    use tokio::net::TcpListener;
    use tokio::task::yield_now;
    use tokio::time::{pause, timeout};

    use super::*;

    /// Keeps the tasks of connections, which the test polls and drops.
    #[derive(Clone, Default)]
    struct Tasks(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

    impl Executor<BoxFuture<'static, ()>> for Tasks {
        fn execute(&self, task: BoxFuture<'static, ()>) {
            self.0.lock().push(task);
        }
    }

    /// A connection ends, and hyper does not report it to a write: one that is in the queue is lost, one that was taken is
    /// not, since the server may have received it.
    // contract: L-39e
    #[tokio::test]
    async fn write_in_queue_of_ended_connection_is_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = Config::new(url.parse().unwrap());
        for is_taken in [false, true] {
            let tls = tls::client_config(&config).unwrap();
            let connector = connector(&config, None, tls, Versions::All).unwrap();
            let tasks = Tasks::default();
            let client = legacy::Builder::new(tasks.clone()).http2_only(true).build(connector);
            let request = Request::post(&url).body(Body::empty()).unwrap();
            let (mut request, sent) = Outgoing::new(request);
            let connection = capture_connection(&mut request);
            let mut answer = tokio::spawn(async move {
                unless_lost(client.request(request), connection, &sent, CONNECT).await.is_none()
            });
            while tasks.0.lock().len() < 2 {
                yield_now().await;
            }
            let [connection, mut queue] = std::mem::take(&mut *tasks.0.lock()).try_into().ok().unwrap();
            if is_taken {
                assert!(poll!(&mut queue).is_pending());
            }
            pause();
            assert!(timeout(2 * CONNECT, &mut answer).await.is_err(), "the connection is open");
            drop(connection);
            let lost = timeout(2 * CONNECT, &mut answer).await;
            assert_eq!(lost.is_ok_and(Result::unwrap), !is_taken);
            tokio::time::resume();
        }
    }
}
