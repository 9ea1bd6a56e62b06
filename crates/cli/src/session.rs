//! The start of `watch` and `get`: the cluster and the requested resources.

use std::time::Duration;

use crate::args::{ConnectionArgs, ScopeArgs};
use crate::connect::Connection;
use crate::exit::Error;
use crate::resources::{Catalogue, Served};
use crate::stop::Stop;

/// How long discovery may take.
const DISCOVERY: Duration = Duration::from_secs(30);

/// A cluster, the requested resources, and the namespace.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) resources: Vec<Served>,
    /// The namespace of namespaced resources; `None` for all.
    pub(crate) namespace: Option<String>,
}

impl Session {
    /// Connects to the cluster and resolves the resources, which must have these verbs; `None` if `stop` comes first.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time or rejects the request, or there is no such resource.
    pub(crate) async fn begin(
        cluster: &ConnectionArgs,
        scope: &ScopeArgs,
        names: &[String],
        verbs: &[&str],
        stop: &Stop,
    ) -> Result<Option<Self>, Error> {
        let connection = Connection::open(cluster).await?;
        let resolve = async {
            let discovery = Catalogue::discover(&connection.client, &connection.server);
            let timed_out = |_| {
                Error::Timeout(format!("{} did not answer the discovery requests in 30 s", connection.server))
            };
            tokio::time::timeout(DISCOVERY, discovery).await.map_err(timed_out)??.find_all(names, verbs)
        };
        let resources = tokio::select! {
            resources = resolve => resources?,
            () = stop.requested() => {
                connection.close().await;
                return Ok(None);
            }
        };
        let namespace = connection.namespace(scope);
        let found: Vec<String> = resources.iter().map(Served::name).collect();
        tracing::info!(
            server = connection.server,
            resources = found.join(","),
            namespace,
            "resources discovered"
        );
        Ok(Some(Self { connection, resources, namespace }))
    }
}
