//! The server and its handle.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kinformer::{CancellationToken, Informer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::listen::{self, Listening};
use crate::tls::Tls;
use crate::{Error, router};

/// How long a callback of a handler may take during shutdown. They never block, so this is never reached.
const GRACE: Duration = Duration::from_secs(2);

/// A socket that listens.
pub(crate) struct Socket {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Socket {
    /// # Errors
    /// [`Error::Listen`].
    pub(crate) fn of(listener: TcpListener, requested: SocketAddr) -> Result<Self, Error> {
        let address = listener.local_addr();
        let address = address.map_err(|source| Error::Listen { address: requested, source })?;
        Ok(Self { listener, address })
    }
}

/// A server that listens: see the [crate](crate).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kinformer::CancellationToken;
/// use kinformer_serve::Server;
/// use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
///
/// let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).bind().await?;
/// let (address, cancel) = (server.local_addr(), CancellationToken::new());
/// let client = async {
///     let mut stream = tokio::net::TcpStream::connect(address).await?;
///     stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
///     let mut response = String::new();
///     stream.read_to_string(&mut response).await?;
///     cancel.cancel();
///     Ok::<_, std::io::Error>(response)
/// };
/// let ((), response) = tokio::join!(server.run(cancel.clone()), client);
/// assert!(response?.starts_with("HTTP/1.1 200 OK"));
/// # Ok(())
/// # }
/// ```
pub struct Server {
    app: Arc<App>,
    main: Socket,
    probes: Option<Socket>,
    tls: Option<Tls>,
}

impl Server {
    pub(crate) fn new(app: Arc<App>, main: Socket, probes: Option<Socket>, tls: Option<Tls>) -> Self {
        Self { app, main, probes, tls }
    }

    fn addresses(&self) -> Addresses {
        let probes = self.probes.as_ref().map(|probes| probes.address);
        Addresses {
            main: self.main.address,
            probes,
            scheme: if self.tls.is_some() { "https" } else { "http" },
        }
    }

    /// The address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.main.address
    }

    /// The address of the [probes](crate::ServerBuilder::probes_on), if there is one of their own.
    pub fn probes_addr(&self) -> Option<SocketAddr> {
        self.addresses().probes
    }

    /// The address of the page, such as `http://127.0.0.1:4000/`; with [TLS](crate::ServerBuilder::tls) it is `https`.
    pub fn url(&self) -> String {
        self.addresses().url()
    }

    /// Adds an informer: see [`ServerBuilder::informer`](crate::ServerBuilder::informer). Adding one again has no effect.
    ///
    /// # Errors
    /// [`Error::DuplicateInformer`]; [`Error::Informer`] if the informer has stopped.
    pub fn add<K>(&self, informer: &Informer<K>) -> Result<(), Error> {
        self.app.add(informer.dynamic())
    }

    /// Serves until `cancel` is cancelled, then ends all streams and connections, and removes its handlers.
    ///
    /// # Cancel safety
    /// If the future is dropped, all connections are closed at once. The handlers stay with their informers, and do
    /// nothing.
    pub async fn run(self, cancel: CancellationToken) {
        let Self { app, main, probes, tls } = self;
        let shutdown = app.shutdown.clone();
        let _guard = shutdown.clone().drop_guard();
        let probes = probes.map(|Socket { listener, .. }| Listening {
            router: router::probes(app.clone()),
            listener,
            tls: None,
        });
        let router = router::router(app.clone());
        let main = Listening { router, listener: main.listener, tls: tls.map(Arc::new) };
        let mut serving = std::pin::pin!(listen::serve(app.clone(), main, probes));
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                shutdown.cancel();
                serving.await;
            }
            () = serving.as_mut() => {}
        }
        for watched in app.informers() {
            if tokio::time::timeout(GRACE, watched.leave()).await.is_err() {
                tracing::warn!(informer = watched.name(), "the handler of the server did not return");
            }
        }
    }

    /// Runs the server in a task of its own, until the [shutdown](ServerHandle::shutdown) of the handle.
    pub fn spawn(self) -> ServerHandle {
        let (app, addresses, cancel) = (self.app.clone(), self.addresses(), CancellationToken::new());
        let task = tokio::spawn(self.run(cancel.clone()));
        ServerHandle { app, addresses, cancel, task }
    }
}

/// The addresses of a server.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    main: SocketAddr,
    probes: Option<SocketAddr>,
    scheme: &'static str,
}

impl Addresses {
    fn url(self) -> String {
        // A browser cannot open the unspecified address.
        let host = match self.main.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        format!("{}://{}/", self.scheme, SocketAddr::new(host, self.main.port()))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

/// The handle of a [running](Server::spawn) server. Dropping it ends the server.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct ServerHandle {
    app: Arc<App>,
    addresses: Addresses,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl ServerHandle {
    /// The address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addresses.main
    }

    /// The address of the [probes](crate::ServerBuilder::probes_on), if there is one of their own.
    pub fn probes_addr(&self) -> Option<SocketAddr> {
        self.addresses.probes
    }

    /// The address of the page, such as `http://127.0.0.1:4000/`; with [TLS](crate::ServerBuilder::tls) it is `https`.
    pub fn url(&self) -> String {
        self.addresses.url()
    }

    /// Adds an informer: see [`Server::add`].
    ///
    /// # Errors
    /// As [`Server::add`].
    pub fn add<K>(&self, informer: &Informer<K>) -> Result<(), Error> {
        self.app.add(informer.dynamic())
    }

    /// Ends the server, and waits until all its connections are closed and its handlers are removed.
    ///
    /// # Cancel safety
    /// The first poll ends the server. Dropping the future then only ends the wait.
    pub async fn shutdown(mut self) {
        self.cancel.cancel();
        if let Err(error) = (&mut self.task).await
            && error.is_panic()
        {
            tracing::error!(%error, "the server panicked");
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
