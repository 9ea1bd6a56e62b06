//! The start of `watch` and `get`: the cluster and the requested resources.

use std::time::Duration;

use crate::args::GlobalArgs;
use crate::connect::Connection;
use crate::exit::Error;
use crate::namespaces::Namespaces;
use crate::resources::{Catalogue, Served};
use crate::stop::Stop;

/// How long discovery may take.
const DISCOVERY: Duration = Duration::from_secs(30);

/// A cluster, the requested resources, and the namespaces.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) resources: Vec<Served>,
    pub(crate) namespaces: Namespaces,
}

/// A cluster and all its resources.
pub(crate) struct Discovered {
    pub(crate) connection: Connection,
    pub(crate) catalogue: Catalogue,
}

impl Discovered {
    /// Connects to the cluster and discovers its resources; `None` if `stop` comes first.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time or rejects the request. [`Error::Usage`] for an invalid selector
    /// of namespaces.
    pub(crate) async fn begin(global: &GlobalArgs, stop: &Stop) -> Result<Option<Self>, Error> {
        global.scope.check()?;
        let connection = Connection::open(&global.cluster).await?;
        let discovery = Catalogue::discover(&connection.client, &connection.server);
        let discovery = connection.in_time(Some(DISCOVERY), "the discovery requests", discovery);
        let catalogue = stop.unless(discovery).await.transpose()?;
        match catalogue {
            Some(catalogue) => Ok(Some(Self { connection, catalogue })),
            None => {
                connection.close().await;
                Ok(None)
            }
        }
    }
}

impl Session {
    /// Connects to the cluster and resolves the resources, which must have these verbs; `None` if `stop` comes first.
    ///
    /// # Errors
    /// As [`Discovered::begin`], or there is no such resource.
    pub(crate) async fn begin(
        global: &GlobalArgs,
        names: &[String],
        verbs: &[&str],
        stop: &Stop,
    ) -> Result<Option<Self>, Error> {
        let Some(Discovered { connection, catalogue }) = Discovered::begin(global, stop).await? else {
            return Ok(None);
        };
        let resources = catalogue.find_all(names, verbs)?;
        let namespaces = connection.namespaces(&global.scope);
        let found: Vec<String> = resources.iter().map(Served::name).collect();
        tracing::info!(
            server = connection.server,
            resources = found.join(","),
            namespaces = namespaces.in_words(),
            "resources discovered"
        );
        Ok(Some(Self { connection, resources, namespaces }))
    }
}
