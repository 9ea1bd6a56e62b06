//! A cluster for a test: a server, a ready client, and waits.

mod builder;
mod manifests;
mod objects;
mod server;
mod transport;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use parking_lot::Mutex;

use crate::{ApiServer, Error, Faults, LoggedRequests, Snapshot};

pub use builder::TestClusterBuilder;
pub use wait::{NotReached, Wait};

/// An API server for a test of an operator, with a ready client.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_apiserver::TestCluster;
/// use kube_client::Api;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = TestCluster::start().await?;
/// cluster.create_yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {team: storage}}")?;
///
/// // The operator, which gets only the client.
/// let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
/// let operator = tokio::spawn(async move {
///     let mut settings = maps.get("settings").await?;
///     settings.metadata.labels = settings.data.clone();
///     maps.replace("settings", &Default::default(), &settings).await
/// });
///
/// // The check of the test: until it holds, or with the reason why it does not.
/// let team = cluster
///     .eventually(|| {
///         let settings = cluster.get::<ConfigMap>("settings").map_err(|error| error.to_string())?;
///         settings.metadata.labels.and_then(|labels| labels.get("team").cloned()).ok_or("no label".to_owned())
///     })
///     .await?;
/// assert_eq!(team, "storage");
/// operator.await??;
/// # cluster.shutdown().await;
/// # Ok(())
/// # }
/// ```
///
/// # Time
///
/// The requests of [`Self::client`] stay in memory: they are the HTTP of the server, without sockets. So a paused clock
/// (`#[tokio::test(start_paused = true)]`) advances only when the operator, the server and the test all wait for time, and
/// a test of a retry after an hour takes no time. A client of [`ApiServer::config`] or [`ApiServer::url`] uses a socket.
/// Tokio does not know of bytes in a socket: a paused clock may then advance to the next timeout while they are in
/// flight. Use such clients in real time only.
///
/// Dropping the cluster shuts it down without waiting; [`Self::shutdown`] waits.
pub struct TestCluster {
    server: ApiServer,
    client: Client,
    limit: Duration,
    explanations: Explanations,
}

type Explanations = Arc<Mutex<Vec<Arc<dyn fmt::Display + Send + Sync>>>>;

impl fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestCluster").field("server", &self.server).finish_non_exhaustive()
    }
}

impl TestCluster {
    /// Starts an empty cluster: the built-in kinds and namespaces, garbage collection, and a log of the newest 1,000
    /// requests.
    ///
    /// # Cancel safety
    /// The future never waits: its first poll starts the cluster and completes.
    ///
    /// # Errors
    /// [`Error::Listen`] if the system has no free port.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts a cluster with the state of a snapshot, in a time that does not depend on the sizes of its objects: many tests
    /// start from one state that was made once. The clusters share the objects, and do not affect each other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # use kinformer_apiserver::TestCluster;
    /// let template = TestCluster::builder().yaml("{apiVersion: v1, kind: Namespace, metadata: {name: a}}").start().await?;
    /// let state = template.snapshot();
    /// for _ in 0..10 {
    ///     let cluster = TestCluster::from_snapshot(&state).await?;
    ///     cluster.delete::<Namespace>("a")?;
    /// }
    /// assert!(template.get::<Namespace>("a").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As [`Self::start`].
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn from_snapshot(snapshot: &Snapshot) -> Result<Self, Error> {
        Self::builder().snapshot(snapshot).start().await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> TestClusterBuilder {
        TestClusterBuilder::default()
    }

    /// Returns a client, whose requests stay in memory. Its default namespace is `default`. Each request has a connection of
    /// its own.
    ///
    /// Faults apply to it as to other clients. It works while the cluster lives, on the runtime on which the cluster was
    /// started.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// As [`Self::client`], with this `User-Agent`: `my-operator/1.0`. The log selects its requests
    /// [by](LoggedRequests::by) its name.
    ///
    /// # Errors
    /// [`Error::Client`] if the text is not valid in a header.
    pub fn client_of(&self, user_agent: &str) -> Result<Client, Error> {
        transport::client(&self.server, user_agent)
    }

    /// Returns the server, for everything else: kubeconfigs, metrics, JSON objects, dropped watches.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// As [`ApiServer::faults`].
    pub fn faults(&self) -> Faults {
        self.server.faults()
    }

    /// As [`ApiServer::requests`].
    pub fn requests(&self) -> LoggedRequests {
        self.server.requests()
    }

    /// As [`ApiServer::snapshot`].
    pub fn snapshot(&self) -> Snapshot {
        self.server.snapshot()
    }

    /// As [`ApiServer::restore`].
    pub fn restore(&self, snapshot: &Snapshot) {
        self.server.restore(snapshot);
    }

    /// Adds an explanation to the failures of all later waits: a value whose text is read when a wait fails, such as the
    /// monitor of a controller, which has the errors of its reconciliations.
    pub fn explain(&self, explanation: impl fmt::Display + Send + Sync + 'static) {
        self.explanations.lock().push(Arc::new(explanation));
    }

    /// Waits until a check succeeds, and returns its value.
    ///
    /// The check runs at once, after each write to the server, and every 100 ms of tokio's clock, for other states: of the
    /// operator, of the log. With a limit of more than 30 s it is every 300th part of the limit, and every minute at least.
    /// The check may borrow anything.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and nothing else.
    ///
    /// # Errors
    /// [`NotReached`] after 30 s of tokio's clock, or [another limit](Self::within); and if a paused clock stands still
    /// during 10,000 checks, because the operator writes without an end.
    pub async fn eventually<T, E: fmt::Display>(
        &self,
        check: impl FnMut() -> Result<T, E>,
    ) -> Result<T, NotReached> {
        self.within(self.limit).eventually(check).await
    }

    /// As [`Self::eventually`], for a check that waits, such as one that sends requests. A check that runs at the time limit
    /// is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kube_client::Api;
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # let cluster = kinformer_apiserver::TestCluster::start().await?;
    /// let namespaces = Api::<Namespace>::all(cluster.client());
    /// cluster.eventually_async(async || namespaces.get("default").await).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The requests of a check are logged, and faults apply to them. A check that writes leads to its own repetition.
    ///
    /// # Cancel safety
    /// Dropping the future drops the check at its await point.
    ///
    /// # Errors
    /// As [`Self::eventually`].
    pub async fn eventually_async<T, E: fmt::Display>(
        &self,
        check: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<T, NotReached> {
        self.within(self.limit).eventually_async(check).await
    }

    /// Returns a wait with another time limit: `cluster.within(hour).eventually(..)`.
    pub fn within(&self, limit: Duration) -> Wait<'_> {
        Wait { cluster: self, limit }
    }

    /// As [`ApiServer::shutdown`].
    ///
    /// # Cancel safety
    /// As [`ApiServer::shutdown`].
    pub async fn shutdown(self) {
        drop(self.client);
        self.server.shutdown().await;
    }
}
