//! The cluster of a test.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use parking_lot::Mutex;

use crate::{ApiServer, Error, Faults, LoggedRequests, Snapshot};

use super::transport;

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
#[doc(alias("envtest", "NewClientset", "NewFakeClient", "NewSimpleClientset", "NewSimpleDynamicClient"))]
pub struct TestCluster {
    pub(super) server: ApiServer,
    pub(super) client: Client,
    /// The time limit of waits.
    pub(super) limit: Duration,
    pub(super) explanations: Explanations,
}

/// Texts for the failures of waits.
pub(super) type Explanations = Arc<Mutex<Vec<Arc<dyn fmt::Display + Send + Sync>>>>;

impl fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestCluster").field("server", &self.server).finish_non_exhaustive()
    }
}

impl TestCluster {
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
        transport::client(&self.server, user_agent, None)
    }

    /// As [`Self::client`], of another user: of a user of [`Access`](crate::Access) by its token, of any other one by
    /// impersonation. The user of a service account is `system:serviceaccount:NAMESPACE:NAME`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kinformer_apiserver::{Access, TestCluster};
    /// # use kube_client::Api;
    /// let cluster = TestCluster::builder().access(Access::rbac()).start().await?;
    /// let operator = cluster.client_as("system:serviceaccount:default:operator")?;
    /// let denied = Api::<ConfigMap>::default_namespaced(operator).list(&Default::default()).await.unwrap_err();
    /// assert!(denied.to_string().contains("cannot list resource \"configmaps\""), "{denied}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] without access control, since every user may do everything then.
    #[doc(alias = "AddUser")]
    pub fn client_as(&self, user: &str) -> Result<Client, Error> {
        if !self.server.has_roles() {
            let reason =
                "every user may do everything; start the cluster with `access(Access::rbac())`".into();
            return Err(Error::Client { url: self.server.url(), reason });
        }
        transport::client(&self.server, "", Some(user))
    }

    /// Returns the server, for everything else: kubeconfigs, metrics, JSON objects, dropped watches.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// As [`ApiServer::faults`].
    #[doc(alias("PrependReactor", "PrependWatchReactor", "WithInterceptorFuncs"))]
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

    /// As [`ApiServer::shutdown`].
    ///
    /// # Cancel safety
    /// As [`ApiServer::shutdown`].
    pub async fn shutdown(self) {
        drop(self.client);
        self.server.shutdown().await;
    }
}
