//! What `watch` and `get` begin with: a cluster, and the resources that are meant.

use std::time::Duration;

use crate::args::{ConnectionArgs, ScopeArgs};
use crate::connect::Connection;
use crate::exit::Error;
use crate::resources::{Catalogue, Served};
use crate::stop::Stop;

/// How long the server may take to say what it serves.
const DISCOVERY: Duration = Duration::from_secs(30);

/// A cluster, the resources that are meant, and where.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) resources: Vec<Served>,
    /// That of resources that have one; `None` for all.
    pub(crate) namespace: Option<String>,
}

impl Session {
    /// Finds the cluster and asks it for the resources; `None` when it is told to stop meanwhile.
    ///
    /// # Errors
    /// No cluster, no answer, a refusal, or a name that means nothing.
    pub(crate) async fn begin(
        cluster: &ConnectionArgs,
        scope: &ScopeArgs,
        names: &[String],
        stop: &Stop,
    ) -> Result<Option<Self>, Error> {
        let connection = Connection::open(cluster).await?;
        let asked = async {
            let asking = Catalogue::discover(&connection.client, &connection.server);
            let late = |_| Error::Late(format!("{} has not said what it serves in 30 s", connection.server));
            tokio::time::timeout(DISCOVERY, asking).await.map_err(late)??.find_all(names)
        };
        let resources = tokio::select! {
            resources = asked => resources?,
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
            "found the resources"
        );
        Ok(Some(Self { connection, resources, namespace }))
    }
}
