//! How a server is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::api::{Api, NamespaceLifecycle};
use crate::http::{Access, Context, FaultHeader, Listening, ProtobufAnswers, Token, serve};
use crate::server::{ApiServer, Tls};
use crate::{Error, Fault};

/// The settings of a server. All of them have defaults.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    address: SocketAddr,
    beyond_loopback: bool,
    token: Option<Token>,
    accept_hosts: Vec<String>,
    #[cfg(feature = "tls")]
    tls: bool,
    history: usize,
    first_version: Option<u64>,
    faults: Vec<Fault>,
    lifecycle: NamespaceLifecycle,
    bookmark_interval: Duration,
    fault_header: FaultHeader,
    protobuf: ProtobufAnswers,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            beyond_loopback: false,
            token: None,
            accept_hosts: Vec::new(),
            #[cfg(feature = "tls")]
            tls: false,
            history: 10_000,
            first_version: None,
            faults: Vec::new(),
            lifecycle: NamespaceLifecycle::default(),
            bookmark_interval: Duration::from_secs(60),
            fault_header: FaultHeader::default(),
            protobuf: ProtobufAnswers::default(),
        }
    }
}

impl ApiServer {
    /// A server with default settings, to be changed and started.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Where to listen: a loopback address. By default `127.0.0.1` and any free port.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self.beyond_loopback = false;
        self
    }

    /// Where to listen, on any address. Whoever reaches it can read and write everything, unless there is a
    /// token.
    pub fn listen_beyond_loopback(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self.beyond_loopback = true;
        self
    }

    /// Requests must carry this bearer token; those for `/version` and health may carry none. By default no token is
    /// required: every program that reaches the server can read and write everything, but for
    /// [web pages](Self::accept_host).
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Token::new(token.into()));
        self
    }

    /// Also answers requests whose `Host` is this name or address. Ports do not matter.
    ///
    /// Without a token, a request must name the loopback (`localhost`, 127.0.0.1, `[::1]`), the address that it was
    /// sent to, or what was added here. Any other name is answered with 403: it may be one that a web page has brought
    /// to this address to get around the browser's same-origin policy. With a token any name is accepted. Requests of
    /// pages of other origins are refused in any case.
    ///
    /// Follows kubectl 1.37 (`proxy --accept-hosts`).
    pub fn accept_host(mut self, name: impl Into<String>) -> Self {
        self.accept_hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// Serves HTTPS with a certificate made at start and signed by itself. By default plain HTTP.
    #[cfg(feature = "tls")]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// How many events of each resource are remembered, at least 1. By default 10,000.
    ///
    /// It is how far back one can watch and list, and how far a watcher may lag before it is cut off. An
    /// event holds the object's bytes before and after.
    pub fn history(mut self, events: usize) -> Self {
        self.history = events;
        self
    }

    /// The version that the server begins with. By default the microseconds since 1970, so that no version of a server
    /// that was started later is one of a server that was started before.
    ///
    /// With a version of its own a server can be what a cluster is after the restore of an older state: one whose
    /// versions have begun again. See [`Fault::future_versions`](crate::Fault::future_versions).
    pub fn first_version(mut self, version: u64) -> Self {
        self.first_version = Some(version.max(1));
        self
    }

    /// Arms a fault before the first connection is taken. See [`Faults::inject`](crate::Faults::inject).
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// What happens to objects whose namespace does not exist. By default they are refused.
    pub fn namespace_lifecycle(mut self, lifecycle: NamespaceLifecycle) -> Self {
        self.lifecycle = lifecycle;
        self
    }

    /// How often a watch that asked for bookmarks gets one. By default every minute, as in Kubernetes.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        // A timer that is always due would starve the events.
        self.bookmark_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Whether requests may ask for faults by a header. By default they may not.
    pub fn fault_header(mut self, header: FaultHeader) -> Self {
        self.fault_header = header;
        self
    }

    /// Whether answers may be in protobuf. By default they may not; requests always may.
    pub fn protobuf(mut self, answers: ProtobufAnswers) -> Self {
        self.protobuf = answers;
        self
    }

    /// Starts the server. It can be talked to when this returns.
    ///
    /// Cancel safe: nothing is left of a server that was not returned.
    ///
    /// # Errors
    /// [`Error::NotLoopback`], [`Error::Listen`], [`Error::Token`], [`Error::Tls`].
    pub async fn start(self) -> Result<ApiServer, Error> {
        let address = self.address;
        if !self.beyond_loopback && !address.ip().is_loopback() {
            return Err(Error::NotLoopback { address });
        }
        if self.token.as_ref().is_some_and(|token| !token.is_usable()) {
            return Err(Error::Token);
        }
        let listener =
            TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address, source })?;
        #[cfg(feature = "tls")]
        let tls = if self.tls { Some(Tls::make(address)?) } else { None };
        #[cfg(not(feature = "tls"))]
        let tls: Option<Tls> = None;
        let api = Api::new(self.lifecycle, self.history, self.first_version)?;
        let access = Access { token: self.token, hosts: self.accept_hosts };
        let context =
            Arc::new(Context::new(api, access, self.fault_header, self.bookmark_interval, self.protobuf));
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
}
