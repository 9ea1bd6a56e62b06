//! Connections to a server, directly or through a proxy.

use std::future::ready;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::uri::{Authority, Scheme};
use http::{Extensions, HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use kinformer_core::BoxError;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::{Service, ServiceExt, service_fn};

use super::normalize::user;

/// A proxy between the client and a server. Follows Go 1.26 (`net/http`, `Transport.dialConn`).
#[derive(Clone)]
pub(super) struct Proxy {
    /// With its port.
    url: Uri,
    user: Option<(String, String)>,
}

impl Proxy {
    pub(super) fn new(url: &Uri) -> Result<Self, BoxError> {
        let default = match url.scheme_str() {
            Some("socks5" | "socks5h") => 1080,
            scheme => default_port(scheme),
        };
        let user = user(url);
        Ok(Self { url: with_port(url, default)?, user })
    }

    /// The URL without the user.
    pub(super) fn name(&self) -> String {
        self.url.to_string().trim_end_matches('/').to_owned()
    }

    fn is_socks(&self) -> bool {
        self.url.scheme_str().is_some_and(|scheme| scheme.starts_with("socks"))
    }

    /// The credentials of the user, for an HTTP proxy.
    fn authorization(&self) -> Result<Option<HeaderValue>, BoxError> {
        let Some((name, password)) = &self.user else { return Ok(None) };
        let mut value =
            HeaderValue::try_from(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// The credentials in each request to a server. A proxy is asked for a tunnel to a server with TLS, and receives its
    /// other requests.
    pub(super) fn authorization_of_requests(&self, server: &Uri) -> Result<Option<HeaderValue>, BoxError> {
        let forwards = server.scheme() != Some(&Scheme::HTTPS) && !self.is_socks();
        if forwards { self.authorization() } else { Ok(None) }
    }
}

/// Opens the connections to servers; the TLS of the server is above it.
#[derive(Clone)]
pub(super) enum Dialer {
    Direct(HttpConnector),
    /// Asks for a tunnel to a server with TLS, and sends other requests to the proxy.
    Http {
        connector: HttpsConnector<HttpConnector>,
        proxy: Proxy,
    },
    Socks {
        tcp: HttpConnector,
        proxy: Proxy,
    },
}

impl Dialer {
    /// `tls` is for a proxy with TLS. As in Go, it is that of the server, but the proxy has its own name.
    pub(super) fn new(proxy: Option<&Proxy>, tls: ClientConfig) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        match proxy.cloned() {
            None => Self::Direct(tcp),
            Some(proxy) if proxy.is_socks() => Self::Socks { tcp, proxy },
            Some(proxy) => {
                let tls = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
                Self::Http { connector: tls.enable_http1().wrap_connector(tcp), proxy }
            }
        }
    }

    async fn dial(self, server: Uri) -> Result<Dialed, BoxError> {
        // The proxy connectors expect a port.
        let server = with_port(&server, default_port(server.scheme_str()))?;
        let forwards = matches!(self, Self::Http { .. }) && server.scheme() != Some(&Scheme::HTTPS);
        let stream = match self {
            Self::Direct(tcp) => MaybeHttpsStream::Http(tcp.oneshot(server).await?),
            Self::Http { connector, proxy } if forwards => connector.oneshot(proxy.url).await?,
            Self::Http { connector, proxy } => {
                let mut tunnel = Tunnel::new(proxy.url.clone(), connector);
                if let Some(authorization) = proxy.authorization()? {
                    tunnel = tunnel.with_auth(authorization);
                }
                tunnel.oneshot(server).await?
            }
            Self::Socks { tcp, proxy } => {
                // Connected here, because the errors of `SocksV5` have no causes.
                let mut tcp = Some(tcp.oneshot(proxy.url.clone()).await?);
                let connected =
                    move |_| ready(tcp.take().ok_or_else(|| io::Error::from(io::ErrorKind::Other)));
                let mut socks = SocksV5::new(proxy.url, service_fn(connected));
                if let Some((name, password)) = proxy.user {
                    socks = socks.with_auth(name, password);
                }
                MaybeHttpsStream::Http(socks.oneshot(server).await?)
            }
        };
        Ok(Dialed { stream, forwards, end: watch::Sender::default() })
    }
}

impl Service<Uri> for Dialer {
    type Response = Dialed;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Dialed, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        self.clone().dial(server).boxed()
    }
}

fn default_port(scheme: Option<&str>) -> u16 {
    if scheme == Some("https") { 443 } else { 80 }
}

/// Returns a URL with a port and without a user.
fn with_port(url: &Uri, default: u16) -> Result<Uri, BoxError> {
    let mut parts = url.clone().into_parts();
    let host = url.host().unwrap_or_default();
    parts.authority = Some(Authority::try_from(format!("{host}:{}", url.port_u16().unwrap_or(default)))?);
    Ok(Uri::from_parts(parts)?)
}

/// A connection without the TLS of the server.
pub(super) struct Dialed {
    stream: MaybeHttpsStream<TokioIo<TcpStream>>,
    /// Whether it ends at a proxy, which expects absolute URLs.
    forwards: bool,
    /// Dropped with the connection.
    end: watch::Sender<()>,
}

impl Connection for Dialed {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.forwards).extra(End(self.end.subscribe()))
    }
}

/// The end of a connection, for its requests.
#[derive(Clone)]
pub(super) struct End(watch::Receiver<()>);

impl End {
    pub(super) fn of(connection: &Connected) -> Option<Self> {
        let mut extras = Extensions::new();
        connection.get_extras(&mut extras);
        extras.remove()
    }

    pub(super) fn is_of_same_connection(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }

    pub(super) async fn reached(&mut self) {
        // Nothing is ever sent on the channel, so this waits for its end.
        drop(self.0.changed().await);
    }
}

impl Read for Dialed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Dialed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}
