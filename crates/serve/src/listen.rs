//! The listening socket and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tower::ServiceExt;

use crate::app::App;
use crate::connections::{Connections, Holding, Place};
use crate::guard::LocalAddress;
use crate::publish;
use crate::tls::Tls;
use crate::write_timeout::WriteTimeout;

/// How long a connection may take to finish its response during shutdown.
const GRACE: Duration = Duration::from_millis(500);
/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection may be idle between requests, or take to send a request head.
const IDLE: Duration = Duration::from_secs(60);
/// The most bytes of a request head.
const HEAD_BYTES: usize = 64 * 1024;
/// The most headers of a request.
const HEADERS: usize = 100;
/// The bytes that the system buffers for a connection. With more, it would take long until it shows that a client does not
/// read.
const SEND_BUFFER: u32 = 64 * 1024;
/// The connections that wait to be accepted, as in tokio.
const BACKLOG: u32 = 1024;
/// How often views are checked for expiry.
const EXPIRY: Duration = Duration::from_secs(10);

/// Listens on an address.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // On Windows, the option would share the port with other programs.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A listener, and what answers its requests.
pub(crate) struct Listening {
    pub(crate) router: Router,
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<Arc<Tls>>,
}

/// Accepts connections until shutdown, then ends all of them.
pub(crate) async fn serve(app: Arc<App>, main: Listening, probes: Option<Listening>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(publish::run(app.clone()));
    tasks.spawn(expire(app.clone()));
    if let Some(tls) = main.tls.clone() {
        let shutdown = app.shutdown.clone();
        tasks.spawn(async move { shutdown.run_until_cancelled(tls.watch()).await.unwrap_or_default() });
    }
    if let Some(probes) = probes {
        tasks.spawn(accept(app.clone(), probes));
    }
    accept(app, main).await;
    while tasks.join_next().await.is_some() {}
}

async fn expire(app: Arc<App>) {
    let mut expiry = tokio::time::interval(EXPIRY);
    expiry.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while app.shutdown.run_until_cancelled(expiry.tick()).await.is_some() {
        app.views.expire();
    }
}

/// The connections of a listener, which has places of its own.
async fn accept(app: Arc<App>, Listening { router, listener, tls }: Listening) {
    let mut connections = JoinSet::new();
    let places = Connections::new(app.settings.limits.places(), app.shutdown.clone());
    loop {
        tokio::select! {
            biased;
            () = app.shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let place = tokio::select! {
                        biased;
                        () = app.shutdown.cancelled() => break,
                        place = places.place() => place,
                    };
                    let (app, router, tls) = (app.clone(), router.clone(), tls.clone());
                    connections.spawn(async move { connection(&app, router, stream, tls, place).await });
                }
                Err(error) => {
                    // The process is out of file descriptors, or the client is already gone. The former persists, and
                    // accepting again without a pause would only use up CPU.
                    tracing::debug!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    // Each connection ends within its grace.
    while connections.join_next().await.is_some() {}
}

async fn connection(app: &App, router: Router, stream: TcpStream, tls: Option<Arc<Tls>>, place: Arc<Place>) {
    // An event must not wait for the acknowledgement of the previous one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let local = LocalAddress(stream.local_addr().ok());
    let stream = WriteTimeout::new(stream, app.settings.limits.write_timeout);
    let Some(tls) = tls else { return requests(app, router, stream, local, place).await };
    // A connection is idle during its handshake, so that one which sends nothing is closed for another.
    match place.closed.run_until_cancelled(tls.accept(stream)).await {
        Some(Ok(stream)) => requests(app, router, stream, local, place).await,
        Some(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        None => {}
    }
}

/// Answers the requests of a connection.
async fn requests<S: AsyncRead + AsyncWrite + Unpin>(
    app: &App,
    router: Router,
    stream: S,
    local: LocalAddress,
    place: Arc<Place>,
) {
    let closed = place.closed.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(local);
        let (answering, response) = (place.answering(), router.clone().oneshot(request.map(Body::new)));
        async move { Ok::<_, Infallible>(response.await?.map(|body| Holding::body(body, answering))) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(HEAD_BYTES).max_headers(HEADERS);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        finished = connection.as_mut() => {
            if let Err(error) = finished {
                tracing::debug!(%error, "connection error");
            }
            return;
        }
        () = closed.cancelled() => {}
    }
    if !app.shutdown.is_cancelled() {
        return;
    }
    connection.as_mut().graceful_shutdown();
    // A client that does not read its response loses it: the connection is dropped with this future.
    let _ = tokio::time::timeout(GRACE, connection).await;
}
