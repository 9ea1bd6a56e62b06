//! The listening socket and its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_util::io::InspectWriter;
use tokio_util::task::TaskTracker;

use crate::faults::ListenerState;
use crate::metrics::Open;

use super::context::Context;
use super::handle;
use super::web_pages::LocalEnd;

/// How long a connection may take to finish its response during shutdown.
const GRACE: Duration = Duration::from_millis(500);
/// The timeout of a TLS handshake.
#[cfg(feature = "tls")]
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How many connections wait to be accepted, as of tokio's listeners.
const BACKLOG: u32 = 1_024;
/// How long a connection may be idle between requests, or take to send a request head. Longer than the idle timeout
/// of clients, so that clients close idle connections first.
const IDLE: Duration = Duration::from_secs(300);

#[cfg(feature = "tls")]
pub(crate) type TlsAcceptor = tokio_rustls::TlsAcceptor;
/// Uninhabited without the feature.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(crate) enum TlsAcceptor {}

/// The parameters of the accept loop.
pub(crate) struct Listening {
    pub(crate) context: Arc<Context>,
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) tasks: TaskTracker,
}

/// Spawns the background tasks of HTTP/2 connections, so that shutdown waits for them too.
#[derive(Clone)]
struct Tracked(TaskTracker);

impl<F> hyper::rt::Executor<F> for Tracked
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// Accepts connections until shutdown. Closes and reopens the socket as faults demand.
pub(crate) async fn serve(listening: Listening) {
    let Listening { context, listener, address, tls, tasks } = listening;
    let mut listener_state = context.faults.listener().requested();
    let (mut listener, mut reserved) = (Some(listener), None);
    loop {
        let wanted = *listener_state.borrow_and_update();
        match wanted {
            ListenerState::Closed if listener.take().is_some() => reserved = reserve(address).ok(),
            ListenerState::Open if listener.is_none() => {
                let socket = reserved.take().map_or_else(|| reserve(address), Ok);
                match socket.and_then(listen) {
                    Ok(opened) => listener = Some(opened),
                    Err(error) => {
                        tracing::error!(%address, %error, "cannot reopen the listening socket yet");
                        tokio::select! {
                            () = context.shutdown.cancelled() => return,
                            () = tokio::time::sleep(ACCEPT_PAUSE) => continue,
                        }
                    }
                }
            }
            _ => {}
        }
        context.faults.listener().set_actual(wanted);
        tokio::select! {
            () = context.shutdown.cancelled() => return,
            changed = listener_state.changed() => if changed.is_err() { return },
            accepted = accept(listener.as_ref()) => match accepted {
                Ok(stream) => {
                    let (context, tls, spawn) = (context.clone(), tls.clone(), Tracked(tasks.clone()));
                    tasks.spawn(async move { connection(context, stream, tls, spawn).await });
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
}

/// Binds a socket that does not listen: connections are refused, and no other socket gets the address.
fn reserve(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    share(&socket, true)?;
    socket.bind(address)?;
    share(&socket, false)?;
    Ok(socket)
}

fn listen(socket: TcpSocket) -> std::io::Result<TcpListener> {
    share(&socket, true)?;
    socket.listen(BACKLOG)
}

/// Whether the address may be that of other sockets: of the connections of the earlier listener, which may still be open.
fn share(socket: &TcpSocket, is_shared: bool) -> std::io::Result<()> {
    // On Windows such a socket would share the address with any other one.
    if cfg!(windows) { Ok(()) } else { socket.set_reuseaddr(is_shared) }
}

async fn accept(listener: Option<&TcpListener>) -> std::io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

async fn connection(context: Arc<Context>, stream: TcpStream, tls: Option<TlsAcceptor>, spawn: Tracked) {
    let _open = Open::count(&context.counters, |counters| &counters.open_connections);
    // An event must not wait for the acknowledgement of the previous one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let local_end = LocalEnd { address: stream.local_addr().ok(), tls: tls.is_some() };
    #[cfg(feature = "tls")]
    if let Some(acceptor) = tls {
        let handshake = timeout(PATIENCE, acceptor.accept(stream));
        tokio::select! {
            () = context.shutdown.cancelled() => {}
            accepted = handshake => if let Ok(Ok(stream)) = accepted {
                handle_connection(&context, stream, spawn, local_end).await;
            },
        }
        return;
    }
    #[cfg(not(feature = "tls"))]
    if let Some(never) = tls {
        match never {}
    }
    handle_connection(&context, stream, spawn, local_end).await;
}

/// How many bytes of a connection within the process are in flight in each direction.
#[cfg(feature = "test-cluster")]
const IN_FLIGHT: usize = 64 * 1024;

/// Opens a connection within the process: without a socket, so that a paused clock does not advance while its bytes are in
/// flight. Returns the client's end.
///
/// # Errors
/// Connection refused, after the shutdown and while a fault refuses connections.
#[cfg(feature = "test-cluster")]
pub(crate) fn connect(
    context: &Arc<Context>,
    tasks: &TaskTracker,
) -> std::io::Result<tokio::io::DuplexStream> {
    let listens = *context.faults.listener().requested().borrow() == ListenerState::Open;
    if !listens || context.shutdown.is_cancelled() {
        return Err(std::io::ErrorKind::ConnectionRefused.into());
    }
    let (client, server) = tokio::io::duplex(IN_FLIGHT);
    let (context, spawn) = (context.clone(), Tracked(tasks.clone()));
    tasks.spawn(async move {
        let _open = Open::count(&context.counters, |counters| &counters.open_connections);
        handle_connection(&context, server, spawn, LocalEnd { address: None, tls: false }).await;
    });
    Ok(client)
}

async fn handle_connection(
    context: &Arc<Context>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    spawn: Tracked,
    local_end: LocalEnd,
) {
    let dropped = context.connection_token();
    let service = service_fn(|request| handle(context.clone(), request, local_end));
    let mut builder = Builder::new(spawn);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let counters = context.counters.clone();
    let stream = InspectWriter::new(stream, move |written| {
        counters.bytes_sent.fetch_add(written.len() as u64, Ordering::AcqRel);
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        finished = connection.as_mut() => {
            if let Err(error) = finished {
                tracing::debug!(%error, "connection error");
            }
            return;
        }
        () = dropped.cancelled() => return,
        () = context.shutdown.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    // A client that does not read its response loses it: the connection is dropped with this future.
    let _ = timeout(GRACE, connection).await;
}
