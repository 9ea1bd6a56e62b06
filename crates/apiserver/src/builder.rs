//! Configuration of a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::access::{Access, AccessControl, Token};
use crate::admission::Services;
use crate::api::{Api, Clients, NamespaceLifecycle, Settings};
use crate::builtin::Validation;
use crate::gc::{GarbageCollection, Kubelets};
use crate::http::{Context, FaultHeader, Hosts, Listening, Options, ProtobufAnswers, ShardSelectors, serve};
use crate::requests::RequestLog;
use crate::server::{ApiServer, Tls};
use crate::snapshot::Snapshot;
use crate::storage::Window;
use crate::{Error, Fault};

/// Configuration of a server. Every setting has a default.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    address: SocketAddr,
    beyond_loopback: bool,
    token: Option<Token>,
    access: Option<Access>,
    accept_hosts: Vec<String>,
    services: Services,
    #[cfg(feature = "tls")]
    tls: bool,
    window: Window,
    kubernetes: u32,
    first_version: Option<u64>,
    faults: Vec<Fault>,
    lifecycle: NamespaceLifecycle,
    garbage_collection: GarbageCollection,
    kubelets: Kubelets,
    validation: Validation,
    bookmark_interval: Duration,
    fault_header: FaultHeader,
    shards: ShardSelectors,
    protobuf: ProtobufAnswers,
    request_log: usize,
    snapshot: Option<Snapshot>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            beyond_loopback: false,
            token: None,
            access: None,
            accept_hosts: Vec::new(),
            services: Services::default(),
            #[cfg(feature = "tls")]
            tls: false,
            window: Window { events: 10_000, bytes: 256 << 20 },
            kubernetes: 37,
            first_version: None,
            faults: Vec::new(),
            lifecycle: NamespaceLifecycle::default(),
            garbage_collection: GarbageCollection::default(),
            kubelets: Kubelets::default(),
            validation: Validation::default(),
            bookmark_interval: Duration::from_secs(60),
            fault_header: FaultHeader::default(),
            shards: ShardSelectors::default(),
            protobuf: ProtobufAnswers::default(),
            request_log: 0,
            snapshot: None,
        }
    }
}

impl ApiServer {
    /// Returns a builder with the default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Sets the loopback address to listen on. Default: `127.0.0.1` and any free port.
    #[doc(alias = "ListenAddr")]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self.beyond_loopback = false;
        self
    }

    /// Sets the address to listen on, which need not be a loopback address. Every client that can reach it can read
    /// and write all objects, unless a token is set.
    pub fn listen_beyond_loopback(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self.beyond_loopback = true;
        self
    }

    /// Requires this bearer token in every request but those for `/version` and health. By default, no token is
    /// required: every program that can reach the server can read and write all objects; [web
    /// pages](Self::accept_host) cannot.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Token::new(token.into()));
        self
    }

    /// Allows requests by roles and bindings. Default: every request may do everything.
    ///
    /// The user of [`Self::token`], or of a token that is made up, may do everything; the kubeconfig of the server has it.
    /// With plain HTTP, `kubectl` does not send the token of a kubeconfig.
    pub fn access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// Also accepts requests whose `Host` is this name or address, with any port.
    ///
    /// Without a token, the host of a request must be loopback (`localhost`, 127.0.0.1, `[::1]`), the address that
    /// the request was sent to, or a name that was added here. Any other name is rejected with 403: it may belong to
    /// a web page that bypasses the browser's same-origin policy by DNS rebinding. With a token, any name is
    /// accepted. Requests from pages of other origins are always rejected.
    ///
    /// Follows kubectl 1.37 (`proxy --accept-hosts`).
    pub fn accept_host(mut self, name: impl Into<String>) -> Self {
        self.accept_hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// Sets where the webhooks of a service are: on this address, for this port of the service. It needs the feature `tls`.
    ///
    /// A MutatingWebhookConfiguration or ValidatingWebhookConfiguration names a webhook by a URL or by a service. A service has
    /// no processes here; this is the address of one. Its certificate must be for `NAME.NAMESPACE.svc`, and be signed by the
    /// `caBundle` of the configuration, as in Kubernetes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use kinformer_apiserver::ApiServer;
    ///
    /// let webhooks = tokio::net::TcpListener::bind("127.0.0.1:0").await?; // the webhook server of the operator
    /// let server = ApiServer::builder().service("default", "operator", 443, webhooks.local_addr()?).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn service(
        mut self,
        namespace: impl Into<String>,
        name: impl Into<String>,
        port: u16,
        address: SocketAddr,
    ) -> Self {
        self.services.add(namespace.into(), name.into(), port, address);
        self
    }

    /// Serves HTTPS with a self-signed certificate, generated at start. Default: plain HTTP.
    #[doc(alias = "SecureServing")]
    #[cfg(feature = "tls")]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Sets the number of events kept per resource, at least 1. Default: 10,000.
    ///
    /// This limits how far back a watch or an exact list can start, and how far a watch may lag before it is closed.
    pub fn history(mut self, events: usize) -> Self {
        self.window.events = events;
        self
    }

    /// Sets the bytes of the events kept per resource. An event has the bytes of the object before and after the change.
    /// The newest event is always kept. Default: 256 MiB.
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.window.bytes = bytes;
        self
    }

    /// Sets the minor version of Kubernetes whose answers the server gives: 37 or 38. Default: 37.
    ///
    /// Since Kubernetes 1.38, the `Status` that answers a deletion, a binding or an eviction has the resource version of
    /// the write, and a client that accepts `application/json;drop=metadata.managedFields` gets objects without managed
    /// fields (KEP-5958, which a cluster has with the feature gate `ManagedFieldsOptOut`). Other answers are those of
    /// 1.37 in any case.
    pub fn kubernetes(mut self, minor: u32) -> Self {
        self.kubernetes = minor;
        self
    }

    /// Sets the first resource version. Default: the microseconds since 1970, so that a server never issues a version
    /// of a server that was started earlier.
    ///
    /// An explicit version simulates a cluster that was restored from an older state, so that its versions start
    /// over. See [`Fault::future_versions`](crate::Fault::future_versions).
    pub fn first_version(mut self, version: u64) -> Self {
        self.first_version = Some(version.max(1));
        self
    }

    /// Injects a fault before the first connection is accepted. See [`Faults::inject`](crate::Faults::inject).
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Sets how objects in a missing namespace are handled. Default: they are rejected.
    pub fn namespace_lifecycle(mut self, lifecycle: NamespaceLifecycle) -> Self {
        self.lifecycle = lifecycle;
        self
    }

    /// Sets whether objects are deleted with their owners. Default: they are.
    pub fn garbage_collection(mut self, collection: GarbageCollection) -> Self {
        self.garbage_collection = collection;
        self
    }

    /// Sets how the deletion of scheduled pods ends. Default: a simulated kubelet ends it.
    pub fn kubelets(mut self, kubelets: Kubelets) -> Self {
        self.kubelets = kubelets;
        self
    }

    /// Sets whether objects of built-in kinds get the defaults of Kubernetes and are validated. Default: they are.
    ///
    /// [`Validation::Off`] is for benchmarks and simulations, which write many small objects.
    pub fn validation(mut self, validation: Validation) -> Self {
        self.validation = validation;
        self
    }

    /// Sets the interval of bookmarks for watches that request them. Default: one minute, as in Kubernetes.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        // A timer that is always due would starve the events.
        self.bookmark_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets whether requests may inject faults by a header. Default: they may not.
    pub fn fault_header(mut self, header: FaultHeader) -> Self {
        self.fault_header = header;
        self
    }

    /// Sets whether lists and watches honour `shardSelector`. Default: they ignore it.
    ///
    /// A cluster honours it since Kubernetes 1.36 with the feature gate `ShardedListAndWatch` (KEP-5866, alpha). A list of
    /// a built-in kind then has the selector in `metadata.shardInfo`; a list of custom resources, a table and a list of
    /// metadata have not, although only objects of the shard are in them.
    pub fn shard_selectors(mut self, selectors: ShardSelectors) -> Self {
        self.shards = selectors;
        self
    }

    /// Sets whether responses may be in protobuf. Default: no. Requests may always be in protobuf.
    pub fn protobuf(mut self, answers: ProtobufAnswers) -> Self {
        self.protobuf = answers;
        self
    }

    /// Sets how many requests are logged, the newest ones. Default: none. See
    /// [`ApiServer::requests`](crate::ApiServer::requests).
    ///
    /// A logged request takes about a kilobyte: its path is cut after 2,048 bytes, and it has no body.
    pub fn request_log(mut self, requests: usize) -> Self {
        self.request_log = requests;
        self
    }

    /// Starts with the state of a snapshot: its objects, versions and kinds, and its setting of garbage collection.
    /// [`Self::first_version`] then has no effect.
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    fn settings(&self) -> Settings {
        Settings {
            lifecycle: self.lifecycle,
            window: self.window,
            first_version: self.first_version,
            garbage_collection: self.garbage_collection,
            kubelets: self.kubelets,
            access_controllers: self.access.as_ref().is_some_and(Access::has_controllers),
            validation: self.validation,
        }
    }

    /// Starts the server. It accepts connections when this function returns.
    ///
    /// # Cancel safety
    /// The future never waits: its first poll starts the server and completes. Without a poll, nothing was started.
    ///
    /// # Errors
    /// [`Error::NotLoopback`], [`Error::Listen`], [`Error::Token`], [`Error::Tls`].
    pub async fn start(self) -> Result<ApiServer, Error> {
        let address = self.address;
        if !self.beyond_loopback && !address.ip().is_loopback() {
            return Err(Error::NotLoopback { address });
        }
        let is_usable = self.token.as_ref().is_none_or(Token::is_usable);
        if !is_usable || self.access.as_ref().is_some_and(|access| !access.is_usable()) {
            return Err(Error::Token);
        }
        let listener =
            TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address, source })?;
        #[cfg(feature = "tls")]
        let tls = if self.tls { Some(Tls::make(address)?) } else { None };
        #[cfg(not(feature = "tls"))]
        let tls: Option<Tls> = None;
        let context = Arc::new(self.context()?);
        for fault in self.faults {
            context.faults.inject(fault);
        }
        let tasks = TaskTracker::new();
        let acceptor = tls.as_ref().map(Tls::acceptor);
        tasks.spawn(serve(Listening {
            context: context.clone(),
            listener,
            address,
            tls: acceptor,
            tasks: tasks.clone(),
        }));
        Ok(ApiServer::new(context, address, tls, tasks))
    }

    /// Returns the state of a server without connections.
    fn context(&self) -> Result<Context, Error> {
        let api = Api::new(self.settings())?;
        if let Some(snapshot) = &self.snapshot {
            api.load(snapshot.state(), Clients::None);
        }
        if self.access.is_some() {
            api.writes(|| api.create_bootstrap_roles());
        }
        let access = AccessControl::new(self.access.as_ref(), self.token.clone());
        let hosts = Hosts { accepted: self.accept_hosts.clone() };
        let options = Options {
            fault_header: self.fault_header,
            shards: self.shards,
            bookmark_interval: self.bookmark_interval,
            protobuf: self.protobuf,
            kubernetes: self.kubernetes,
            services: self.services.clone(),
        };
        Ok(Context::new(api, access, hosts, RequestLog::new(self.request_log), options))
    }
}
