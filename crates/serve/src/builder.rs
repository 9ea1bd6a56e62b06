//! The builder of a server.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use kinformer::Informer;
use kinformer::kube_core::DynamicObject;
use kube_client::Client;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::access::Access;
use crate::app::{App, Settings, Surface};
use crate::checks::{Check, Checks};
use crate::controllers::Controllers;
use crate::guard::{Guard, Token};
use crate::hidden::HiddenFields;
use crate::metrics::{CertificateReads, Metrics};
use crate::server::{Server, Socket};
use crate::tls::Tls;
use crate::{Error, FailureLog, Limits, listen};

/// The default port.
const PORT: u16 = 4000;
/// Builds a [`Server`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kinformer_serve::{Error, Server};
///
/// // Reachable from other machines, so it needs a token; the kubelet's probes have an address of their own.
/// let server = Server::builder().listen(([0, 0, 0, 0], 0).into()).probes_on(([0, 0, 0, 0], 0).into());
/// assert!(matches!(server.bind().await, Err(Error::TokenRequired { .. })));
/// let server = Server::builder().listen(([0, 0, 0, 0], 0).into()).token("0123456789abcdef");
/// let server = server.bind().await?;
/// assert_ne!(server.local_addr().port(), 0);
/// # Ok(())
/// # }
/// ```
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
    checks: Checks,
    registries: Vec<Arc<Registry>>,
    probes: Option<SocketAddr>,
    surface: Surface,
    controllers: Option<Arc<dyn Controllers>>,
    access: Option<Client>,
    folder: Option<PathBuf>,
}

impl Server {
    /// Returns a builder.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }
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
            checks: Checks::default(),
            registries: Vec::new(),
            probes: None,
            surface: Surface::All,
            controllers: None,
            access: None,
            folder: None,
        }
    }

    /// Adds an informer, before or after its start. It gets a handler with the name `serve`, until the server ends. More
    /// can be added later: [`Server::add`].
    pub fn informer<K>(mut self, informer: &Informer<K>) -> Self {
        self.informers.push(informer.dynamic());
        self
    }

    /// Sets the address to listen on; the default is `127.0.0.1:4000`. Port 0 picks a free port. An address that other
    /// machines can reach needs a [token](Self::token) or [access checks](Self::delegate_access).
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
    ///
    /// ```
    /// # fn example(pods: &kinformer::Informer<k8s_openapi::api::core::v1::Pod>) {
    /// use kinformer_serve::Server;
    ///
    /// // Passwords in the environment of containers are neither shown nor compared.
    /// let server = Server::builder().informer(pods).hide_field("spec.containers.env");
    /// # _ = server;
    /// # }
    /// ```
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

    /// Adds a check to `/healthz`, and as `/healthz/NAME`: for a liveness probe. Without any, `/healthz` is 200 while the
    /// server runs.
    ///
    /// The check is called for each request, on a worker of the runtime: it must not block. The error is why it has failed,
    /// and is shown. A panic is a failure with its message.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// use kinformer_serve::Server;
    ///
    /// let is_connected = Arc::new(AtomicBool::new(false)); // set by the program
    /// let check = move || match is_connected.load(Ordering::Relaxed) {
    ///     true => Ok(()),
    ///     false => Err("no connection to the database".to_owned()),
    /// };
    /// let server = Server::builder().health_check("database", check); // at /healthz/database
    /// # _ = server;
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`Manager.AddHealthzCheck`).
    #[doc(alias = "AddHealthzCheck")]
    pub fn health_check(
        mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.health.push(Check::new(name.into(), check));
        self
    }

    /// Adds a check to `/readyz`, before those of the informers, and as `/readyz/NAME`: see
    /// [`health_check`](Self::health_check).
    ///
    /// Follows controller-runtime 0.25 (`Manager.AddReadyzCheck`).
    #[doc(alias = "AddReadyzCheck")]
    pub fn ready_check(
        mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.ready.push(Check::new(name.into(), check));
        self
    }

    /// Adds metrics of the program to `/metrics`: a `Registry`, or an `Arc` of one. Those of the
    /// [informers](Self::informer) are there without it.
    ///
    /// A registry does not list its families, so only those that are written at the time of [`bind`](Self::bind) are
    /// compared by name: not a `Family` that has no metric yet, and not what a collector adds later.
    ///
    /// ```
    /// use kinformer_serve::Server;
    /// use prometheus_client::{metrics::counter::Counter, registry::Registry};
    ///
    /// let (mut registry, orders) = (Registry::default(), Counter::<u64>::default());
    /// registry.register("orders", "Orders since the start", orders.clone());
    /// let server = Server::builder().metrics(registry);
    /// orders.inc();
    /// # _ = server;
    /// ```
    pub fn metrics(mut self, registry: impl Into<Arc<Registry>>) -> Self {
        self.registries.push(registry.into());
        self
    }

    /// Also answers `/healthz` and `/readyz` on this address, with what is below them, and nothing else. There is neither a
    /// token nor a check of the host, since the kubelet sends the address of the pod and no token; other machines may reach
    /// it. Port 0 picks a free port: [`Server::probes_addr`].
    ///
    /// With a [token](Self::token), the two paths then need it on the main address.
    #[doc(alias = "HealthProbeBindAddress")]
    pub fn probes_on(mut self, address: SocketAddr) -> Self {
        self.probes = Some(address);
        self
    }

    /// Serves HTTPS, with the certificate `tls.crt` and the key `tls.key` of a folder, in PEM: the names of a Kubernetes
    /// secret, and of controller-runtime's `CertDir`. TLS 1.2 and 1.3; the [probes](Self::probes_on) stay without it.
    ///
    /// Both files are read at [`bind`](Self::bind), and then every 10 s. A changed pair is that of new connections. While
    /// the files are no pair, such as half written ones, the old one stays in use; this is logged once for each change,
    /// and counted by `certwatcher_read_certificate_errors_total`.
    ///
    /// Follows controller-runtime 0.25 (`certwatcher`), which also reads when inotify reports a change.
    #[cfg(feature = "rustls-tls")]
    pub fn tls(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Lets the API server decide about each request but those for the page's files and, without a
    /// [listener for probes](Self::probes_on), for the health. The bearer token must be one of a user, by a TokenReview, who
    /// is allowed by a SubjectAccessReview to read the path: `nonResourceURLs`, with the method in lower case as the verb.
    /// Paths that start with `/api` are reviewed with the prefix `/kinformer`: every cluster allows all users to read `/api/*`
    /// (`system:discovery`).
    ///
    /// Addresses that other machines can reach are then allowed; see also [`allowed_host`](Self::allowed_host).
    ///
    /// Answers are kept: for 1 min the user of a token, for 5 min that a path is allowed, and for 30 s that it is not.
    /// If the API server does not answer within 10 s, the response is 500. The client needs the permissions to create
    /// `tokenreviews` and `subjectaccessreviews`, as by the cluster role `system:auth-delegator`.
    ///
    /// ```
    /// # fn example(client: kinformer::kube_client::Client) {
    /// use kinformer_serve::Server;
    ///
    /// // For users of the cluster: `kubectl create token` makes a token for the header of requests.
    /// let server = Server::builder().listen(([0, 0, 0, 0], 8443).into());
    /// let server = server.tls("/certificates").delegate_access(client);
    /// # _ = server;
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`filters.WithAuthenticationAndAuthorization`), which retries failed reviews, and
    /// answers 500 for a token that is refused with an error.
    pub fn delegate_access(mut self, client: Client) -> Self {
        self.access = Some(client);
        self
    }

    /// Answers `/healthz`, `/readyz` and `/metrics` only: there is no page and no data of objects. The informers then get
    /// no handler. An address that other machines can reach then needs no token, and answers to any host name, as that of
    /// a Service which Prometheus scrapes.
    pub fn metrics_only(mut self) -> Self {
        self.surface = Surface::MetricsOnly;
        self
    }

    /// Shows the controllers of the program, on the page and at `/api/v1/controllers`.
    pub fn controllers(mut self, controllers: impl Controllers) -> Self {
        self.controllers = Some(Arc::new(controllers));
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Listens on the address, and on that of the [probes](Self::probes_on). Connections are accepted, and answered once the
    /// server [runs](Server::run).
    ///
    /// # Errors
    /// [`Error::Listen`], which names the address; [`Error::TokenRequired`], [`Error::TokenAndAccess`],
    /// [`Error::InvalidToken`], [`Error::Certificate`], [`Error::NotHideable`], [`Error::InvalidField`], [`Error::InvalidHost`], [`Error::InvalidCheck`],
    /// [`Error::DuplicateMetric`], [`Error::Metrics`], [`Error::DuplicateInformer`]; [`Error::Informer`] if an informer has
    /// stopped.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing listens, and no handler is left.
    pub async fn bind(self) -> Result<Server, Error> {
        self.check()?;
        let hidden = HiddenFields::new(self.hidden)?;
        let reads = CertificateReads::default();
        let metrics = Metrics::new(self.registries, self.folder.as_ref().map(|_| &reads))?;
        #[cfg(feature = "rustls-tls")]
        let tls = match self.folder {
            Some(folder) => Some(Tls::read(folder, reads).await?),
            None => None,
        };
        #[cfg(not(feature = "rustls-tls"))]
        let tls: Option<Tls> = None;
        let main = Socket::of(listen_on(self.address, self.any_port)?, self.address)?;
        let probes = match self.probes {
            Some(address) => Some(Socket::of(listen_on(address, false)?, address)?),
            None => None,
        };
        let guard = Guard {
            token: self.token,
            hosts: self.hosts,
            address: main.address.ip(),
            is_health_public: probes.is_none(),
            any_host: self.surface == Surface::MetricsOnly && is_reachable(main.address),
        };
        let settings = Settings {
            guard,
            hidden,
            show_secrets: self.show_secrets,
            cluster: self.cluster,
            limits: self.limits,
            clients: self.clients,
            index_fields: self.index_fields,
            failures: self.failures,
            checks: self.checks,
            controllers: self.controllers,
            surface: self.surface,
            access: self.access.map(Access::new),
        };
        let app = Arc::new(App::new(settings, metrics));
        for informer in self.informers {
            app.add(informer)?;
        }
        Ok(Server::new(app, main, probes, tls))
    }

    /// Checks what needs no socket.
    fn check(&self) -> Result<(), Error> {
        if let Some(token) = &self.token
            && !token.is_usable()
        {
            return Err(Error::InvalidToken);
        }
        if self.token.is_some() && self.access.is_some() {
            return Err(Error::TokenAndAccess);
        }
        let is_open =
            self.token.is_none() && self.access.is_none() && !self.address.ip().to_canonical().is_loopback();
        if is_open && self.surface != Surface::MetricsOnly {
            return Err(Error::TokenRequired { address: self.address });
        }
        if let Some(host) = self.hosts.iter().find(|host| !is_host(host)) {
            return Err(Error::InvalidHost { host: host.clone() });
        }
        Check::check_names(&self.checks.health)?;
        Check::check_names(&self.checks.ready)
    }
}

/// Whether other machines can reach an address.
fn is_reachable(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
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
