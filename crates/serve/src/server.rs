//! The builder, the server and its handle.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kinformer::kube_core::DynamicObject;
use kinformer::{CancellationToken, Informer};
use kube_client::Client;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::app::{App, Settings};
use crate::guard::{Guard, Token};
use crate::hidden::HiddenFields;
use crate::{Error, FailureLog, Limits, listen, router};

/// The default port.
const PORT: u16 = 4000;
/// How long a callback of a handler may take during shutdown. They never block, so this is never reached.
const GRACE: Duration = Duration::from_secs(2);

/// Builds a [`Server`].
#[must_use = "nothing listens yet"]
pub struct ServerBuilder {
    informers: Vec<Informer<DynamicObject>>,
    address: SocketAddr,
    any_port: bool,
    token: Option<Token>,
    hosts: Vec<String>,
    hidden: Vec<String>,
    show_secrets: bool,
    cluster: String,
    limits: Limits,
    clients: HashMap<String, Client>,
    index_fields: HashMap<String, Vec<String>>,
    failures: HashMap<String, FailureLog>,
}

impl ServerBuilder {
    fn new() -> Self {
        Self {
            informers: Vec::new(),
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT),
            any_port: false,
            token: None,
            hosts: Vec::new(),
            hidden: Vec::new(),
            show_secrets: false,
            cluster: String::new(),
            limits: Limits::default(),
            clients: HashMap::new(),
            index_fields: HashMap::new(),
            failures: HashMap::new(),
        }
    }

    /// Adds an informer, before or after its start. It gets a handler with the name `serve`, until the server ends. More
    /// can be added later: [`Server::add`].
    pub fn informer<K>(mut self, informer: &Informer<K>) -> Self {
        self.informers.push(informer.dynamic());
        self
    }

    /// Sets the address to listen on; the default is `127.0.0.1:4000`. Port 0 picks a free port. An address that other
    /// machines can reach needs a [token](Self::token).
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Picks a free port if another program listens on the one of the [address](Self::listen).
    pub fn or_any_port(mut self) -> Self {
        self.any_port = true;
        self
    }

    /// Requires this bearer token of all requests but those for the page's files and for the health.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Token::new(token.into()));
        self
    }

    /// Also accepts requests for this host name, as behind a proxy. By default only `localhost`, loopback addresses and the
    /// addresses of the server are accepted, so that a web page cannot reach the server through a name of its own.
    pub fn allowed_host(mut self, name: impl AsRef<str>) -> Self {
        self.hosts.push(name.as_ref().trim_end_matches('.').to_ascii_lowercase());
        self
    }

    /// Leaves a field out of everything: objects, differences, summaries. The path has dots between names and goes through
    /// lists: `spec.containers.env`. If any field is hidden, so is the copy of the object that `kubectl apply` keeps in an
    /// annotation, and so are indexes whose fields are not [known](Self::index_fields).
    pub fn hide_field(mut self, path: impl Into<String>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// Shows objects of kind `Secret`, which are hidden by default.
    pub fn show_secrets(mut self) -> Self {
        self.show_secrets = true;
        self
    }

    /// Names the fields that an index reads, for servers that hide fields.
    pub fn index_fields<F: Into<String>>(
        mut self,
        index: impl Into<String>,
        fields: impl IntoIterator<Item = F>,
    ) -> Self {
        self.index_fields.insert(index.into(), fields.into_iter().map(Into::into).collect());
        self
    }

    /// Names the cluster, for the page.
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Sets the client that asks the API server for single objects when a user wants to know. Without it the server never
    /// sends a request. It is for informers without a cluster name; see [`Self::client_of`] for others.
    pub fn client(self, client: Client) -> Self {
        self.client_of("", client)
    }

    /// Sets the client for informers of a cluster: see
    /// [`cluster`](kinformer::SharedInformerFactoryBuilder::cluster).
    pub fn client_of(mut self, cluster: impl Into<String>, client: Client) -> Self {
        self.clients.insert(cluster.into(), client);
        self
    }

    /// Sets the log of objects that could not be stored. It is for informers without a cluster name; see
    /// [`Self::failures_of`] for others.
    pub fn failures(self, failures: FailureLog) -> Self {
        self.failures_of("", failures)
    }

    /// Sets the log of a cluster, whose informers have the same names as those of other clusters.
    pub fn failures_of(mut self, cluster: impl Into<String>, failures: FailureLog) -> Self {
        self.failures.insert(cluster.into(), failures);
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Listens on the address. Connections are accepted, and answered once the server [runs](Server::run).
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::TokenRequired`], [`Error::InvalidToken`], [`Error::NotHideable`],
    /// [`Error::InvalidField`], [`Error::InvalidHost`], [`Error::DuplicateInformer`]; [`Error::Informer`] if an informer
    /// has stopped.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing listens, and no handler is left.
    pub async fn bind(self) -> Result<Server, Error> {
        if let Some(token) = &self.token
            && !token.is_usable()
        {
            return Err(Error::InvalidToken);
        }
        if self.token.is_none() && !self.address.ip().to_canonical().is_loopback() {
            return Err(Error::TokenRequired { address: self.address });
        }
        let hidden = HiddenFields::new(self.hidden)?;
        if let Some(host) = self.hosts.iter().find(|host| !is_host(host)) {
            return Err(Error::InvalidHost { host: host.clone() });
        }
        let listener = listen_on(self.address, self.any_port)?;
        let address = listener.local_addr();
        let address = address.map_err(|source| Error::Listen { address: self.address, source })?;
        let app = Arc::new(App::new(Settings {
            guard: Guard { token: self.token, hosts: self.hosts, address: address.ip() },
            hidden,
            show_secrets: self.show_secrets,
            cluster: self.cluster,
            limits: self.limits,
            clients: self.clients,
            index_fields: self.index_fields,
            failures: self.failures,
        }));
        for informer in self.informers {
            app.add(informer)?;
        }
        Ok(Server { router: router::router(app.clone()), app, listener, address })
    }
}

/// Whether a name can be the host of a request, without a port.
fn is_host(name: &str) -> bool {
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_name || name.parse::<IpAddr>().is_ok()
}

fn listen_on(address: SocketAddr, any_port: bool) -> Result<TcpListener, Error> {
    match listen::bind(address) {
        Ok(listener) => Ok(listener),
        Err(error) if any_port && error.kind() == std::io::ErrorKind::AddrInUse => {
            let any = SocketAddr::new(address.ip(), 0);
            listen::bind(any).map_err(|source| Error::Listen { address: any, source })
        }
        Err(source) => Err(Error::Listen { address, source }),
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("informers", &self.informers.len())
            .field("address", &self.address)
            .field("token", &self.token)
            .field("hidden", &self.hidden)
            .finish_non_exhaustive()
    }
}

/// A server that listens: see the [crate](crate).
pub struct Server {
    app: Arc<App>,
    router: Router,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Returns a builder.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    /// The address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address of the page, such as `http://127.0.0.1:4000/`.
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// Adds an informer: see [`ServerBuilder::informer`]. Adding one again has no effect.
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
        let Self { app, router, listener, .. } = self;
        let shutdown = app.shutdown.clone();
        let _guard = shutdown.clone().drop_guard();
        let mut serving = std::pin::pin!(listen::serve(app.clone(), router, listener));
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
        let (app, address, cancel) = (self.app.clone(), self.address, CancellationToken::new());
        let task = tokio::spawn(self.run(cancel.clone()));
        ServerHandle { app, address, cancel, task }
    }
}

fn url(address: SocketAddr) -> String {
    // A browser cannot open the unspecified address.
    let host = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("http://{}/", SocketAddr::new(host, address.port()))
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The handle of a [running](Server::spawn) server. Dropping it ends the server.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct ServerHandle {
    app: Arc<App>,
    address: SocketAddr,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl ServerHandle {
    /// The address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address of the page, such as `http://127.0.0.1:4000/`.
    pub fn url(&self) -> String {
        url(self.address)
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
